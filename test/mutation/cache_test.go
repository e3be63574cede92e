package mutation

// cacheBugs are mutations of package cache.
var cacheBugs = []mutation{
	{
		name:  "a cache accepts every read",
		file:  "recipes/cache/follow.go",
		edits: []edit{{old: "older := n != nil && cmp.Or(cmp.Compare(n.value.stat.Czxid, v.stat.Czxid), cmp.Compare(n.value.stat.Mzxid, v.stat.Mzxid)) > 0", new: "older := n != nil && cmp.Compare(0, 0) > 0"}},
		pkg:   "recipes/cache", test: "TestAnAnswerThatIsOlderThanTheCopyIsNotShown",
	},
	{
		name:  "a result of another kind is taken for the data of a node",
		file:  "internal/engine/wire/ask.go",
		edits: []edit{{old: "return fmt.Errorf(\"%w: a result of %v for %v\", proto.ErrMalformed, r.Op, asked)", new: "return nil"}},
		pkg:   "recipes/cache", test: "TestNodesAreReadTogether/with_results_of_another_kind",
	},
	{
		name:  "a cache reads one node after the other",
		file:  "recipes/cache/reads.go",
		edits: []edit{{old: "maxTogether = 16", new: "maxTogether = 1"}},
		pkg:   "recipes/cache", test: "TestNodesAreReadTogether/by_ZooKeeper",
	},
	{
		name:  "nodes are read together with a request that is too long",
		file:  "internal/engine/link.go",
		edits: []edit{{old: "together = conn.CheckLength(len(q.Frame), l.client.cfg.MaxRequest) == nil", new: "together = conn.CheckLength(0, l.client.cfg.MaxRequest) == nil"}},
		pkg:   "recipes/cache", test: "TestNodesAreReadTogether/not_with_a_request_too_long",
	},
	{
		name: "a cache applies events about what the load has not reached",
		file: "recipes/cache/follow.go",
		edits: []edit{
			{old: "	case !f.reached(n) && f.byPath[e.Path] == nil: // the load will reach it\n", new: ""},
			{old: "!root && !f.reached(f.c.nodes.find(dir))", new: "!root && f.c.nodes.find(dir) == nil"},
		},
		pkg: "recipes/cache", test: "TestTreeThatIsMadeAgainGoesFirst/while_there_is_no_connection",
	},
	{
		name:  "a cache reads without catching up",
		file:  "recipes/cache/follow.go",
		edits: []edit{{old: "if err := engine.Ask(f.c.ctx, f.link.CatchUp); err != nil {", new: "if err != nil {"}},
		pkg:   "recipes/cache", test: "TestAServerThatStaysBehindForLongIsNotBelieved",
	},
	{
		name:  "a cache does not read again on a new connection",
		file:  "recipes/cache/cache.go",
		edits: []edit{{old: "number: number,", new: "number: min(number, 1),"}},
		pkg:   "recipes/cache", test: "TestWhatHappenedMeanwhileIsFoundOut",
		worlds: caches, seed: 19,
	},
	{
		name:  "a cache is current while events wait for it",
		file:  "recipes/cache/cache.go",
		edits: []edit{{old: " && s.taken == s.follower.reported.Load()", new: ""}},
		pkg:   "recipes/cache", test: "TestACacheIsNotCurrentWhileEventsWait",
	},
	{
		name:  "a Sync of a cache is not repeated when its write was refused",
		file:  "recipes/cache/cache.go",
		edits: []edit{{old: "				done <- err\n", new: "				_ = err\n"}},
		pkg:   "recipes/cache", test: "TestASyncGoesOnAfterAServerHadTooMuchToDo",
	},
	{
		name:  "a cache continues without its goroutine",
		file:  "recipes/cache/cache.go",
		edits: []edit{{old: "	defer c.end() // ", new: "	// "}},
		pkg:   "recipes/cache", test: "TestAFunctionThatEndsItsGoroutineEndsTheCache",
	},
	{
		name:  "values go on without their goroutine",
		file:  "recipes/cache/values.go",
		edits: []edit{{old: "	defer v.cache.end()\n", new: ""}},
		pkg:   "recipes/cache", test: "TestAFunctionThatEndsItsGoroutineEndsTheCache",
	},
	{
		name:  "OnChange does not report deletions",
		file:  "recipes/cache/follow.go",
		edits: []edit{{old: "if changed && f.c.cfg.onChange != nil {", new: "if changed && v != nil && f.c.cfg.onChange != nil {"}},
		pkg:   "recipes/cache", test: "TestWhatOnChangeGotIsTheTree/persistent_watch/fail_before/request_0",
	},
	{
		name:  "a Sync of a cache does not wait for what a list has found",
		file:  "recipes/cache/follow.go",
		edits: []edit{{old: "f.mark(path, m.round)", new: "f.mark(path, f.open())"}},
		pkg:   "recipes/cache", test: "TestLoadedComesWhenAllHasBeenReported",
	},
	{
		name:  "a cache with standard watches has none for a missing root that was created and deleted during the read",
		file:  "recipes/cache/follow.go",
		edits: []edit{{old: "f.answered(m, err, func() { f.queue(m) })", new: "f.answered(m, err, func() { f.done(m, nil) })"}},
		pkg:   "recipes/cache", test: "TestARootThatComesAndGoesWhileItIsAskedForIsFollowed",
	},
	{
		name:  "a cache takes an event about a node for answered while its children are listed",
		file:  "recipes/cache/reads.go",
		edits: []edit{{old: "		join(&m.later, r)\n		return\n", new: "		return\n"}},
		pkg:   "recipes/cache", test: "TestAChangeWhileTheChildrenAreListedIsRead",
	},
	{
		name:  "a cache takes the list of a server that is behind",
		file:  "recipes/cache/follow.go",
		edits: []edit{{old: " || n.value.stat.Mzxid > stat.Mzxid:", new: ":"}},
		pkg:   "recipes/cache", test: "TestAnAnswerThatIsOlderThanTheCopyIsNotShown/getData_and_getChildren2/persistent_watch",
	},
	{
		name:  "a Sync of a cache does not wait for the data of a node that was listed first",
		file:  "recipes/cache/follow.go",
		edits: []edit{{old: "join(&m.later, m.round)", new: "join(&m.later, f.open())"}},
		pkg:   "recipes/cache", test: "TestAReconnectReadsTheDataOfAParentOnlyIfTheyHaveChanged",
	},
}
