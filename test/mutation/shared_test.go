package mutation

// sharedBugs are mutations of the locks that several clients may hold.
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
		edits: []edit{{old: "return path, stat.Czxid, nil", new: "return path, stat.Czxid * 0, nil"}},
		pkg:   "recipes/rwlock", test: "TestTokenDoesNotFallAfterADowngrade",
		worlds: all, seed: 4,
	},
	{
		name:  "a failed AcquireN keeps some leases",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{old: "\t\tif !taken { // also", new: "\t\tif !taken && false { // also"}},
		pkg:   "recipes/semaphore", test: "TestSemaphore/inprocess/several_leases:_all_or_none",
		worlds: all, seed: 6,
	},
	{
		name:  "a lease that a count has granted is kept when the count has fallen",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{old: `err != nil || s.count.fallen() != falls {`, new: `err != nil || s.count.fallen() < falls {`}},
		pkg:   "recipes/semaphore", test: "TestLeaseThatIsReleasedAfterTheCountFellIsNotGranted",
	},
	{
		name:  "two writers hold at the same time",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "!(isRead(l.Own) && isRead(child))", new: "isRead(l.Own) != isRead(child)"}},
		pkg:   "recipes/rwlock", test: "TestReadWriteLock/inprocess",
		worlds: all, seed: 4,
	},
}
