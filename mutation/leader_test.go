package mutation

func init() { mutations = append(mutations, elections...) }

// elections are the ways to break package leader.
var elections = []mutation{
	{
		name:  "the leader's node is deleted while its work runs",
		file:  "recipes/leader/run.go",
		edits: []edit{{old: "cancel(context.Cause(ctx)) }", new: "cancel(context.Cause(ctx)); _ = term.release() }"}},
		pkg:   "recipes/leader", test: "TestNodeStaysUntilTheWorkHasReturned",
	},
	{
		name:  "Resign deletes the node while the work runs",
		file:  "recipes/leader/term.go",
		edits: []edit{{old: "case !t.working:", new: "case true:"}},
		pkg:   "recipes/leader", test: "TestNodeStaysUntilTheWorkHasReturned",
	},
	{
		name:  "the leader's node is deleted before its term ends",
		file:  "recipes/leader/run.go",
		edits: []edit{{old: "o.failed = f(work, term)", new: "_, _ = e.client.DeleteGuaranteed(ctx, hold.Path())\n\to.failed = f(work, term)"}},
		pkg:   "recipes/leader", test: "TestATermEndsBeforeItsNodeGoes",
	},
	{
		name:  "a candidate ends with its session",
		file:  "recipes/leader/leader.go",
		edits: []edit{{old: " || errors.Is(err, lock.ErrLost)", new: ""}},
		pkg:   "recipes/leader", test: "TestCandidateOutlastsItsRetryPolicy",
	},
	{
		name:  "an observer keeps showing the previous leader",
		file:  "recipes/leader/observe.go",
		edits: []edit{{old: "o.told && state == o.shown:", new: "o.told && state.Elected == o.shown.Elected && !o.shown.Stale:"}},
		pkg:   "recipes/leader", test: "TestObserverIsToldOfTheNextLeader",
	},
	{
		name:  "an observer may go back in time in a new session",
		file:  "recipes/leader/observe.go",
		edits: []edit{{old: "if o.session != session {", new: "if false {"}},
		pkg:   "recipes/leader", test: "TestObserverCatchesUpInANewSession",
	},
	{
		name:  "an observer misses a candidate that joins while it sets its watch",
		file:  "recipes/leader/observe.go",
		edits: []edit{{old: "err != nil || len(names) > 0 {\n\t\treturn State{}, nil, err", new: "err != nil || len(names) < 0 {\n\t\treturn State{}, nil, err"}},
		pkg:   "recipes/leader", test: "TestObserverDoesNotMissWhoComesWhileItSetsItsWatch",
	},
}
