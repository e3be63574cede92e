package mutation

// recipeBugs are ways to break the recipes that the simulation runs beside its contenders. The seeds are estimates from the number of worlds
// of the kind that it took.
var recipeBugs = []mutation{
	{
		name:   "a leader that resigns deletes its node while its function goes on",
		file:   "recipes/leader/run.go",
		edits:  []edit{{old: "own.hold.Again(own.Context())", new: "own.hold, error(nil)"}},
		worlds: election, seed: 48,
	},
	{
		name:   "an observer does not look again after a change",
		file:   "recipes/leader/observe.go",
		edits:  []edit{{old: "\t\t\tcase <-watch.Done():\n", new: "\t\t\tcase <-watch.Done():\n\t\t\t\t<-within.Done()\n"}},
		worlds: election, seed: 48,
	},
	{
		name:   "an observer's first state may be old",
		file:   "recipes/internal/follow/follow.go",
		edits:  []edit{{old: "if err := engine.Ask(ctx, l.CatchUp); err != nil {", new: "if err := ctx.Err(); err != nil {"}},
		worlds: election, seed: 528,
	},
	{
		name:   "a write to a shared value whose reply was lost counts as refused",
		file:   "recipes/shared/write.go",
		edits:  []edit{{old: "err = v.settle(ctx, session, mark, err)", new: "err = zk.ErrBadVersion"}},
		worlds: numbers, seed: 48,
	},
	{
		name:   "a write to a shared value whose reply was lost is sent again",
		file:   "recipes/shared/write.go",
		edits:  []edit{{old: "err = v.settle(ctx, session, mark, err)", new: "continue"}},
		worlds: numbers, seed: 72,
	},
	{
		name:   "a shared value is written whatever its version",
		file:   "recipes/shared/value.go",
		edits:  []edit{{old: "return v.number", new: "return anyVersion"}},
		worlds: numbers, seed: 48,
	},
	{
		name:  "an update in a row begins with something older than was shown",
		file:  "recipes/shared/recent.go",
		edits: []edit{{old: "(version.mzxid > r.last.version.mzxid || !version.Exists())", new: "!version.Exists()"}},
		pkg:   "recipes/shared", test: "TestAnUpdateNeverBeginsWithSomethingOlderThanWasShown",
	},
	{
		name:  "an update in a row begins with something that is deleted",
		file:  "recipes/shared/recent.go",
		edits: []edit{{old: " || !version.Exists()) {", new: ") {"}},
		pkg:   "recipes/shared", test: "TestAnUpdateNeverBeginsWithSomethingOlderThanWasShown",
	},
	{
		name:  "a double barrier opens late, when its member has left",
		file:  "recipes/barrier/double.go",
		edits: []edit{{old: "&zk.CheckVersionRequest{Path: a.member, Version: -1}", new: "&zk.CheckVersionRequest{Path: \"/\", Version: -1}"}},
		pkg:   "recipes/barrier", test: "TestAReadyThatIsCarriedOutLateLetsNobodyPass",
	},
	{
		name:  "a member of a double barrier passes by a ready that others have left behind",
		file:  "recipes/barrier/double.go",
		edits: []edit{{old: "slices.Equal(names, []string{ready})", new: "slices.Equal(names, nil)"}},
		pkg:   "recipes/barrier", test: "TestAReadyThatNobodyIsInsideOfLetsNobodyPass",
	},
	{
		name:  "a member of a double barrier that comes again deletes the ready of its own round",
		file:  "recipes/barrier/double.go",
		edits: []edit{{old: "if a.entry == nil { // later", new: "if a != nil { // later"}},
		pkg:   "recipes/barrier", test: "TestAMemberThatComesAgainPassesIfTheOthersHaveCrashed",
	},
	{
		name:   "a double barrier opens with one too few",
		file:   "recipes/barrier/double.go",
		edits:  []edit{{old: "len(members(names)) >= a.n {", new: "len(members(names)) >= a.n-1 {"}},
		worlds: barrier, seed: 48,
	},
	{
		name:   "a member that is not the first stays while it waits for the others to leave",
		file:   "recipes/barrier/double.go",
		edits:  []edit{{old: "if alone || names[0] != own {", new: "if alone {"}},
		worlds: barrier, seed: 48,
	},
	{
		name:   "a member that leaves does not wait for the others",
		file:   "recipes/barrier/double.go",
		edits:  []edit{{old: "\tother := names[0]\n", new: "\tif names[0] != own {\n\t\treturn nil, nil\n\t}\n\tother := names[0]\n"}},
		worlds: barrier, seed: 72,
	},
	{
		name:   "a member that gives up stays",
		file:   "recipes/barrier/double.go",
		edits:  []edit{{old: "_, _ = d.client.DeleteGuaranteed(ctx, member)", new: "_, _ = ctx, member"}},
		worlds: barrier, seed: 48,
	},
	{
		name:   "a wait at a barrier begins with a server that is behind",
		file:   "recipes/internal/follow/follow.go",
		edits:  []edit{{old: "if err := engine.Ask(ctx, l.CatchUp); err != nil {", new: "if err := ctx.Err(); err != nil {"}},
		worlds: barrier, seed: 240,
	},
	{
		name:   "a lease is granted by a count that has fallen",
		file:   "recipes/semaphore/semaphore.go",
		edits:  []edit{{old: "err == nil && now == falls {", new: "err == nil && now >= 0 {\n\t\t\t_ = falls"}},
		worlds: pool, seed: 1248,
	},
	{
		name:   "a waiter does not follow the count",
		file:   "recipes/semaphore/count.go",
		edits:  []edit{{old: "\t\tif c.adopt(int(n), watch) {", new: "\t\tif c.watch != nil || c.adopt(int(n), watch) {"}},
		worlds: pool, seed: 72,
	},
	{
		name:   "a multilock that fails keeps what it has",
		file:   "recipes/multilock/multilock.go",
		edits:  []edit{{old: "queue.Leave(holds)", new: "queue.Leave(holds[:0])"}},
		worlds: multilock, seed: 72,
	},
	{
		name:   "the first release of a lock with several holds deletes the node",
		file:   "recipes/internal/queue/hold.go",
		edits:  []edit{{old: "d.last = len(l.holds) == 0", new: "d.last = true"}},
		worlds: all, seed: 12,
	},
	{
		name:   "a revocation is written to nobody's node",
		file:   "recipes/revocable/revoke.go",
		edits:  []edit{{old: "_, err = client.Set(ctx, path, []byte(revokeMessage), -1)", new: "_ = stat"}},
		worlds: revocable, seed: 72,
	},
	{
		name:   "a list of instances stays as it was at the beginning",
		file:   "discovery/watch.go",
		edits:  []edit{{old: "{ *l = list }", new: "{ _ = list }"}},
		worlds: services, seed: 48,
	},
	{
		name:  "a permanent instance is written into a node that came meanwhile",
		file:  "discovery/register.go",
		edits: []edit{{old: "d.client.Create(ctx, path, data, framework.ContainerParents())", new: "d.client.CreateOrSet(ctx, path, data, framework.ContainerParents())"}},
		pkg:   "discovery", test: "TestAPermanentInstanceReplacesOneThatComesMeanwhile",
	},
	{
		name:   "a closed registration stays",
		file:   "discovery/register.go",
		edits:  []edit{{old: "{ return r.node.Close() }", new: "{ return nil }"}},
		worlds: services, seed: 48,
	},
	{
		name:  "a Kratos instance is deleted and still kept",
		file:  "discovery/kratosregistry/registry.go",
		edits: []edit{{old: "done <- reg.node.Close()", new: "done <- r.client.Delete(context.Background(), path, -1)"}},
		pkg:   "discovery/kratosregistry", test: "TestNothingComesBackAfterDeregister",
	},
	{
		name:  "a URI spec without parts is written as Java cannot use it",
		file:  "discovery/instance.go",
		edits: []edit{{old: "w.URISpec != nil && w.URISpec.Parts == nil {", new: "false {"}},
		pkg:   "discovery", test: "TestAURISpecWithoutPartsHasAnEmptyList",
	},
	{
		name:  "recipes may write nodes without data",
		file:  "framework/options.go",
		edits: []edit{{old: "c.data = append([]byte{}, data...)", new: "c.data = data"}},
		pkg:   "framework", test: "TestDefaultDataAreNeverNoData",
	},
}
