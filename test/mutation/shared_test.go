package mutation

// sharedBugs are mutations of the locks that several clients may hold.
var sharedBugs = []group{
	{file: "recipes/rwlock/rwlock.go", pkg: "recipes/rwlock", mutations: []mutation{
		{name: "the reader of a downgrade has an ACL of its own",
			old: "ACL(framework.Join(base, writeName))", new: "ACL(framework.Join(base, name+sequence))",
			test: "TestReaderOfADowngradeIsNoSecret"},
		{name: "a downgraded reader has a token of its own",
			old: "return path, stat.Czxid, nil", new: "return path, stat.Czxid * 0, nil",
			test: "TestTokenDoesNotFallAfterADowngrade", worlds: all, seed: 4},
		{name: "two writers hold at the same time",
			old: "!(isRead(l.Own) && isRead(child))", new: "isRead(l.Own) != isRead(child)",
			test: "TestReadWriteLock/inprocess", worlds: all, seed: 4},
	}},
	{file: "recipes/semaphore/semaphore.go", pkg: "recipes/semaphore", mutations: []mutation{
		{name: "a failed AcquireN keeps some leases",
			old: "\t\tif !taken { // also", new: "\t\tif !taken && false { // also",
			test: "TestSemaphore/inprocess/several_leases:_all_or_none", worlds: all, seed: 6},
		{name: "a lease that a count has granted is kept when the count has fallen",
			old: `err != nil || s.count.fallen() != falls {`, new: `err != nil || s.count.fallen() < falls {`,
			test: "TestLeaseThatIsReleasedAfterTheCountFellIsNotGranted"},
	}},
}
