package mutation

func init() { mutations = append(mutations, elections...) }

// elections are the ways to break package leader.
var elections = []mutation{
	{
		name:  "leadership is given back while its work goes on",
		file:  "recipes/leader/run.go",
		edits: []edit{{"cancel(context.Cause(ctx)) }", "cancel(context.Cause(ctx)); _ = term.release() }"}},
		pkg:   "recipes/leader", test: "TestNodeStaysUntilTheWorkHasReturned",
	},
	{
		name:  "a resignation deletes the node of work that goes on",
		file:  "recipes/leader/term.go",
		edits: []edit{{"case !t.working:", "case true:"}},
		pkg:   "recipes/leader", test: "TestNodeStaysUntilTheWorkHasReturned",
	},
	{
		name:  "the leader's node goes before its term ends",
		file:  "recipes/leader/run.go",
		edits: []edit{{"o.failed = f(work, term)", "_, _ = e.client.DeleteGuaranteed(ctx, hold.Path())\n\to.failed = f(work, term)"}},
		pkg:   "recipes/leader", test: "TestATermEndsBeforeItsNodeGoes",
	},
	{
		name:  "a candidate ends with its session",
		file:  "recipes/leader/leader.go",
		edits: []edit{{" || errors.Is(err, lock.ErrLost)", ""}},
		pkg:   "recipes/leader", test: "TestCandidateOutlastsItsRetryPolicy",
	},
	{
		name:  "a candidate ends with the election's path",
		file:  "recipes/leader/leader.go",
		edits: []edit{{" || errors.Is(err, zk.ErrNoNode)", ""}},
		pkg:   "recipes/leader", test: "TestElectionThatVanishesIsMadeAgain",
	},
	{
		name:  "an observer goes on showing the leader before",
		file:  "recipes/leader/observe.go",
		edits: []edit{{"o.told && state == o.shown:", "o.told && state.Elected == o.shown.Elected && !o.shown.Stale:"}},
		pkg:   "recipes/leader", test: "TestObserverIsToldOfTheNextLeader",
	},
	{
		name:  "an observer may go back in time in a new session",
		file:  "recipes/leader/observe.go",
		edits: []edit{{"if o.session != session {", "if false {"}},
		pkg:   "recipes/leader", test: "TestObserverCatchesUpInANewSession",
	},
	{
		name:  "an observer misses who comes while it sets its watch",
		file:  "recipes/leader/observe.go",
		edits: []edit{{"err != nil || len(names) > 0 {\n\t\treturn State{}, nil, err", "err != nil || len(names) < 0 {\n\t\treturn State{}, nil, err"}},
		pkg:   "recipes/leader", test: "TestObserverDoesNotMissWhoComesWhileItSetsItsWatch",
	},
}
