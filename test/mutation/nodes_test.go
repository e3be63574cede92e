package mutation

// nodeBugs are mutations of package node.
var nodeBugs = []mutation{
	{
		name:  "a kept node is shown although it was replaced",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "if wait.Closed(k.watch.Done()) {", new: "if false {"}},
		pkg:   "recipes/node", test: "TestWhatWasReadBeforeTheNodeWasDeletedIsNotBelieved",
	},
	{
		name:  "a late write of a kept node brings old data back",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "k.stat.Mzxid != k.mine.mzxid {", new: "k.stat.Mzxid < k.mine.mzxid {"}},
		pkg:   "recipes/node", test: "TestALateWriteOfOursDoesNotBringOldDataBack",
	},
	{
		name:  "a late write of a kept node is forgotten in the next session",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "\tk.session, k.stat, k.watch,", new: "\tengine.Of(k.client).Values().Delete(lateKey(k.key()))\n\tk.session, k.stat, k.watch,"}},
		pkg:   "recipes/node", test: "TestALateWriteMeetsNoNodeThatIsMadeAgain",
	},
	{
		name:  "a late write of a kept node is forgotten when its Keep is closed",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "\tdefer close(k.done)\n", new: "\tdefer close(k.done)\n\tdefer func() { engine.Of(k.client).Values().Delete(lateKey(k.key())) }()\n"}},
		pkg:   "recipes/node", test: "TestALateWriteDoesNotMeetTheNodeOfTheNextKeep",
	},
	{
		name:  "a late write of a kept node is expected for ever",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "\t\ttime.AfterFunc(2*k.session.Timeout(), func() { values.CompareAndDelete(key, stat) })\n", new: ""}},
		pkg:   "recipes/node", test: "TestWhatOthersWriteStaysWhenNoLateWriteCanCome/no_late_write_can_come",
	},
	{
		name:  "a persistent node that is created after Close stays",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "\t\t\tk.owe(nil).GiveUp()", new: "\t\t\t_ = k.owe"}},
		pkg:   "recipes/node", test: "TestClose_ACreateOfAnEarlierSession",
	},
	{
		name:  "a node with a TTL that is created after Close is deleted",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "return !k.cfg.persistent() || k.cfg.ttl > 0", new: "return !k.cfg.persistent()"}},
		pkg:   "recipes/node", test: "TestAPersistentNodeThatComesAfterItsSessionGoes/ttl",
	},
	{
		name:  "a node of an old session is taken for the kept one",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "case k.stat.EphemeralOwner == k.owner:", new: "case k.wasOurs(k.stat):"}},
		pkg:   "recipes/node", test: "TestTheNodeOfADyingSessionIsReplaced",
		worlds: keepers, seed: 25,
	},
	{
		name:  "a kept node seems to be there after its session",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "Depend(k.cfg.policy, k.lost)", new: "Depend(k.cfg.policy, func(cause error) { k.now.Set(func(s *status) { s.err = cause }); k.wake.Raise() })"}},
		pkg:   "recipes/node", test: "TestPresentIsFalseAfterTheSessionWhateverTheKeeperWaitsFor",
		worlds: keepers, seed: 529,
	},
	{
		name:  "a recreated kept node has its first data",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "\tk.mine.mzxid = cmp.Or(", new: "\tif k.mine.mzxid == 0 {\n\t\tk.mine = k.status().want\n\t}\n\tk.mine.mzxid = cmp.Or("}},
		pkg:   "recipes/node", test: "TestSecondLifeWithAnyRequestFailing",
		worlds: keepers, seed: 85,
	},
	{
		name:  "a kept node that may be there is not deleted",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "if !k.sent || k.cfg.ttl > 0 {", new: "if !k.sent || k.cfg.ttl > 0 || k.status().shown.number == 0 {"}},
		pkg:   "recipes/node", test: "TestGivingUpLeavesNothing",
		worlds: keepers, seed: 64,
	},
	{
		name:  "a Keep takes the node of another Keep of the client",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "\t\tif !has {\n", new: "\t\tif !has || v != nil {\n"}},
		pkg:   "recipes/node", test: "TestANodeIsOfTheKeepThatMadeIt",
		worlds: keepers, seed: 91,
	},
	{
		name:  "a deletion by a closed Keep is repeated although it may be done",
		file:  "internal/engine/sweep.go",
		edits: []edit{{old: "d.deleting == 0 || d.deleting == stat.Czxid", new: "true"}},
		pkg:   "recipes/node", test: "TestADeletionThatMayBeDoneIsNotRepeated",
	},
	{
		name:  "a closed Node is present until its goroutine runs",
		file:  "recipes/node/node.go",
		edits: []edit{{old: "\t\ts.gone(framework.ErrEnded)\n", new: "\t\ts.err = framework.ErrEnded\n"}},
		pkg:   "recipes/node", test: "TestPresentIsFalseFromCloseOn",
	},
	{
		name:  "a kept node that was deleted is present until it is looked at",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "e.Type == zk.EventNodeDeleted {", new: "e.Type == zk.EventNodeDeleted && false {"}},
		pkg:   "recipes/node", test: "TestAnEventThatTheNodeWasDeletedIsBelieved",
	},
	{
		name:  "a persistent node that another client recreated is believed to have the last data",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "if k.stat != nil || !k.cfg.persistent() {", new: "if k != nil {"}},
		pkg:   "recipes/node", test: "TestWhatWasMadeAgainBeforeTheFirstLookIsNotBelieved",
	},
	{
		name:  "a node that replaces another has its version",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "if other.Version == 1 {", new: "if other.Version < 0 {"}},
		pkg:   "recipes/node", test: "TestAWriteUnderWayDoesNotMeetTheNodeOfAnother",
	},
	{
		name:  "a Set of a kept node that was refused says what is wrong now",
		file:  "recipes/node/node.go",
		edits: []edit{{old: "		err = s.refusal\n", new: "		err = s.err\n"}},
		pkg:   "recipes/node", test: "TestASetThatWasRefusedSaysSo",
	},
	{
		name:  "data that are too long for a create are set",
		file:  "recipes/node/node.go",
		edits: []edit{{old: "Fits(n.path, len(data))", new: "Fits(n.path, 0)"}},
		pkg:   "recipes/node", test: "TestDataThatAreTooLongAreGivenUp",
	},
}
