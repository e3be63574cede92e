package mutation

// delayBugs are mutations of the lock delay.
var delayBugs = []mutation{
	{
		name:  "the lock is acquired without a delay",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `return max(q.cfg.delay, m.delay) - time.Since(q.dead.since)`, new: `return 0`}},
		pkg:   "recipes/lock", test: "TestLockDelay",
	},
	{
		name:  "the shorter one of two delays counts",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `max(q.cfg.delay, m.delay)`, new: `min(q.cfg.delay, m.delay)`}},
		pkg:   "recipes/lock", test: "TestLockDelay_OfTwoLengths",
	},
	{
		name:  "a delay begins again at each acquire",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `if q.dead.zxid != m.stat.Mzxid {`, new: `if true {`}},
		pkg:   "recipes/lock", test: "TestLockDelay_TryAcquire",
	},
	{
		name:  "the delay after an earlier death counts",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `if q.dead.zxid != m.stat.Mzxid {`, new: `if q.dead.zxid == 0 {`}},
		pkg:   "recipes/lock", test: "TestLockDelay_LaterDeath",
	},
	{
		name:  "TryAcquire takes a holder for dead",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `case len(children) > 0:`, new: `case len(children) < 0:`}},
		pkg:   "recipes/lock", test: "TestLockDelay_TryAcquireBesideAHolder",
	},
	{
		name:  "a release leaves the mark",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `if state == unmarked {`, new: `if state != asked {`}},
		pkg:   "recipes/lock", test: "TestLockDelay",
	},
	{
		name:  "a release deletes the node before its mark",
		file:  "internal/engine/delete.go",
		edits: []edit{{old: `if d.debt.with.Sure {`, new: `if false {`}},
		pkg:   "recipes/lock", test: "TestLockDelay_WithAnyRequestFailing",
	},
	{
		name:  "a late release deletes the mark of the next holder",
		file:  "internal/engine/delete.go",
		edits: []edit{{old: "\t\tif failed == 1 &&", new: "\t\tif failed == 0 {\n\t\t\task(d, wire.AskDelete(d.debt.with.Path, -1), func(_ wire.None, err error) { d.done(err) })\n\t\t\treturn\n\t\t}\n\t\tif failed == 1 &&"}},
		pkg:   "recipes/lock", test: "TestLockDelay_LateRelease",
	},
	{
		name:  "a missing mark keeps a node from being deleted",
		file:  "internal/engine/delete.go",
		edits: []edit{{old: `if failed == 1 && !verdict.MayPass(err) {`, new: `if failed == 1 && verdict.MayPass(err) {`}},
		pkg:   "recipes/lock", test: "TestLockDelay",
	},
	{
		name:  "a missing mark fails a release with a transaction",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `if !errors.As(err, &refused) || refused.Index < len(ops) || verdict.MayPass(err) {`, new: `if !errors.As(err, &refused) || refused.Index <= len(ops) || verdict.MayPass(err) {`}},
		pkg:   "recipes/lock", test: "TestLockDelay",
	},
	{
		name:  "a caller that gives up leaves its mark",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `if state == unmarked {`, new: `if state != marked {`}},
		pkg:   "recipes/lock", test: "TestLockDelay_GivingUpAtAnyRequest",
	},
	{
		name:  "a caller that gives up deletes the mark of a dead holder",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `Sure: state == marked}`, new: `Sure: true}`}},
		pkg:   "recipes/lock", test: "TestLockDelay_GivingUpInTheDelayAtAnyRequest",
	},
	{
		name:  "Close leaves the mark of a caller that gave up",
		file:  "internal/engine/delete.go",
		edits: []edit{{old: "\tif ctx.Err() != nil {\n\t\tc.debts.discard(d)\n", new: "\tif ctx.Err() != nil {\n\t\td.with = Companion{}\n\t\tc.debts.discard(d)\n"}},
		pkg:   "recipes/lock", test: "TestLockDelay_ReleaseLeftToClose",
	},
	{
		name:  "the end of a hold's time deletes its mark",
		file:  "recipes/lock/term.go",
		edits: []edit{{old: "\t\tn.marked = unmarked // the work may still run\n", new: "\t\t_ = unmarked\n"}},
		pkg:   "recipes/lock", test: "TestLockDelay",
	},
	{
		name:  "the end of a suspended hold's time deletes its mark",
		file:  "recipes/lock/term.go",
		edits: []edit{{old: `t.deleted, n.marked = ErrMaxHold, unmarked`, new: `t.deleted = ErrMaxHold`}},
		pkg:   "recipes/lock", test: "TestLockDelay",
	},
	{
		name:  "a mark is created without its node",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `&zk.CheckVersionRequest{Path: n.path, Version: -1}`, new: `&zk.CheckVersionRequest{Path: n.queue.path, Version: -1}`}},
		pkg:   "recipes/lock", test: "TestLockDelay_NodeDeletedBeforeTheMark",
	},
	{
		name:  "a contender in a delay does not watch the mark",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `other.wait(ctx, watch.Done(), over.Done())`, new: `other.wait(ctx, over.Done())`}},
		pkg:   "recipes/lock", test: "TestLockDelay_OperatorEndsIt",
	},
	{
		name:  "data of another program are taken for a mark",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `if err != nil || d <= 0 || node == "" {`, new: `if err != nil && node == "" {`}},
		pkg:   "recipes/lock", test: "TestLockDelay_ForeignChild",
	},
	{
		name:  "a mark is read with the client's compression",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: `engine.Uncompressed(client).GetW(ctx, q.markPath())`, new: `client.GetW(ctx, q.markPath())`}},
		pkg:   "recipes/lock", test: "TestLockDelay_Compression",
	},
	{
		name:  "numbers do not start again while a mark is left",
		file:  "recipes/lock/node.go",
		edits: []edit{{old: `if q.cfg.delay > 0 && stat.NumChildren > 0 {`, new: `if false {`}},
		pkg:   "recipes/lock", test: "TestLockDelay_ExhaustedNumbers",
	},
	{
		name:  "a lock delay with retention is accepted",
		file:  "recipes/lock/queue.go",
		edits: []edit{{old: `case cfg.delay > 0 && cfg.retention > 0:`, new: `case false:`}},
		pkg:   "recipes/lock", test: "TestLockDelay_BadOptions",
	},
}
