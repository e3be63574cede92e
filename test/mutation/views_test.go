package mutation

// viewBugs are mutations of the views by which a waiter finds the nodes ahead.
var viewBugs = []mutation{
	{
		name:  "a waiter takes the one ahead for the only one",
		file:  "recipes/lock/listed.go",
		edits: []edit{{old: `case lookAhead && ahead > 1:`, new: `case lookAhead && ahead > 1 && ahead < 0:`}},
		pkg:   "recipes/lock", test: "TestWhoThinksThatItIsNextWaits",
		worlds: all, seed: 3,
	},
	{
		name:  "a waiter for the only one ahead does not check its own node",
		file:  "recipes/lock/listed.go",
		edits: []edit{{old: `case lookAhead && !wait.Closed(p.watches[p.node.Name()].Done()):`, new: `case lookAhead:`}},
		pkg:   "recipes/lock", test: "TestTheNextWhoseNodeIsDeletedQueuesAgain",
	},
	{
		name:  "a waiter whose own node is missing gives up",
		file:  "recipes/lock/listed.go",
		edits: []edit{{old: "name == p.node.Name():\n\t\t\treturn nil, &locking.NodeLost{Cause: ErrNodeDeleted}", new: "name == p.node.Name():\n\t\t\treturn nil, errs[i]"}},
		pkg:   "recipes/lock", test: "TestAWaiterWhoseNodeIsDeletedBeforeItIsWatchedQueuesAgain",
	},
	{
		name:  "a writer waits for the only one ahead, which may become a reader",
		file:  "recipes/lock/listed.go",
		edits: []edit{{old: `return isStandard(q.driver) && q.cfg.delay == 0`, new: `return q.cfg.delay == 0`}},
		pkg:   "recipes/rwlock", test: "TestReadWriteLock/inprocess",
		worlds: all, seed: 4,
	},
	{
		name:  "a waiter for the only one ahead ignores numbers that overflow",
		file:  "recipes/lock/listed.go",
		edits: []edit{{old: ` && !nearEnd(p.node.path)`, new: ``}},
		pkg:   "recipes/lock", test: "TestTheNextAtTheEndOfTheNumbersLists",
	},
	{
		name:  "a view does not read the nodes of its first list",
		file:  "recipes/lock/internal/view/views.go",
		edits: []edit{{old: "err = v.read(l, names)", new: "_ = names"}},
		pkg:   "recipes/lock", test: "TestContenderThatMayNotReadIsRefused",
		worlds: all, seed: 9,
	},
	{
		name:  "a view does not count what is created",
		file:  "recipes/lock/internal/view/view.go",
		edits: []edit{{old: "c.number == number)", new: "c.number <= number)"}, {old: "c.number < number // children", new: "c.number < -2 // children"}},
		pkg:   "recipes/lock", test: "TestViewThatMissedANodeIsNotAsked",
		worlds: all, seed: 9,
	},
	{
		name:  "a view counts with a sign",
		file:  "recipes/lock/internal/view/events.go",
		edits: []edit{{old: "int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)", new: "(int64(stat.Cversion) + int64(stat.NumChildren)) / 2"}, {old: "found || v.next < 0 {", new: "found {"}},
		pkg:   "recipes/lock", test: "TestViewThatMissedANodeIsNotAsked",
	},
	{
		name:  "a view begins without a list",
		file:  "recipes/lock/internal/view/events.go",
		edits: []edit{{old: "v.children[name] = &child{number: -1}", new: "_ = name"}},
		pkg:   "recipes/lock", test: "TestNodeThatWasThereBeforeTheViewIsWaitedFor",
	},
	{
		name:  "a view outlives its connection",
		file:  "recipes/lock/internal/view/views.go",
		edits: []edit{{old: "case <-l.Down():", new: "case <-make(chan struct{}):"}},
		pkg:   "recipes/lock", test: "TestWaitersGoOnWhenTheViewEnds",
		worlds: all, seed: 4,
	},
	{
		name:  "a view does not notify a holder that its node was deleted",
		file:  "recipes/lock/internal/view/events.go",
		edits: []edit{{old: "\t\tgone.Deleted()\n", new: ""}},
		pkg:   "recipes/lock", test: "TestHolderInAViewLearnsThatItsNodeWasDeleted",
	},
	{
		name:  "a node with a number above the largest is of no lock",
		file:  "recipes/lock/internal/view/order.go",
		edits: []edit{{old: "strconv.ParseInt(digits, 10, 64)", new: "strconv.ParseInt(digits, 10, 32)"}},
		pkg:   "recipes/lock", test: "TestANumberAboveAllIsRefused",
	},
	{
		name:  "sequence numbers are used after they overflow",
		file:  "recipes/lock/internal/view/order.go",
		edits: []edit{{old: "return n < 0 || n >= math.MaxInt32", new: "return n > math.MaxInt32"}},
		pkg:   "recipes/lock", test: "TestExhaustedNumbersAreRefused",
	},
}
