package mutation

// sharedBugs are ways to break the locks that several may hold.
var sharedBugs = []mutation{
	{
		name:  "the reader of a downgrade has an ACL of its own",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "ACL(framework.Join(base, writeName))", new: "ACL(framework.Join(base, name+sequence))"}},
		pkg:   "recipes/rwlock", test: "TestReaderOfADowngradeIsNoSecret",
	},
	{
		name:  "a downgraded reader has a token of its own",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "\t\tqueue.SetToken(ctx, stat.Czxid)\n", new: "\t\tqueue.SetToken(ctx, stat.Czxid*0)\n"}},
		pkg:   "recipes/rwlock", test: "TestTokenDoesNotFallAfterADowngrade",
		worlds: all, seed: 4,
	},
	{
		name:  "a failed AcquireN keeps some leases",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{old: "\t\t\tqueue.Leave(holds)\n\t\t\treturn nil, err\n\t\t}\n\t\tholds = append(", new: "\t\t\treturn nil, err\n\t\t}\n\t\tholds = append("}},
		pkg:   "recipes/semaphore", test: "TestSemaphore/inprocess/several_leases:_all_or_none",
		worlds: all, seed: 6,
	},
	{
		name:  "a lease that a count has granted is kept when the count has fallen",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{old: "err == nil && now == falls {", new: "err == nil && now >= falls {"}},
		pkg:   "recipes/semaphore", test: "TestLeaseThatIsReleasedAfterTheCountFellIsNotGranted",
	},
	{
		name:  "two writers hold at the same time",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "!(isRead(own) && isRead(child))", new: "isRead(own) != isRead(child)"}},
		pkg:   "recipes/rwlock", test: "TestReadWriteLock/inprocess",
		worlds: all, seed: 4,
	},
}
