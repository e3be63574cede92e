package mutation

// nodeBugs are ways to break package node.
var nodeBugs = []mutation{
	{
		name:  "a kept node is shown although it was replaced meanwhile",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "!now.present && wait.Closed(k.watch.Done()):", new: "!now.present && false:"}},
		pkg:   "recipes/node", test: "TestANodeThatGoesWhileTheSessionIsProvenIsNotShown",
	},
	{
		name:  "a late write of a kept node brings old data back",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "k.stat.Mzxid != k.mine.mzxid && time.Now()", new: "k.stat.Mzxid < k.mine.mzxid && time.Now()"}},
		pkg:   "recipes/node", test: "TestALateWriteOfOursDoesNotBringOldDataBack",
	},
	{
		name:  "a persistent node that is made after Close stays",
		file:  "recipes/node/write.go",
		edits: []edit{{old: "\t\t\tk.sweep(ctx)\n", new: ""}},
		pkg:   "recipes/node", test: "TestAPersistentNodeThatComesAfterItsSessionGoes",
	},
	{
		name:  "a node of an old session is taken for the kept one",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "owner):\n\t\treturn left\n", new: "owner):\n\t\treturn ours\n"}},
		pkg:   "recipes/node", test: "TestTheNodeOfADyingSessionIsReplaced",
		worlds: keepers, seed: 25,
	},
	{
		name:  "a kept node seems to be there after its session",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "d.ended.Store(true)\n\t\t\ts.present, s.err = false, cause\n", new: "d.ended.Store(true)\n\t\t\ts.err = cause\n"}},
		pkg:   "recipes/node", test: "TestPresentIsFalseBeforeAnotherHasTheNode",
		worlds: keepers, seed: 34,
	},
	{
		name:  "a kept node has the data of its beginning when it is made again",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "\t\t\tk.mine.number = 0\n\t\t}\n\t\tk.mine.czxid, k.mine.mzxid", new: "\t\t}\n\t\tk.mine.content = k.status().want\n\t\tk.mine.czxid, k.mine.mzxid"}},
		pkg:   "recipes/node", test: "TestSecondLifeWithAnyRequestFailing",
		worlds: keepers, seed: 85,
	},
	{
		name:  "a kept node that may be there is not deleted",
		file:  "recipes/node/leave.go",
		edits: []edit{{old: "err != nil || !found ||", new: "err != nil || !found || k.status().shown.number == 0 ||"}},
		pkg:   "recipes/node", test: "TestGivingUpLeavesNothing",
		worlds: keepers, seed: 64,
	},
	{
		name:  "a Keep takes the node of another Keep of the client",
		file:  "recipes/node/leave.go",
		edits: []edit{{old: "\t\tif !has {\n", new: "\t\tif !has || v != nil {\n"}},
		pkg:   "recipes/node", test: "TestANodeIsOfTheKeepThatMadeIt",
		worlds: keepers, seed: 91,
	},
	{
		name:  "a deletion by a closed Keep is repeated although it may be done",
		file:  "recipes/node/leave.go",
		edits: []edit{{old: "engine.Hints{Once: true}", new: "engine.Hints{}"}},
		pkg:   "recipes/node", test: "TestADeletionThatMayBeDoneIsNotRepeated",
	},
	{
		name: "a closed Node is present until its goroutine comes to it",
		file: "recipes/node/node.go",
		edits: []edit{
			{old: "\t\ts.present = false\n\t\tif !errors.Is(s.err, framework.ErrClosed) {\n\t\t\ts.err = ErrClosed\n", new: "\t\tif !errors.Is(s.err, framework.ErrClosed) {\n\t\t\ts.err = ErrClosed\n"},
			{in: "recipes/node/keeper.go", old: "d.ended.Store(true)\n\t\t\ts.present, s.err = false, cause\n", new: "d.ended.Store(true)\n\t\t\ts.present, s.err = s.present && k.ctx.Err() != nil, cause\n"},
			{in: "recipes/node/keeper.go", old: "\terr = k.leave()\n", new: "\tk.missing(ErrClosed)\n\terr = k.leave()\n"},
		},
		pkg: "recipes/node", test: "TestPresentIsFalseFromCloseOn",
	},
}
