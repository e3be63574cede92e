package mutation

// viewBugs are ways to break how a waiter learns who is ahead of it.
var viewBugs = []mutation{
	{
		name:  "whoever waits for the one ahead takes it for the only one",
		file:  "recipes/internal/queue/waiter.go",
		edits: []edit{{old: "case lookAhead && w.ahead > 1:", new: "case lookAhead && w.ahead > 1 && w.ahead < 0:"}},
		pkg:   "recipes/internal/queue", test: "TestWhoThinksThatItIsNextWaits",
		worlds: all, seed: 3,
	},
	{
		name:  "whoever waits for the only one ahead does not look whether its own node is there",
		file:  "recipes/internal/queue/waiter.go",
		edits: []edit{{old: "case lookAhead && !wait.Closed(w.watches[w.Name()].Done()):", new: "case lookAhead:"}},
		pkg:   "recipes/internal/queue", test: "TestTheNextWhoseNodeIsDeletedQueuesAgain",
	},
	{
		name:  "a waiter whose own node is missing gives up",
		file:  "recipes/internal/queue/waiter.go",
		edits: []edit{{old: "name == w.Name():\n\t\t\treturn nil, &NodeLost{ErrNodeDeleted}", new: "name == w.Name():\n\t\t\treturn nil, errs[i]"}},
		pkg:   "recipes/internal/queue", test: "TestAWaiterWhoseNodeIsDeletedBeforeItIsWatchedQueuesAgain",
	},
	{
		name:  "a writer waits for the only one ahead, which may become a reader",
		file:  "recipes/internal/queue/waiter.go",
		edits: []edit{{old: "return standard && len(names) == 1", new: "_ = standard\n\treturn len(names) == 1"}},
		pkg:   "recipes/rwlock", test: "TestReadWriteLock/inprocess",
		worlds: all, seed: 4,
	},
	{
		name:  "whoever waits for the only one ahead does not think of numbers that overflow",
		file:  "recipes/internal/queue/waiter.go",
		edits: []edit{{old: " && !nearEnd(w.path)", new: ""}},
		pkg:   "recipes/internal/queue", test: "TestTheNextAtTheEndOfTheNumbersLists",
	},
	{
		name:  "a view does not read the nodes of its first list",
		file:  "recipes/internal/queue/view/views.go",
		edits: []edit{{old: "err = v.read(l, names)", new: "_ = names"}},
		pkg:   "recipes/internal/queue", test: "TestContenderThatMayNotReadIsRefused",
		worlds: all, seed: 9,
	},
	{
		name:  "a view does not count what is created",
		file:  "recipes/internal/queue/view/view.go",
		edits: []edit{{old: "c.number == number)", new: "c.number <= number)"}, {old: "c.number < number // children", new: "c.number < -2 // children"}},
		pkg:   "recipes/internal/queue", test: "TestViewThatMissedANodeIsNotAsked",
		worlds: all, seed: 9,
	},
	{
		name:  "a view counts with a sign",
		file:  "recipes/internal/queue/view/events.go",
		edits: []edit{{old: "int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)", new: "(int64(stat.Cversion) + int64(stat.NumChildren)) / 2"}, {old: "found || v.next < 0 {", new: "found {"}},
		pkg:   "recipes/internal/queue", test: "TestViewThatMissedANodeIsNotAsked",
	},
	{
		name:  "a view begins without a list",
		file:  "recipes/internal/queue/view/events.go",
		edits: []edit{{old: "v.children[name] = &child{number: -1}", new: "_ = name"}},
		pkg:   "recipes/internal/queue", test: "TestNodeThatWasThereBeforeTheViewIsWaitedFor",
	},
	{
		name:  "a view outlives its connection",
		file:  "recipes/internal/queue/view/views.go",
		edits: []edit{{old: "case <-l.Down():", new: "case <-make(chan struct{}):"}},
		pkg:   "recipes/internal/queue", test: "TestWaitersGoOnWhenTheViewEnds",
		worlds: all, seed: 4,
	},
	{
		name:  "a view does not notify a holder that its node was deleted",
		file:  "recipes/internal/queue/view/events.go",
		edits: []edit{{old: "\t\tgone.Deleted()\n", new: ""}},
		pkg:   "recipes/internal/queue", test: "TestHolderInAViewLearnsThatItsNodeWasDeleted",
	},
	{
		name:  "a node with a number above the largest is of no lock",
		file:  "recipes/internal/queue/view/order.go",
		edits: []edit{{old: "strconv.ParseInt(digits, 10, 64)", new: "strconv.ParseInt(digits, 10, 32)"}},
		pkg:   "recipes/internal/queue", test: "TestANumberAboveAllIsRefused",
	},
	{
		name:  "sequence numbers are used after they overflow",
		file:  "recipes/internal/queue/view/order.go",
		edits: []edit{{old: "return n < 0 || n >= math.MaxInt32", new: "return n > math.MaxInt32"}},
		pkg:   "recipes/internal/queue", test: "TestExhaustedNumbersAreRefused",
	},
}
