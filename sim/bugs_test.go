package sim

const (
	waiterFile     = "recipes/lock/waiter.go"
	nodeFileOfLock = "recipes/lock/node.go"
	aheadFile      = "recipes/lock/ahead.go"
	viewFile       = "recipes/lock/internal/queueview/view.go"
	eventFile      = "recipes/lock/internal/queueview/events.go"
	viewsFile      = "recipes/lock/internal/queueview/views.go"
	leaseFile      = "recipes/lock/lease.go"
	againFile      = "recipes/lock/again.go"
	cacheFile      = "recipes/cache/loop.go"
	nodeFile       = "recipes/node/keeper.go"
)

var bugs = []planted{
	{"one holder too many", []edit{{"recipes/lock/driver.go", "if i < maxLeases {", "if i <= maxLeases {"}}},
	{"a woken waiter holds without looking again", []edit{{
		waiterFile,
		"err = w.await(ctx, children, turn.Watch, leases, changed) // 4",
		"if err := w.await(ctx, children, turn.Watch, leases, changed); err != nil {\n\t\t\t\treturn nil, err\n\t\t\t}\n\t\t\treturn newHold(ctx, w.node, w.own)",
	}}},
	{"whoever waits for the one ahead takes it for the only one", []edit{{aheadFile, "if w.ahead == 1 && !wait.Closed(w.own.Done()) {", "if !wait.Closed(w.own.Done()) {"}}},
	{"whoever waits for the only one ahead does not look whether its own node is there", []edit{{aheadFile, "if w.ahead == 1 && !wait.Closed(w.own.Done()) {", "if w.ahead == 1 {"}}},
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
		{leaseFile, "\th.end(ErrReleased)\n\tif d.last", "\tif d.last"},
		{"recipes/lock/hold.go", "err = l.give(ctx, d)", "err = l.give(ctx, d)\n\t\th.end(ErrReleased)"},
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
		{waiterFile, "\tfor {\n\t\tleases, changed", "\tif last, ok := lastReleased.Load(w.queue); ok && last.(int64)+1 == queueview.Number(w.name) {\n\t\treturn newHold(ctx, w.node, nil)\n\t}\n\tfor {\n\t\tleases, changed"},
		{nodeFileOfLock, "\tif err == nil {\n\t\tn.queue.rewind(ctx, n.path)", "\tif err == nil && n.lease != nil {\n\t\tlastReleased.Store(n.queue, queueview.Number(n.name))\n\t}\n\tif err == nil {\n\t\tn.queue.rewind(ctx, n.path)"},
		{nodeFileOfLock, "func newNode(", "var lastReleased sync.Map\n\nfunc newNode("},
	}},
	{"a holder does not hear that its session is lost", []edit{
		{leaseFile, "n.depend(policy, l.lose)", "n.depend(policy, func(error) {})"},
	}},
	{"whoever gives up leaves its node", []edit{
		{"recipes/lock/acquire.go", "\t\tw.leave()\n\t}\n\treturn nil, q.whyNot", "\t}\n\treturn nil, q.whyNot"},
	}},
	{"the guard checks another node", []edit{
		{"recipes/lock/hold.go", "CheckVersionRequest{Path: path, Version: -1}", "CheckVersionRequest{Path: path[:1], Version: -1}"},
	}},
	{"a node whose token the holder has read is handed off", []edit{{"recipes/lock/lend.go", "local == nil || l.shown || ", "local == nil || "}}},
	{"a loss deletes a node that was handed off", []edit{{leaseFile, "\tif l.cause != nil {\n\t\tl.mu.Unlock()", "\tif l.cause != nil && !errors.Is(l.cause, errLent) {\n\t\tl.mu.Unlock()"}}},
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
	{"nobody watches a holder's node", []edit{{leaseFile, "if n.inView() == nil {\n\t\tn.watch(watchAfter, own)", "if false {\n\t\tn.watch(watchAfter, own)"}}},
	{"a session is counted from the answer to its connect request", []edit{
		{"internal/engine/session.go", "s.deadline.Attached(g.Timeout, sent)", "s.deadline.Attached(g.Timeout, time.Now())"},
	}},
	{"a server that is behind what events have told need not catch up", []edit{
		{"internal/engine/connect.go", "if session.behind.Load() || session.depended() {", "if session.depended() {"},
	}},
	{"a requeue goes on although its node is gone", []edit{{
		againFile, "next, err := q.join(hints, n.session, v, true)\n",
		"next, err := q.join(hints, n.session, v, true)\n\tif errors.Is(err, zk.ErrNoNode) {\n\t\tnext, err = q.join(framework.InSession(ctx, n.session), n.session, v, true)\n\t}\n",
	}}},
	{"a requeue holds without looking", []edit{
		{againFile, "h, err := w.hold(framework.InSession(ctx, w.session), wait)", "h, err := newHold(ctx, w.node, nil)"},
	}},
	{"a requeue that fails leaves its node", []edit{{againFile, "return nil, old.notReplaced(ctx, err)", "old.removed()\n\t\treturn nil, err"}}},
	{"a requeue with a local hand-off takes a suspended lease for a good one", []edit{{againFile, "\t\treturn d, d.lost\n", "\t\treturn d, nil\n"}}},
	{"the lost delete of an asynchronous release is not repeated", []edit{
		{"internal/engine/delete.go", "\t\t\tlater(retry.Unknown(err))\n", "\t\t\tf(true, nil)\n"},
	}},
	{"a release with a transaction that fails leaves its node", []edit{
		{againFile, "_ = l.remove(leaving) // the first error is the news", "_ = leaving\n\t\tl.removed()"},
	}},
	{"a release with a transaction writes although its node is gone", []edit{
		{againFile, "&zk.DeleteRequest{Path: n.path, Version: -1})\n\tonce", "&zk.CheckVersionRequest{Path: \"/\", Version: -1})\n\tonce"},
		{againFile, "\tl.removed()\n\treturn responses[:len(ops)], nil", "\t_ = l.remove(n.session.Context())\n\treturn responses[:len(ops)], nil"},
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
