package mutation

// contextBugs are mutations of the contexts inside Do and of what they allow to acquire.
var contextBugs = []mutation{
	{
		name:  "the context inside Do has no deadline",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "life, stop := context.WithCancel(ctx)", new: "life, stop := context.WithCancel(context.WithoutCancel(ctx))\n\tdefer context.AfterFunc(ctx, stop)()"}},
		pkg:   "recipes/lock", test: "TestDo_HowItsContextEnds",
	},
	{
		name:  "the context inside Do is cancelled by a goroutine",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "\th.endsWith(cancel)\n", new: "\tdefer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()\n"}},
		pkg:   "recipes/lock", test: "TestDo_EndsBeforeAReleaseIsSent",
	},
	{
		name:  "the end of a hold calls the caller's context",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "life, stop := context.WithCancel(ctx)", new: "life, stop := ctx, func() {}"}},
		pkg:   "recipes/lock", test: "TestDo_NoUserCodeUnderAMutex",
	},
	{
		name:  "values of Acquire's context hide those of Do's",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "return &doContext{life, h.ctx}", new: "return wait.Join(life, h.ctx)"}},
		pkg:   "recipes/lock", test: "TestDo_Values",
	},
	{
		name:  "each nested Do doubles the time to look up a value",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "case !same(ctx, h.asked):", new: "case true:"}},
		pkg:   "recipes/lock", test: "TestDo_NestedLookups",
	},
}
