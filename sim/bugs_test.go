package sim

const (
	entryFile = "recipes/lock/entry.go"
	aheadFile = "recipes/lock/ahead.go"
	viewFile  = "recipes/lock/internal/queueview/view.go"
	eventFile = "recipes/lock/internal/queueview/events.go"
	viewsFile = "recipes/lock/internal/queueview/views.go"
	leaseFile = "recipes/lock/lease.go"
	againFile = "recipes/lock/again.go"
	cacheFile = "recipes/cache/loop.go"
	nodeFile  = "recipes/node/keeper.go"
)

var bugs = []planted{
	{"one holder too many", []edit{{"recipes/lock/driver.go", "if i < maxLeases {", "if i <= maxLeases {"}}},
	{"a woken waiter holds without looking again", []edit{{
		entryFile,
		"err = e.await(ctx, children, turn.Watch, leases, changed) // 4",
		"if err := e.await(ctx, children, turn.Watch, leases, changed); err != nil {\n\t\t\t\treturn nil, err\n\t\t\t}\n\t\t\treturn newHold(ctx, e)",
	}}},
	{"whoever waits for the one ahead takes it for the only one", []edit{{aheadFile, "if e.ahead == 1 && !isClosed(e.own.Done()) {", "if !isClosed(e.own.Done()) {"}}},
	{"whoever waits for the only one ahead does not look whether its own node is there", []edit{{aheadFile, "if e.ahead == 1 && !isClosed(e.own.Done()) {", "if e.ahead == 1 {"}}},
	{"a writer waits for the only one ahead, which may become a reader", []edit{{aheadFile, "return standard && len(names) == 1", "_ = standard\n\treturn len(names) == 1"}}},
	{"a view may miss nodes that were created", []edit{
		{viewFile, "c.number == number)", "c.number <= number)"}, {viewFile, "c.number < number // children", "c.number < -2 // children"},
	}},
	{"a view outlives its connection", []edit{{viewsFile, "case <-l.Down():", "case <-make(chan struct{}):"}}},
	{"a view does not read the nodes of its first list", []edit{{viewsFile, "err = v.read(l, most)", "_ = most"}}},
	{"numbers near 2^30 are not known to a view", []edit{
		{eventFile, "int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)", "(int64(stat.Cversion) + int64(stat.NumChildren)) / 2"},
	}},
	{"the list of a view is read before its watch is set", []edit{
		{viewsFile, "\tremove := l.Watch(v.path, engine.Tree, v.event, func(err error) { watched <- err })\n", ""},
		{viewsFile, "\terr = <-watched\n", "\tremove := l.Watch(v.path, engine.Tree, v.event, func(err error) { watched <- err })\n\terr = <-watched\n"},
	}},
	{"the node is deleted before the holder is told", []edit{
		{leaseFile, "\tl.finish(ErrReleased)\n\tif l.tellEnded", "\tdefer l.finish(ErrReleased)\n\tif l.tellEnded"},
		{"recipes/lock/hold.go", "\th.cancel(ErrReleased)\n\terr := lost", "\tdefer h.cancel(ErrReleased)\n\terr := lost"},
	}},
	{"the context ends after 4/3 of the session timeout", []edit{
		{"internal/session/deadline.go", "heard.Add((d.timeout - d.timeout/margin) / 100 * d.percent)", "heard.Add(d.timeout * 4 / 3)"},
	}},
	{"a follower's answer counts as the leader's", []edit{{"internal/session/deadline.go", "heard = d.proven", "heard = d.last"}}},
	{"the session is counted from the answer, not from the request", []edit{
		{"internal/session/deadline.go", "d.last = later(d.last, sent)\n\tif", "d.last = later(d.last, received)\n\tif"},
		{"internal/session/deadline.go", "d.keep(sample{sent, received})", "d.keep(sample{received, received})"},
	}},
	{"whoever has the number after one that we released holds", []edit{
		{entryFile, "\tfor {\n\t\tleases, changed", "\tif last, ok := lastReleased.Load(e.queue); ok && last.(int64)+1 == queueview.Number(e.name) {\n\t\treturn newHold(ctx, e)\n\t}\n\tfor {\n\t\tleases, changed"},
		{entryFile, "\tif err == nil {\n\t\te.queue.rewind(ctx, e.path)", "\tif err == nil && e.lease != nil {\n\t\tlastReleased.Store(e.queue, queueview.Number(e.name))\n\t}\n\tif err == nil {\n\t\te.queue.rewind(ctx, e.path)"},
		{entryFile, "func newEntry(", "var lastReleased sync.Map\n\nfunc newEntry("},
	}},
	{"a holder does not hear that its session is lost", []edit{
		{leaseFile, "depend(e.queue.cfg.policy, l.lose)", "depend(e.queue.cfg.policy, func(error) {})"},
	}},
	{"whoever gives up leaves its node", []edit{
		{"recipes/lock/acquire.go", "\t\te.leave()\n\t}\n\treturn nil, q.whyNot", "\t}\n\treturn nil, q.whyNot"},
	}},
	{"the guard checks another node", []edit{
		{"recipes/lock/hold.go", "CheckVersionRequest{Path: path, Version: -1}", "CheckVersionRequest{Path: path[:1], Version: -1}"},
	}},
	{"a node whose token the holder has read is handed off", []edit{{"recipes/lock/handoff.go", "local == nil || l.shown || ", "local == nil || "}}},
	{"a loss deletes a node that was handed off", []edit{{leaseFile, "if l.released || l.lost != nil {", "if l.lost != nil {"}}},
	{"one holder of several is watched", []edit{
		{"recipes/lock/driver.go", "Watch: children[i-maxLeases : i]", "Watch: children[i-maxLeases : i-maxLeases+1]"},
	}},
	{"a node of an old session is accepted", []edit{
		{"internal/engine/create.go", "if maybe && node.session == l.session {", "if maybe {"},
		{"internal/engine/create.go", "owner != 0 && owner != l.session.ID()", "false && owner != 0"},
	}},
	{"two writers hold at the same time", []edit{{"recipes/rwlock/rwlock.go", "!(isRead(own) && isRead(child))", "isRead(own) != isRead(child)"}}},
	{"a reader that was a writer has a token of its own", []edit{
		{"recipes/rwlock/rwlock.go", "\t\tlockapi.SetToken(ctx, stat.Czxid)\n", "\t\tlockapi.SetToken(ctx, stat.Czxid*0)\n"},
	}},
	{"a failed AcquireN keeps some leases", []edit{{"recipes/semaphore/semaphore.go", "func leave(holds []*lock.Hold) { lockapi.Leave(given(holds)...) }", "func leave([]*lock.Hold) {}"}}},
	{"nobody watches a holder's node", []edit{{leaseFile, "if e.inView() == nil {\n\t\te.watch(watchAfter)", "if false {\n\t\te.watch(watchAfter)"}}},
	{"a session is counted from the answer to its connect request", []edit{
		{"internal/engine/session.go", "s.deadline.Attached(g.Timeout, sent)", "s.deadline.Attached(g.Timeout, time.Now())"},
	}},
	{"a server that is behind what events have told need not catch up", []edit{
		{"internal/engine/connect.go", "if session.behind.Load() || session.depended() {", "if session.depended() {"},
	}},
	{"a requeue goes on although its node is gone", []edit{{
		againFile, "next, err := q.join(hints, session, v, true)\n",
		"next, err := q.join(hints, session, v, true)\n\tif errors.Is(err, zk.ErrNoNode) {\n\t\tnext, err = q.join(framework.InSession(ctx, session), session, v, true)\n\t}\n",
	}}},
	{"a requeue holds without looking", []edit{
		{againFile, "h, err := e.hold(framework.InSession(ctx, e.session), true)", "h, err := newHold(ctx, e)"},
	}},
	{"a requeue that fails leaves its node", []edit{{againFile, "return nil, old.notReplaced(ctx, err)", "old.removed()\n\t\treturn nil, err"}}},
	{"a requeue with a local hand-off takes a suspended lease for a good one", []edit{{againFile, "\tif err := h.Release(); err != nil {\n\t\treturn err\n\t}\n\tl.mu.Lock()\n\tdefer l.mu.Unlock()\n\treturn l.lost\n", "\treturn h.Release()\n"}}},
	{"the lost delete of an asynchronous release is not repeated", []edit{
		{"internal/engine/delete.go", "\t\t\tlater(retry.Unknown(err))\n", "\t\t\tf(true, nil)\n"},
	}},
	{"a release with a transaction that fails leaves its node", []edit{
		{againFile, "_ = l.remove(leaving) // the first error is the news", "_ = leaving\n\t\tl.removed()"},
	}},
	{"a release with a transaction writes although its node is gone", []edit{
		{againFile, "&zk.DeleteRequest{Path: e.path, Version: -1})\n\tonce", "&zk.CheckVersionRequest{Path: \"/\", Version: -1})\n\tonce"},
		{againFile, "\tl.removed()\n\treturn responses[:len(ops)], nil", "\t_ = l.remove(e.session.Context())\n\treturn responses[:len(ops)], nil"},
	}},
	{"a message to a holder is not looked for again after a lost connection", []edit{
		{"recipes/revocable/revocable.go", "\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\t// The first version", "\t\tif err != nil {\n\t\t\treturn nil, nil\n\t\t}\n\t\t// The first version"},
	}},
	{"a cache takes whatever it reads", []edit{{cacheFile, "if n != nil && n.value.compare(&v.stat) > 0 {", "if n != nil && false {"}}},
	{"a cache applies events about what the load has not reached", []edit{
		{cacheFile, "	case !l.reached(n): // the load will come to it\n", ""},
		{cacheFile, "!root && !l.reached(l.c.nodes.find(dir))", "!root && l.c.nodes.find(dir) == nil"},
	}},
	{"a cache reads without catching up", []edit{{cacheFile, "if err := engine.Ask(l.c.ctx, l.link.CatchUp); err != nil {", "if err != nil {"}}},
	{"a cache does not read again on a new connection", []edit{{"recipes/cache/cache.go", "number: number,", "number: min(number, 1),"}}},
	{"a node of an old session is taken for the kept one", []edit{
		{nodeFile, "owner):\n\t\treturn left\n", "owner):\n\t\treturn ours\n"},
	}},
	{"a kept node seems to be there after its session", []edit{
		{nodeFile, "d.ended.Store(true)\n\t\t\ts.present, s.err = false, cause\n", "d.ended.Store(true)\n\t\t\ts.err = cause\n"},
	}},
	{"a kept node has the data of its beginning when it is made again", []edit{
		{nodeFile, "\t\t\tk.mine.number = 0\n\t\t}\n\t\tk.mine.czxid, k.mine.mzxid", "\t\t}\n\t\tk.mine.content = k.status().want\n\t\tk.mine.czxid, k.mine.mzxid"},
	}},
	{"a kept node that may be there is not deleted", []edit{
		{"recipes/node/leave.go", "err != nil || !found ||", "err != nil || !found || k.status().shown.number == 0 ||"},
	}},
	{"a Keep takes the node of another Keep of the client", []edit{{"recipes/node/leave.go", "\t\tif !has {\n", "\t\tif !has || v != nil {\n"}}},
	{"a deletion by a closed Keep is repeated although it may be done", []edit{
		{"recipes/node/leave.go", "engine.Hints{Once: true}", "engine.Hints{}"},
	}},
	{"a closed Node is present until its goroutine comes to it", []edit{
		{"recipes/node/node.go", "\t\ts.present = false\n\t\tif !errors.Is(s.err, framework.ErrClosed) {\n\t\t\ts.err = ErrClosed\n", "\t\tif !errors.Is(s.err, framework.ErrClosed) {\n\t\t\ts.err = ErrClosed\n"},
		{nodeFile, "d.ended.Store(true)\n\t\t\ts.present, s.err = false, cause\n", "d.ended.Store(true)\n\t\t\ts.present, s.err = s.present && k.ctx.Err() != nil, cause\n"},
		{nodeFile, "\terr = k.leave()\n", "\tk.missing(ErrClosed)\n\terr = k.leave()\n"},
	}},
}
