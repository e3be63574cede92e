package mutation

// jobBugs are mutations of recipes/once, and of the release that it needs.
var jobBugs = []mutation{
	{
		name:  "a recording is sent once",
		file:  "recipes/lock/conclude.go",
		edits: []edit{{old: "case verdict.MayPass(err):", new: "case verdict.MayPass(err) && false:"}},
		pkg:   "recipes/once", test: "TestRecordingIsRepeated",
	},
	{
		name:  "a recording that is refused is not sent with the new record",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "case !changed(refused):", new: "case true:"}},
		pkg:   "recipes/once", test: "TestOnce/inprocess/a_write_of_the_record_during_the_function",
	},
	{
		name:  "a success is recorded after its context has ended",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "case ended != nil:", new: "case ended != nil && false:"}},
		pkg:   "recipes/once", test: "TestOnce/inprocess/a_canceled_call_is_not_recorded,_even_if_the_function_returns_nil",
		worlds: jobs, seed: 5,
	},
	{
		name:  "the record is not read again with the lock",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "	guard := hold.Guard()\n	for {", new: "	guard := hold.Guard()\n	for {\n		if r.stat != nil {\n			return r, now, nil\n		}"}},
		pkg:   "recipes/once", test: "TestASuccessBetweenTheLookAndTheLock",
	},
	{
		name:  "a missing right to write is found after the function",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "		case !changed(err):\n			return nil, now, notWritable(err)", new: "		case !changed(err):\n			return r, now, nil"}},
		pkg:   "recipes/once", test: "TestOnce/inprocess/a_missing_right_to_write_is_found_before_the_function_runs",
	},
	{
		name:  "a record that is missing after the session was never written",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "return nil, r.lacks(number)", new: "return nil, true"}},
		pkg:   "recipes/once", test: "TestRecordingAfterTheSession",
	},
	{
		name:  "a record is looked for before the lock's node is deleted",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "if e := r.last(func(e *entry) bool { return e.ID == id }); e != nil {", new: "if e := r.last(func(e *entry) bool { return e.ID == id }); e != nil && false {"}},
		pkg:   "recipes/once", test: "TestRecordingAfterTheSession",
		worlds: jobs, seed: 71,
	},
	{
		name:  "waiters notice a success when they have the lock",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "if n.watch == nil && !n.first {", new: "if false {"}},
		pkg:   "recipes/once", test: "TestWaitersNoticeASuccessAtOnce",
	},
	{
		name:  "the first waiter does not read the record",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "if changed || n.first {", new: "if changed {"}},
		pkg:   "recipes/once", test: "TestRequestsOfAFleet",
	},
	{
		name:  "a waiter for a success watches its own node",
		file:  "recipes/lock/listed.go",
		edits: []edit{{old: " && !p.one", new: ""}},
		pkg:   "recipes/once", test: "TestRequestsOfAFleet",
	},
	{
		name:  "operations of Commit are not copied",
		file:  "recipes/once/run.go",
		edits: []edit{{old: "	case *zk.SetDataRequest:\n		c := *op\n		copied, data = &c, &c.Data", new: "	case *zk.SetDataRequest:\n		copied, data = op, &op.Data"}},
		pkg:   "recipes/once", test: "TestOnce/inprocess/operations_of_Commit_are_carried_out_once",
	},
	{
		name:  "data of another program are taken for an empty record",
		file:  "recipes/once/record.go",
		edits: []edit{{old: " || r.n < 0 || list == nil {", new: " {"}},
		pkg:   "recipes/once", test: "TestOnce/inprocess/data_of_another_program_are_never_overwritten",
	},
	{
		name:  "a write of the record loses the time of the newest success",
		file:  "recipes/once/record.go",
		edits: []edit{{old: "	if at, ok := r.lastSuccess(); ok && r.done[len(r.done)-1].At.IsZero() {", new: "	if at, ok := r.lastSuccess(); ok && false {"}},
		pkg:   "recipes/once", test: "TestOnce/inprocess/a_forgotten_key_runs_again",
	},
	{
		name:  "firings before the start of the process are lost",
		file:  "recipes/once/schedule.go",
		edits: []edit{{old: "			r.follow(found)\n			return nil", new: "			r.moveTo(r.clock.now())\n			return nil"}},
		pkg:   "recipes/once", test: "TestRestartsMoreFrequentThanFirings",
	},
	{
		name:  "each missed firing runs",
		file:  "recipes/once/schedule.go",
		edits: []edit{{old: "	for high := now;", new: "	if !upcoming.After(now) {\n		return upcoming, now, nil\n	}\n	for high := now;"}},
		pkg:   "recipes/once", test: "TestAnOutageLeadsToOneCall",
	},
	{
		name:  "a firing is due by the clock of the client",
		file:  "recipes/once/schedule.go",
		edits: []edit{{old: "	firing, _, err := r.due(now)\n", new: "	firing, _, err := r.due(now.Add(time.Hour))\n"}},
		pkg:   "recipes/once", test: "TestAFastClientWaits",
	},
	{
		name:  "failures are tried again without a pause",
		file:  "recipes/once/schedule.go",
		edits: []edit{{old: "pause := pauses.Next()", new: "pause := time.Millisecond"}},
		pkg:   "recipes/once", test: "TestFailuresBackOff",
	},
}
