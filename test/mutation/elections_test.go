package mutation

// electionBugs are mutations of package leader.
var electionBugs = []group{
	{file: "recipes/leader/run.go", pkg: "recipes/leader", mutations: []mutation{
		{name: "the leader's node is deleted while its work runs",
			old: "\t_ = hold.Do(ctx,", new: "\tcontext.AfterFunc(ctx, func() { _, _ = hold.Release(), own.Release() })\n\t_ = hold.Do(ctx,",
			test: "TestNodeStaysUntilTheWorkHasReturned"},
		{name: "Release deletes the node while the work runs",
			old: "inside.Again(own.hold)", new: "own.hold, error(nil)",
			test: "TestNodeStaysUntilTheWorkHasReturned"},
		{name: "a term that is lost before the function is called ends Run",
			old: "return o, nil // own has ended, too", new: "return o, err // own has ended, too",
			test: "TestATermThatIsLostBeforeTheWorkBegins"},
		{name: "the leader's node is deleted before its term ends",
			old: "o.failed = f(", new: "_ = e.client.Delete(ctx, hold.Path(), framework.Guaranteed())\n\t\to.failed = f(",
			test: "TestATermEndsBeforeItsNodeGoes"},
	}},
	{file: "recipes/leader/leader.go", pkg: "recipes/leader", mutations: []mutation{
		{name: "a candidate ends with its session",
			old: " || errors.Is(err, framework.ErrLost)", new: "",
			test: "TestCandidateOutlastsItsRetryPolicy"},
	}},
	{file: "recipes/leader/observe.go", pkg: "recipes/leader", mutations: []mutation{
		{name: "an observer keeps showing the previous leader",
			old: "s == o.last {", new: "s.Elected == o.last.Elected && s.Stale == o.last.Stale {",
			test: "TestElection/inprocess/observers_see_each_leader_and_nobody"},
		{name: "an observer misses a candidate that joins while it sets its watch",
			old: "first, err := e.first(children, err); first == \"\" {", new: "_, err := e.first(children, err); true {",
			test: "TestObserverDoesNotMissWhoComesWhileItSetsItsWatch"},
	}},
	{file: "internal/engine/follow.go", pkg: "recipes/leader", mutations: []mutation{
		{name: "an observer may go back in time in a new session",
			old: "if err == nil && l != last && last != (Link{}) {", new: "if err == nil && l != last && last != (Link{}) && false {",
			test: "TestObserverCatchesUpInANewSession"},
	}},
}
