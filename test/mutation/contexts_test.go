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
	{
		name:  "a fan-out inside a hold enters the mutex",
		file:  "recipes/lock/nested.go",
		edits: []edit{{old: "\treturn q.cfg.nesting == reenters && h", new: "\treturn h"}},
		pkg:   "recipes/mutex", test: "TestMutex/inprocess/a_fan-out_inside_a_hold_does_not_enter",
	},
	{
		name:  "a second object for a held path waits for its caller",
		file:  "recipes/lock/context.go",
		edits: []edit{{old: "\tif p, ok := key.(placeKey); ok && p == c.hold.term.node.queue.place {", new: "\tif q, ok := key.(*Queue); ok && q == c.hold.term.node.queue {"}, {in: "recipes/lock/nested.go", old: "func (q *Queue) nested(ctx context.Context) (*Hold, error) {\n\th, _ := ctx.Value(q.place)", new: "func (q *Queue) nested(ctx context.Context) (*Hold, error) {\n\th, _ := ctx.Value(q)"}},
		pkg:   "recipes/lock", test: "TestAcquire_Place",
	},
	{
		name:  "the context inside Do does not carry the hold",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "return &heldContext{life, h}", new: "return life"}},
		pkg:   "recipes/lock", test: "TestDo_CarriesTheHolds",
	},
	{
		name:  "a released hold of a lease that lives lets its caller wait for itself",
		file:  "recipes/lock/nested.go",
		edits: []edit{{old: "case cause == nil && h.term.node.queue != q:", new: "case cause == nil && h.Err() != nil:\n\t\treturn nil\n\tcase cause == nil && h.term.node.queue != q:"}},
		pkg:   "recipes/lock", test: "TestAcquire_TheLeaseCounts",
	},
	{
		name:  "a holder whose connection was suspended waits for its own node",
		file:  "recipes/lock/nested.go",
		edits: []edit{{old: "case outlasts(cause) && h.term.isHeld() &&", new: "case false &&"}},
		pkg:   "recipes/lock", test: "TestAcquire_InsideAHold",
	},
	{
		name:  "a holder whose connection was suspended is refused although its node is gone",
		file:  "recipes/lock/nested.go",
		edits: []edit{{old: " && !wait.Closed(h.term.node.gone): //", new: ": //"}},
		pkg:   "recipes/lock", test: "TestAcquire_InsideAHold",
	},
	{
		name:  "a group hides the values of an observer",
		file:  "recipes/lock/group.go",
		edits: []edit{{old: "case slices.ContainsFunc(g.holds, func(h *Hold) bool { return h.traced }):", new: "case false:"}},
		pkg:   "recipes/multilock", test: "TestDo_ValueOfAnObserver",
	},
	{
		name:  "a reader after a write hold takes the place of the writer",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "inside.Acquire(inside.Without(ctx, l.write), s.queue, how)", new: "inside.Acquire(ctx, s.queue, how)"}},
		pkg:   "recipes/rwlock", test: "TestAcquire_AfterTheHold",
	},
	{
		name:  "a reader inside a write hold of another object waits for it",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "err = inside.Refuse(ctx, l.write, lock.ErrHeld, \"Lock.Downgrade continues as a reader\")", new: "err = nil"}},
		pkg:   "recipes/rwlock", test: "TestAcquire_InsideAHold",
	},
	{
		name:  "a candidate waits for its caller's suspended term",
		file:  "recipes/leader/leader.go",
		edits: []edit{{old: "if err := inside.Refuse(ctx, e.queue, lock.ErrHeld, \"release the term first\"); err != nil {", new: "if err := ctx.Err(); err != nil {"}},
		pkg:   "recipes/leader", test: "TestCampaign_InsideATermOfTheElection",
	},
	{
		name:  "an update inside its mutex fails when it is overtaken",
		file:  "recipes/shared/value.go",
		edits: []edit{{old: "errors.Is(err, lock.ErrHeld) {", new: "false {"}},
		pkg:   "recipes/shared", test: "TestUpdate_InsideItsMutex",
	},
}
