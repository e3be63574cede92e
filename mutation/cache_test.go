package mutation

// cacheBugs are ways to break package cache.
var cacheBugs = []mutation{
	{
		name:  "a cache takes whatever it reads",
		file:  "recipes/cache/loop.go",
		edits: []edit{{old: "if n != nil && n.value.compare(&v.stat) > 0 {", new: "if n != nil && false {"}},
		pkg:   "recipes/cache", test: "TestAnAnswerThatIsOlderThanTheCopyIsNotShown",
	},
	{
		name: "a cache applies events about what the load has not reached",
		file: "recipes/cache/loop.go",
		edits: []edit{
			{old: "	case !l.reached(n): // the load will come to it\n", new: ""},
			{old: "!root && !l.reached(l.c.nodes.find(dir))", new: "!root && l.c.nodes.find(dir) == nil"},
		},
		pkg: "recipes/cache", test: "TestTreeThatIsMadeAgainGoesFirst/while_there_is_no_connection",
	},
	{
		name:  "a cache reads without catching up",
		file:  "recipes/cache/loop.go",
		edits: []edit{{old: "if err := engine.Ask(l.c.ctx, l.link.CatchUp); err != nil {", new: "if err != nil {"}},
		pkg:   "recipes/cache", test: "TestAServerThatStaysBehindForLongIsNotBelieved",
	},
	{
		name:  "a cache does not read again on a new connection",
		file:  "recipes/cache/cache.go",
		edits: []edit{{old: "number: number,", new: "number: min(number, 1),"}},
		pkg:   "recipes/cache", test: "TestWhatHappenedMeanwhileIsFoundOut",
		worlds: caches, seed: 19,
	},
}
