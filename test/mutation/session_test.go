package mutation

// sessionBugs are ways to misjudge whether the session lives.
var sessionBugs = []mutation{
	{
		name:  "the context ends after 4/3 of the session timeout",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "heard.Add((d.timeout - d.timeout/margin) / 100 * d.percent)", new: "heard.Add(d.timeout * 4 / 3)"}},
		pkg:   "recipes/lock", test: "TestHolderIsNotifiedBeforeTheNextOneCanHold",
		worlds: all, seed: 177,
	},
	{
		name:  "the context ends after twice the session timeout",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "heard.Add((d.timeout - d.timeout/margin) / 100 * d.percent)", new: "heard.Add(2 * d.timeout)"}},
		pkg:   "test/pictures", test: "TestLoss",
	},
	{
		name:  "a read counts as proof",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "heard = d.proven", new: "heard = d.last"}},
		pkg:   "internal/session", test: "TestStrictDeadlineIsNeverLaterThanTheLeaders",
	},
	{
		name:  "one write proves a session of which nothing was proven for long",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "!write.answered.Before(d.over(d.proven))", new: "false"}},
		pkg:   "internal/session", test: "TestStrictDeadlineIsNeverLaterThanTheLeadersAfterTheNetworkStoodStill",
	},
	{
		name:  "the session is counted from the answer, not from the request",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "d.last = later(d.last, sent)\n\tif", new: "d.last = later(d.last, received)\n\tif"}},
		pkg:   "internal/session", test: "TestDeadlineCountsFromWhenTheRequestWasSent",
	},
	{
		name:  "a reply that the session has expired is ignored",
		file:  "internal/engine/session.go",
		edits: []edit{{old: "if a.Code == proto.SessionExpired {", new: "if a.Code == -proto.SessionExpired {"}},
		pkg:   "framework", test: "TestServerThatSaysExpiredEndsTheSession",
	},
	{
		name:  "the time for which the machine was suspended does not count",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "d.last, d.proven = d.last.Add(-more), d.proven.Add(-more)", new: ""}},
		pkg:   "internal/session", test: "TestTheTimeOfASuspendedMachineCounts",
	},
	{
		name:  "a connect request that resumes a session counts at once",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "	d.last = later(d.last, sent)\n	d.first", new: "	d.last, d.proven = later(d.last, sent), later(d.proven, sent)\n	d.first"}},
		pkg:   "internal/session", test: "TestReconnectConfirmsTheSession",
	},
	{
		name:  "a session of a Keeper outlasts its connection",
		file:  "internal/engine/connection.go",
		edits: []edit{{old: "if l.ByKeeper() { //", new: "if false { //"}},
		pkg:   "recipes/lock", test: "TestAHoldOnAKeeperEndsWithItsConnection",
	},
	{
		name:  "a refusal before earlier replies ends the connection",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "case refusedEarly(header):", new: "case false:"}},
		pkg:   "internal/conn", test: "TestARefusalMayComeEarly",
	},
	{
		name:  "a longer timeout counts that another server grants",
		file:  "internal/engine/connect.go",
		edits: []edit{{old: "opened.Grant.Timeout = min(opened.Grant.Timeout, session.Timeout())", new: "_ = session.Timeout()"}},
		pkg:   "framework", test: "TestASessionKeepsItsShortestTimeout",
	},
	{
		name:  "requests are numbered anew on each connection",
		file:  "internal/engine/connect.go",
		edits: []edit{{old: "hello.Timeout, hello.Numbers = c.cfg.SessionTimeout, &c.numbers", new: "hello.Timeout = c.cfg.SessionTimeout"}},
		pkg:   "framework", test: "TestAnEarlierWriteIsNotTakenForALaterOne",
	},
	{
		name:  "a server that is too busy to catch up is read from",
		file:  "internal/engine/progress.go",
		edits: []edit{{old: "behind && a.Code == proto.Throttled", new: "behind && a.Code == proto.Throttled && false"}},
		pkg:   "framework", test: "TestAServerThatIsTooBusyToCatchUpIsLeft",
	},
	{
		name:  "a session is counted from the answer to its connect request",
		file:  "internal/engine/session.go",
		edits: []edit{{old: "s.deadline.Attached(g.Timeout, sent)", new: "s.deadline.Attached(g.Timeout, time.Now())"}},
		pkg:   "framework", test: "TestALateAnswerToAConnectRequestIsCountedFromTheRequest",
	},
	{
		name:  "the answer to credentials counts as proof",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "if s.op != proto.OpAuth {", new: "if true {"}},
		pkg:   "recipes/lock", test: "TestHolderThatPresentsCredentialsEndsFirst",
	},
	{
		name:  "a session whose end is among the results of a multi continues",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "header.Code = proto.MultiCode(*d)", new: "_ = d"}},
		pkg:   "framework", test: "TestAMultiOfAnExpiredSessionEndsIt",
	},
	{
		name:  "a session that a server has forgotten continues",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "if header.Code == proto.UnknownSession {", new: "if false {"}},
		pkg:   "framework", test: "TestAMultiOfAnExpiredSessionEndsIt",
	},
	{
		name:  "a connection over which the session cannot write continues",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "header.Code == proto.SessionMoved", new: "false"}},
		pkg:   "framework", test: "TestAMultiOfAMovedSessionEndsTheConnection",
	},
}
