package mutation

// clientBugs are ways to break the client and its connection.
var clientBugs = []mutation{
	{
		name: "a node of an old session is accepted",
		file: "internal/engine/create.go",
		edits: []edit{
			{old: "p.node.session == l.session && retry.Unknown", new: "retry.Unknown"},
			{old: "owner != 0 && owner != l.session.ID()", new: "false && owner != 0"},
		},
		pkg: "framework", test: "TestNodeOfAnEarlierSessionIsNotTakenForOurs",
		worlds: all, seed: 113,
	},
	{
		name:  "Close deletes nodes before all holders are notified",
		file:  "internal/engine/run.go",
		edits: []edit{{old: "\t\t<-session.notified // close", new: "\t\t// close"}},
		pkg:   "framework", test: "TestCloseNotifiesEverybodyBeforeTheServers",
	},
	{
		name:  "a node whose create reply was lost is not deleted",
		file:  "internal/engine/create.go",
		edits: []edit{{old: "\tp.leave()\n\tnode := &unwanted{", new: "\tnode := &unwanted{"}},
		pkg:   "recipes/internal/queue", test: "TestCreateThatComesLateIsInNobodysWay",
	},
	{
		name:  "a node is looked for behind a sync",
		file:  "internal/engine/create.go",
		edits: []edit{{old: "if err := l.CaughtUp(ctx); err != nil {", new: "if _, err := Call(ctx, l, AskSync(dir)); err != nil {"}},
		pkg:   "framework", test: "TestAProtectedNodeIsFoundAgainBehindAReplacedLeader",
	},
	{
		name:  "a server that is behind the events that were received need not catch up",
		file:  "internal/engine/connect.go",
		edits: []edit{{old: "behind || beat {", new: "behind && false || beat {"}},
		pkg:   "framework", test: "TestWhatAnEventReportedIsReadOnTheNextConnection",
	},
	{
		name: "whoever catches up takes the answer to an earlier write",
		file: "internal/engine/connection.go",
		edits: []edit{{
			old: "\t\tl.catchUp()\n\t\tfor _, done := range waiting {",
			new: "\t\tw.mu.Lock()\n\t\twaiting, w.next = append(waiting, w.next...), nil\n\t\tw.mu.Unlock()\n\t\tl.catchUp()\n\t\tfor _, done := range waiting {",
		}},
		pkg: "internal/engine", test: "TestWhoeverCatchesUpMeanwhileSharesTheNextWrite",
	},
	{
		name:  "an error code that a server returns alone counts as proof",
		file:  "internal/proto/code.go",
		edits: []edit{{old: "case OK, NoNode, BadVersion, NodeExists, NotEmpty:", new: "case OK, NoNode, BadVersion, NodeExists, NotEmpty, Throttled:"}},
		pkg:   "framework", test: "TestAnswersOfOneServerAloneDoNotProlong",
	},
	{
		name:  "a leader's answer to a sync counts as proof",
		file:  "internal/proto/op.go",
		edits: []edit{{old: "case OpCreate, OpDelete, OpSetData,", new: "case OpSync, OpCreate, OpDelete, OpSetData,"}},
		pkg:   "framework", test: "TestOnlyThoseWhoDependOnASessionCostTheLeaderAnything",
	},
	{
		name:  "a reply to another request is accepted",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "case oldest.xid == xid:", new: "case true:"}},
		pkg:   "internal/conn", test: "TestAnAnswerToSomethingElseEndsTheConnection",
	},
	{
		name:  "a forgotten request gets no nudge",
		file:  "internal/conn/nudge.go",
		edits: []edit{{old: "if n.wanted && !n.looking {", new: "if false {"}},
		pkg:   "framework", test: "TestARequestThatTheServerHasForgottenIsAnsweredSoon",
	},
	{
		name:  "a server that is down gets one nudge after the other",
		file:  "internal/conn/nudge.go",
		edits: []edit{{old: "left <= 0 && c.syncs == 0", new: "left <= 0"}},
		pkg:   "framework", test: "TestAServerThatAnswersNothingGetsOneNudge",
	},
	{
		name:  "a session timeout of 0 is accepted",
		file:  "internal/conn/open.go",
		edits: []edit{{old: "case reply.Timeout <= 0:", new: "case false:"}},
		pkg:   "internal/conn", test: "TestABadWelcomeIsAnError",
	},
	{
		name:  "memory is allocated for any length prefix",
		file:  "internal/proto/frame.go",
		edits: []edit{{old: "make([]byte, 0, min(n, step))", new: "make([]byte, 0, n)"}},
		pkg:   "internal/proto", test: "TestALengthPrefixIsNotBelieved",
	},
	{
		name:  "memory is allocated for any count",
		file:  "internal/proto/decoder.go",
		edits: []edit{{old: "n > len(d.rest)/size {", new: "false {"}},
		pkg:   "internal/proto", test: "TestCountsAreNotBelieved",
	},
	{
		name:  "a server that closes the connection is tried again at once",
		file:  "internal/engine/connect.go",
		edits: []edit{{old: "	_ = wait.Sleep(ctx, f.young.Next())\n", new: "	_ = ctx\n"}},
		pkg:   "framework", test: "TestNothingThatAServerSaysCrashesUs",
	},
	{
		name: "servers that do not answer use up the session's time",
		file: "internal/engine/connect.go",
		edits: []edit{
			{old: "session.left()/time.Duration(n+1), minServerTime", new: "session.left()/time.Duration(n+1), time.Second"},
			{old: "	slices.SortStableFunc(servers, func(a, b string) int { return f.failed[a].Compare(f.failed[b]) })\n", new: "	_ = slices.Contains(servers, \"\")\n"},
		},
		pkg: "framework", test: "TestOneOfFiveServersIsEnough",
	},
	{
		name:  "an operation is retried in a session that is over",
		file:  "internal/engine/errors.go",
		edits: []edit{{old: "func (e *overError) Verdict() retry.Verdict { return retry.Over }", new: "func (e *overError) Verdict() retry.Verdict { return retry.Lost }"}},
		pkg:   "framework", test: "TestADeadSessionIsNotRetriedIn",
	},
	{
		name:  "a read's watch replaces a persistent one",
		file:  "internal/engine/watches.go",
		edits: []edit{{old: "return w, r.request(kind)", new: "return w, true"}},
		pkg:   "framework", test: "TestWatchesOnOnePathDoNotDisturbEachOther",
	},
	{
		name: "removing a watch removes it for other users too",
		file: "internal/engine/watches.go",
		edits: []edit{
			{old: "case r == nil || r.needed():", new: "case r == nil || len(r.members) > 0 || r.pending > 0 || r.has == noWatch && len(r.once) > 0:"},
			{old: "r != nil && r.needed() {", new: "r != nil && (len(r.members) > 0 || r.pending > 0) {"},
		},
		pkg: "framework", test: "TestRemovingAWatchTakesNoOtherAway",
	},
	{
		name:  "Close leaves the node of a failed persistent create",
		file:  "internal/engine/run.go",
		edits: []edit{{old: "		c.sweeper.last(ctx, l)\n", new: ""}},
		pkg:   "framework", test: "TestCloseRemovesWhatAPersistentProtectedCreateLeaves",
	},
	{
		name:  "Close looks for persistent nodes without catching up",
		file:  "internal/engine/sweep.go",
		edits: []edit{{old: "\tif len(places) > 0 {", new: "\tif false {"}},
		pkg:   "framework", test: "TestCloseRemovesWhatTheNextServerHasNotHeardOf",
	},
	{
		name:  "a retry does not start early when the connection is back",
		file:  "internal/engine/attempts.go",
		edits: []edit{{old: "return now.link != used && now.usable(nil) })", new: "return false })"}},
		pkg:   "framework", test: "TestAPauseEndsWhenTheConnectionIsBack",
	},
	{
		name:  "a write through zkconn is repeated",
		file:  "zkconn/conn.go",
		edits: []edit{{old: "engine.Hints{Once: true}", new: "engine.Hints{}"}},
		pkg:   "zkconn", test: "TestAWriteIsSentOnce",
	},
	{
		name:  "a watch of zkconn does not see what it has missed",
		file:  "zkconn/watch.go",
		edits: []edit{{old: "e.Type == 0 {", new: "e.Type == 0 || key.kind == ofData {"}},
		pkg:   "zkconn", test: "TestAWatchSurvivesAReconnect",
	},
	{
		name:  "the lost delete of an asynchronous release is not repeated",
		file:  "internal/engine/delete.go",
		edits: []edit{{old: "\t\t\tlater(retry.Unknown(err))\n", new: "\t\t\tf(true, nil)\n"}},
		pkg:   "recipes/internal/queue", test: "TestAsyncReleaseWithAnyRequestFailing",
	},
	{
		name:  "a Lock of zkconn releases what somebody else holds",
		file:  "zkconn/lock.go",
		edits: []edit{{old: "mine := l.hold == nil", new: "mine := true"}},
		pkg:   "zkconn", test: "TestALostLockIsUnlockedBeforeItIsLockedAgain",
	},
	{
		name:   "whoever is refused for credentials gives up for good",
		file:   "retry/errors.go",
		edits:  []edit{{old: "errors.Is(err, zk.ErrAuthFailed) && Judge(err) != Over", new: "errors.Is(err, zk.ErrAuthFailed) && false"}},
		pkg:    "recipes/leader",
		test:   "TestAServerThatRefusesCredentialsEndsNoCampaign",
		worlds: credentials, seed: 2,
	},
	{
		name:  "a client follows the first configuration only",
		file:  "internal/engine/ensemble.go",
		edits: []edit{{old: "\tif slices.Equal(tracked, t.tracked) {", new: "\tif slices.Equal(tracked, t.tracked) || t.tracked != nil {"}},
		pkg:   "framework", test: "TestAllServersAreReplacedOneByOne",
		worlds: replaced, seed: 53,
	},
}
