package mutation

// electionBugs are mutations of package leader.
var electionBugs = []mutation{
	{
		name:  "the leader's node is deleted while its work runs",
		file:  "recipes/leader/run.go",
		edits: []edit{{old: "\t_ = hold.Do(ctx,", new: "\tcontext.AfterFunc(ctx, func() { _, _ = hold.Release(), own.Release() })\n\t_ = hold.Do(ctx,"}},
		pkg:   "recipes/leader", test: "TestNodeStaysUntilTheWorkHasReturned",
	},
	{
		name:  "Release deletes the node while the work runs",
		file:  "recipes/leader/run.go",
		edits: []edit{{old: "inside.Again(own.hold)", new: "own.hold, error(nil)"}},
		pkg:   "recipes/leader", test: "TestNodeStaysUntilTheWorkHasReturned",
	},
	{
		name:  "a term that is lost before the function is called ends Run",
		file:  "recipes/leader/run.go",
		edits: []edit{{old: "return o, nil // own has ended, too", new: "return o, err // own has ended, too"}},
		pkg:   "recipes/leader", test: "TestATermThatIsLostBeforeTheWorkBegins",
	},
	{
		name:  "the leader's node is deleted before its term ends",
		file:  "recipes/leader/run.go",
		edits: []edit{{old: "o.failed = f(", new: "_ = e.client.Delete(ctx, hold.Path(), framework.Guaranteed())\n\t\to.failed = f("}},
		pkg:   "recipes/leader", test: "TestATermEndsBeforeItsNodeGoes",
	},
	{
		name:  "a candidate ends with its session",
		file:  "recipes/leader/leader.go",
		edits: []edit{{old: " || errors.Is(err, framework.ErrLost)", new: ""}},
		pkg:   "recipes/leader", test: "TestCandidateOutlastsItsRetryPolicy",
	},
	{
		name:  "an observer keeps showing the previous leader",
		file:  "recipes/leader/observe.go",
		edits: []edit{{old: "s == o.last {", new: "s.Elected == o.last.Elected && s.Stale == o.last.Stale {"}},
		pkg:   "recipes/leader", test: "TestElection/inprocess/observers_see_each_leader_and_nobody",
	},
	{
		name:  "an observer may go back in time in a new session",
		file:  "internal/engine/follow.go",
		edits: []edit{{old: "if err == nil && l != last && last != (Link{}) {", new: "if err == nil && l != last && last != (Link{}) && false {"}},
		pkg:   "recipes/leader", test: "TestObserverCatchesUpInANewSession",
	},
	{
		name:  "an observer misses a candidate that joins while it sets its watch",
		file:  "recipes/leader/observe.go",
		edits: []edit{{old: "first, err := e.first(children, err); first == \"\" {", new: "_, err := e.first(children, err); true {"}},
		pkg:   "recipes/leader", test: "TestObserverDoesNotMissWhoComesWhileItSetsItsWatch",
	},
}
