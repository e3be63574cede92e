// Package mutation breaks the library on purpose and requires that its tests notice: a test that cannot
// fail proves nothing. Each mutation replaces a few words of one source file, by which one promise
// of docs/RELIABILITY.md is broken, and names the test that must fail for it.
//
// Nothing is copied: the go command compiles the changed file in the place of the original (-overlay).
// A mutation whose words are not in the file any more, or more than once, fails its test, and so does
// one that does not compile. Those tests run on the in-process server, in virtual time where something is
// waited for, so a mutation costs little more than compiling and linking one test program: about 2 seconds
// of a processor each. `make mutations` builds as many at a time as there are processors, and runs eight tests at a time.
package mutation

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocurator/curator/internal/testlevel"
	"github.com/stretchr/testify/require"
)

// mutation is one way to break the library.
type mutation struct {
	name  string
	file  string // below the module's root
	edits []edit
	pkg   string // of the test
	test  string // that must fail
}

// edit replaces what must be in the file exactly once. The file is that of the mutation unless in names another.
type edit struct{ old, new, in string }

var mutations = []mutation{
	{
		name: "a node of an old session is accepted",
		file: "internal/engine/create.go",
		edits: []edit{
			{old: "if maybe && node.session == l.session {", new: "if maybe {"},
			{old: "owner != 0 && owner != l.session.ID()", new: "false && owner != 0"},
		},
		pkg: "framework", test: "TestNodeOfAnEarlierSessionIsNotTakenForOurs",
	},
	{
		name:  "the context ends after 4/3 of the session timeout",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "heard.Add((d.timeout - d.timeout/margin) / 100 * d.percent)", new: "heard.Add(d.timeout * 4 / 3)"}},
		pkg:   "recipes/lock", test: "TestHolderIsToldBeforeTheNextOneCanHold",
	},
	{
		name:  "the guard checks another node",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "CheckVersionRequest{Path: path, Version: -1}", new: `CheckVersionRequest{Path: path[:1], Version: -1}`}},
		pkg:   "recipes/lock", test: "TestGuardRefusesAStaleHolder",
	},
	{
		name:  "a read counts as proof",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "heard = d.proven", new: "heard = d.last"}},
		pkg:   "internal/session", test: "TestStrictDeadlineIsNeverLaterThanTheLeaders",
	},
	{
		name:  "the session is counted from the answer, not from the request",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "d.last = later(d.last, sent)\n\tif", new: "d.last = later(d.last, received)\n\tif"}},
		pkg:   "internal/session", test: "TestDeadlineCountsFromWhenTheRequestWasSent",
	},
	{
		name:  "a holder is not told that its session is lost",
		file:  "recipes/lock/lease.go",
		edits: []edit{{old: "n.depend(policy, l.lose)", new: "n.depend(policy, func(error) {})"}},
		pkg:   "recipes/lock", test: "TestHolderLearnsThatItsSessionIsOver",
	},
	{
		name:  "the node of a lost session is deleted while the work may still run",
		file:  "recipes/lock/lease.go",
		edits: []edit{{old: "case len(holds) == 0, errors.Is(cause, ErrMaxHold)", new: "case len(holds) == 0, errors.Is(cause, ErrMaxHold), errors.Is(cause, ErrSessionLost)"}},
		pkg:   "recipes/lock", test: "TestNodeOfALostSessionStaysUntilRelease",
	},
	{
		name:  "a view alone refuses TryAcquire",
		file:  "recipes/lock/acquire.go",
		edits: []edit{{old: "ok && err == nil && !inTheWay(children) {\n\t\t\treturn nil", new: "ok && err == nil {\n\t\t\tif inTheWay(children) {\n\t\t\t\treturn ErrNotAcquired\n\t\t\t}\n\t\t\treturn nil"}},
		pkg:   "recipes/lock", test: "TestTryAcquireAfterAReleaseElsewhere",
	},
	{
		name:  "an acquire that gives up leaves its node",
		file:  "recipes/lock/acquire.go",
		edits: []edit{{old: "\t\tw.leave()\n\t}\n\treturn nil, q.whyNot", new: "\t}\n\treturn nil, q.whyNot"}},
		pkg:   "recipes/lock", test: "TestWhoGivesUpIsInNobodysWay",
	},
	{
		name:  "a woken waiter holds without looking again",
		file:  "recipes/lock/waiter.go",
		edits: []edit{{old: "err = w.await(ctx, children, turn.Watch, leases, changed) // 4", new: "if err := w.await(ctx, children, turn.Watch, leases, changed); err != nil {\n\t\t\t\treturn nil, err\n\t\t\t}\n\t\t\treturn newHold(ctx, w.node, w.own)"}},
		pkg:   "recipes/lock", test: "TestWhoThinksThatItIsNextWaits",
	},
	{
		name:  "whoever waits for the one ahead takes it for the only one",
		file:  "recipes/lock/ahead.go",
		edits: []edit{{old: "if w.ahead == 1 && !wait.Closed(w.own.Done()) {", new: "if !wait.Closed(w.own.Done()) {"}},
		pkg:   "recipes/lock", test: "TestWhoThinksThatItIsNextWaits",
	},
	{
		name:  "whoever waits for the only one ahead does not look whether its own node is there",
		file:  "recipes/lock/ahead.go",
		edits: []edit{{old: "if w.ahead == 1 && !wait.Closed(w.own.Done()) {", new: "if w.ahead == 1 {"}},
		pkg:   "recipes/lock", test: "TestTheNextWhoseNodeIsDeletedQueuesAgain",
	},
	{
		name:  "a writer waits for the only one ahead, which may become a reader",
		file:  "recipes/lock/ahead.go",
		edits: []edit{{old: "return standard && len(names) == 1", new: "_ = standard\n\treturn len(names) == 1"}},
		pkg:   "recipes/rwlock", test: "TestReadWriteLock/inprocess",
	},
	{
		name:  "whoever waits for the only one ahead does not think of numbers that overflow",
		file:  "recipes/lock/ahead.go",
		edits: []edit{{old: " && !nearEnd(w.path)", new: ""}},
		pkg:   "recipes/lock", test: "TestTheNextAtTheEndOfTheNumbersLists",
	},
	{
		name:  "a contender does not look whether it may read its node",
		file:  "recipes/lock/acquire.go",
		edits: []edit{{old: "err = w.checkReadable(ctx)", new: "_ = w.checkReadable"}},
		pkg:   "recipes/lock", test: "TestContenderThatMayNotReadIsRefused",
	},
	{
		name:  "a view does not read the nodes of its first list",
		file:  "recipes/lock/internal/queueview/views.go",
		edits: []edit{{old: "err = v.read(l, most)", new: "_ = most"}},
		pkg:   "recipes/lock", test: "TestContenderThatMayNotReadIsRefused",
	},
	{
		name:  "a holder that may not read its node does not mind",
		file:  "recipes/lock/nodewatch.go",
		edits: []edit{{old: "\t\t\tl.lose(fmt.Errorf(\"%w: its node: %w\", ErrLost, err))\n", new: "\t\t\t_, _ = l, fmt.Errorf\n"}},
		pkg:   "recipes/lock", test: "TestHoldOfADriverWhoseNodesMayNotBeReadEnds",
	},
	{
		name:  "a view does not count what is created",
		file:  "recipes/lock/internal/queueview/view.go",
		edits: []edit{{old: "c.number == number)", new: "c.number <= number)"}, {old: "c.number < number // children", new: "c.number < -2 // children"}},
		pkg:   "recipes/lock", test: "TestViewThatMissedANodeIsNotAsked",
	},
	{
		name:  "a view counts with a sign",
		file:  "recipes/lock/internal/queueview/events.go",
		edits: []edit{{old: "int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)", new: "(int64(stat.Cversion) + int64(stat.NumChildren)) / 2"}, {old: "found || v.next < 0 {", new: "found {"}},
		pkg:   "recipes/lock", test: "TestViewThatMissedANodeIsNotAsked",
	},
	{
		name:  "a view begins without a list",
		file:  "recipes/lock/internal/queueview/events.go",
		edits: []edit{{old: "v.children[name] = &child{number: -1}", new: "_ = name"}},
		pkg:   "recipes/lock", test: "TestNodeThatWasThereBeforeTheViewIsWaitedFor",
	},
	{
		name:  "a view outlives its connection",
		file:  "recipes/lock/internal/queueview/views.go",
		edits: []edit{{old: "case <-l.Down():", new: "case <-make(chan struct{}):"}},
		pkg:   "recipes/lock", test: "TestWaitersGoOnWhenTheViewEnds",
	},
	{
		name:  "a view does not tell a holder that its node was deleted",
		file:  "recipes/lock/internal/queueview/events.go",
		edits: []edit{{old: "\t\tgone.Deleted()\n", new: ""}},
		pkg:   "recipes/lock", test: "TestHolderInAViewLearnsThatItsNodeWasDeleted",
	},
	{
		name: "the node is deleted before the holder is told",
		file: "recipes/lock/lease.go",
		edits: []edit{
			{old: "\th.end(ErrReleased)\n\tif d.last", new: "\tif d.last"},
			{in: "recipes/lock/hold.go", old: "err = l.give(ctx, d)", new: "err = l.give(ctx, d)\n\t\th.end(ErrReleased)"},
		},
		pkg: "recipes/lock", test: "TestReleaseOutlastsAnOutage",
	},
	{
		name:  "a node whose token the holder has read is handed off",
		file:  "recipes/lock/lend.go",
		edits: []edit{{old: "local == nil || l.shown || ", new: "local == nil || "}},
		pkg:   "recipes/lock", test: "TestWhatProvesAHoldIsNotPassedOn",
	},
	{
		name:  "a loss deletes a node that was handed off",
		file:  "recipes/lock/lease.go",
		edits: []edit{{old: "\tif l.cause != nil {\n\t\tl.mu.Unlock()", new: "\tif l.cause != nil && !errors.Is(l.cause, errLent) {\n\t\tl.mu.Unlock()"}},
		pkg:   "recipes/lock", test: "TestLossThatComesTooLate",
	},
	{
		name:  "a kept node is not taken over",
		file:  "recipes/lock/lend.go",
		edits: []edit{{old: "if l.kept == nil {", new: "if l.kept == nil || true {"}},
		pkg:   "recipes/lock", test: "TestKeptNodeIsTakenOverWithoutARequest",
	},
	{
		name:  "a kept node stays when somebody joins",
		file:  "recipes/lock/node.go",
		edits: []edit{{old: "if holds {\n\t\tl.giveBack()", new: "if holds {\n\t\t_ = l.giveBack"}},
		pkg:   "recipes/lock", test: "TestKeptNodeGoes",
	},
	{
		name:  "a node is kept although somebody has joined just before",
		file:  "recipes/lock/lend.go",
		edits: []edit{{old: "if over || n.queue.isCrowded(n) {", new: "if over {"}},
		pkg:   "recipes/lock", test: "TestSomebodyJoinsWhileANodeBeginsToBeKept",
	},
	{
		name: "a kept node stays when the connection is lost",
		file: "recipes/lock/node.go",
		edits: []edit{
			{old: "if holds && !l.giveBack() {", new: "if holds && l != nil {"},
			{in: "recipes/lock/lend.go", old: "newLease(n, connstate.Standard)", new: "newLease(n, connstate.Session)"},
		},
		pkg: "recipes/lock", test: "TestKeptNodeGoes",
	},
	{
		name:  "a kept node stays for ever",
		file:  "recipes/lock/lend.go",
		edits: []edit{{old: "func() { kept.end(errUnused) })\n\tkept.mu", new: "func() {})\n\tkept.mu"}},
		pkg:   "recipes/lock", test: "TestKeptNodeGoes",
	},
	{
		name:  "a group ends after its hold",
		file:  "recipes/lock/hold.go",
		edits: []edit{{old: "\t\tg.end(cause)", new: "\t\tgo g.end(cause)"}},
		pkg:   "recipes/lock", test: "TestGroupEndsBeforeAReleaseIsSent",
	},
	{
		name:  "Close deletes nodes before all holders are told",
		file:  "internal/engine/run.go",
		edits: []edit{{old: "\t\t<-session.notified // close", new: "\t\t// close"}},
		pkg:   "framework", test: "TestCloseTellsEverybodyBeforeTheServers",
	},
	{
		name:  "the reader of a downgrade has an ACL of its own",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "ACL(framework.Join(base, writeName))", new: "ACL(framework.Join(base, name+sequence))"}},
		pkg:   "recipes/rwlock", test: "TestReaderOfADowngradeIsNoSecret",
	},
	{
		name:  "WithMaxHold has no effect after a suspension",
		file:  "recipes/lock/lease.go",
		edits: []edit{{old: "if l.timer != nil && !errors.Is(cause, ErrSuspended) {", new: "if _ = cause; l.timer != nil {"}},
		pkg:   "recipes/lock", test: "TestMaxHoldEndsAStuckHolder",
	},
	{
		name:  "only one of several holders is watched",
		file:  "recipes/lock/driver.go",
		edits: []edit{{old: "Watch: children[i-maxLeases : i]", new: "Watch: children[i-maxLeases : i-maxLeases+1]"}},
		pkg:   "recipes/lock", test: "TestStandardDriverNeverOversleeps",
	},
	{
		name:  "there is one holder too many",
		file:  "recipes/lock/driver.go",
		edits: []edit{{old: "if i < maxLeases {", new: "if i <= maxLeases {"}},
		pkg:   "recipes/lock", test: "TestOnlyTheFirstHolds",
	},
	{
		name:  "sequence numbers are used after they overflow",
		file:  "recipes/lock/internal/queueview/order.go",
		edits: []edit{{old: "return n < 0 || n >= math.MaxInt32", new: "return n > math.MaxInt32"}},
		pkg:   "recipes/lock", test: "TestExhaustedNumbersAreRefused",
	},
	{
		name:  "a lock path that an operator created is deleted",
		file:  "recipes/lock/rewind.go",
		edits: []edit{{old: "stat.DataLength > 0 || ", new: ""}},
		pkg:   "recipes/lock", test: "TestPathOfAnOperatorIsNotDeleted",
	},
	{
		name:  "a downgraded reader has a token of its own",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "\t\tlockapi.SetToken(ctx, stat.Czxid)\n", new: "\t\tlockapi.SetToken(ctx, stat.Czxid*0)\n"}},
		pkg:   "recipes/rwlock", test: "TestTokenDoesNotFallAfterADowngrade",
	},
	{
		name:  "a node whose create reply was lost is not deleted",
		file:  "internal/engine/create.go",
		edits: []edit{{old: "\t\t\tc.sweeper.sweep(node, \"\")\n\t\t} else if node != nil {", new: "\t\t} else if node != nil {"}},
		pkg:   "recipes/lock", test: "TestCreateThatComesLateIsInNobodysWay",
	},
	{
		name:  "nobody watches the holder's node",
		file:  "recipes/lock/lease.go",
		edits: []edit{{old: "if n.inView() == nil {\n\t\tn.watch(watchAfter, own)", new: "if false {\n\t\tn.watch(watchAfter, own)"}},
		pkg:   "recipes/lock", test: "TestHolderLearnsThatItsNodeWasDeleted",
	},
	{
		name:  "a server that is behind what events have told need not catch up",
		file:  "internal/engine/connect.go",
		edits: []edit{{old: "if session.behind.Load() || session.depended() {", new: "if session.depended() {"}},
		pkg:   "framework", test: "TestWhatAnEventToldOfIsReadOnTheNextConnection",
	},
	{
		name:  "a reply that the session has expired is ignored",
		file:  "internal/engine/session.go",
		edits: []edit{{old: "if a.Code == proto.SessionExpired {", new: "if a.Code == -proto.SessionExpired {"}},
		pkg:   "framework", test: "TestServerThatSaysExpiredEndsTheSession",
	},
	{
		name:  "an error code that a server returns alone counts as proof",
		file:  "internal/proto/code.go",
		edits: []edit{{old: "case OK, NoNode, BadVersion, NodeExists, NotEmpty:", new: "case OK, NoNode, BadVersion, NodeExists, NotEmpty, Throttled:"}},
		pkg:   "framework", test: "TestAnswersOfOneServerAloneDoNotProlong",
	},
	{
		name:  "the time for which the machine was suspended does not count",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "d.last, d.proven = d.last.Add(-more), d.proven.Add(-more)", new: ""}},
		pkg:   "internal/session", test: "TestTheTimeOfASuspendedMachineCounts",
	},
	{
		name:  "a leader's answer to a sync counts as proof",
		file:  "internal/proto/op.go",
		edits: []edit{{old: "case OpCreate, OpDelete, OpSetData,", new: "case OpSync, OpCreate, OpDelete, OpSetData,"}},
		pkg:   "framework", test: "TestOnlyThoseWhoDependOnASessionCostTheLeaderAnything",
	},
	{
		name:  "a connect request that goes on with a session counts at once",
		file:  "internal/session/deadline.go",
		edits: []edit{{old: "	d.last = later(d.last, sent)\n	d.first", new: "	d.last, d.proven = later(d.last, sent), later(d.proven, sent)\n	d.first"}},
		pkg:   "internal/session", test: "TestReconnectConfirmsTheSession",
	},
	{
		name:  "a reply to another request is accepted",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "if oldest.xid != xid {", new: "if false {"}},
		pkg:   "internal/conn", test: "TestAnAnswerToSomethingElseEndsTheConnection",
	},
	{
		name:  "a session whose end is among the results of a multi goes on",
		file:  "internal/conn/loops.go",
		edits: []edit{{old: "header.Code = proto.MultiCode(*d)", new: "_ = d"}},
		pkg:   "framework", test: "TestAMultiOfAnExpiredSessionEndsIt",
	},
	{
		name:  "a forgotten request gets no nudge",
		file:  "internal/conn/nudge.go",
		edits: []edit{{old: "if n.wanted && !n.looking {", new: "if false {"}},
		pkg:   "framework", test: "TestARequestThatTheServerHasForgottenIsAnsweredSoon",
	},
	{
		name:  "a server that is down gets one nudge after the other",
		file:  "internal/conn/nudge.go",
		edits: []edit{{old: "left <= 0 && c.syncs == 0", new: "left <= 0"}},
		pkg:   "framework", test: "TestAServerThatAnswersNothingGetsOneNudge",
	},
	{
		name:  "a session timeout of 0 is accepted",
		file:  "internal/conn/open.go",
		edits: []edit{{old: "case reply.Timeout <= 0:", new: "case false:"}},
		pkg:   "internal/conn", test: "TestABadWelcomeIsAnError",
	},
	{
		name:  "memory is allocated for any length prefix",
		file:  "internal/proto/frame.go",
		edits: []edit{{old: "make([]byte, 0, min(n, step))", new: "make([]byte, 0, n)"}},
		pkg:   "internal/proto", test: "TestALengthPrefixIsNotBelieved",
	},
	{
		name:  "memory is allocated for any count",
		file:  "internal/proto/decoder.go",
		edits: []edit{{old: "n > len(d.rest)/size {", new: "false {"}},
		pkg:   "internal/proto", test: "TestCountsAreNotBelieved",
	},
	{
		name:  "a server that closes the connection is tried again at once",
		file:  "internal/engine/connect.go",
		edits: []edit{{old: "	_ = wait.Sleep(ctx, f.young.Next())\n", new: "	_ = ctx\n"}},
		pkg:   "framework", test: "TestNothingThatAServerSaysCrashesUs",
	},
	{
		name: "servers that do not answer use up the session's time",
		file: "internal/engine/connect.go",
		edits: []edit{
			{old: "session.left()/time.Duration(n+1), minServerTime", new: "session.left()/time.Duration(n+1), time.Second"},
			{old: "	slices.SortStableFunc(servers, func(a, b string) int { return f.failed[a].Compare(f.failed[b]) })\n", new: "	_ = slices.Contains(servers, \"\")\n"},
		},
		pkg: "framework", test: "TestOneOfFiveServersIsEnough",
	},
	{
		name:  "an operation is retried in a session that is over",
		file:  "internal/engine/errors.go",
		edits: []edit{{old: "func (e *overError) Verdict() retry.Verdict { return retry.Over }", new: "func (e *overError) Verdict() retry.Verdict { return retry.Lost }"}},
		pkg:   "framework", test: "TestADeadSessionIsNotRetriedIn",
	},
	{
		name:  "a read's watch replaces a persistent one",
		file:  "internal/engine/watches.go",
		edits: []edit{{old: "return w, false, ws.requestLocked(key)", new: "return w, false, true"}},
		pkg:   "framework", test: "TestWatchesOnOnePathDoNotDisturbEachOther",
	},
	{
		name:  "removing a watch removes it for other users too",
		file:  "internal/engine/watches.go",
		edits: []edit{{old: "	if !ws.servesLocked(path) && !s.leaving {", new: "	if !s.leaving {"}, {old: "!s.needed() && !ws.servesLocked(s.path)", new: "!s.needed()"}},
		pkg:   "framework", test: "TestRemovingAWatchTakesNoOtherAway",
	},
	{
		name:  "Close leaves the node of a failed persistent create",
		file:  "internal/engine/run.go",
		edits: []edit{{old: "		c.sweeper.last(ctx, l)\n", new: ""}},
		pkg:   "framework", test: "TestCloseRemovesWhatAPersistentProtectedCreateLeaves",
	},
	{
		name:  "a retry does not start early when the connection is back",
		file:  "internal/engine/attempts.go",
		edits: []edit{{old: "		if l := now.link; l != nil && l != used && l.up() {", new: "		if l := now.link; false && l != used {"}},
		pkg:   "framework", test: "TestAPauseEndsWhenTheConnectionIsBack",
	},
	{
		name:  "TryAcquire of a lease overtakes waiters",
		file:  "recipes/lock/acquire.go",
		edits: []edit{{old: "return len(children) > 0", new: "return len(children) < 0"}},
		pkg:   "recipes/semaphore", test: "TestSemaphore/inprocess/a_try_does_not_overtake_those_who_wait",
	},
	{
		name:  "a failed AcquireN keeps some leases",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{old: "func leave(holds []*lock.Hold) { lockapi.Leave(given(holds)...) }", new: "func leave([]*lock.Hold) {}"}},
		pkg:   "recipes/semaphore", test: "TestSemaphore/inprocess/several_leases:_all_or_none",
	},
	{
		name:  "a lease that a count has granted is kept when the count has fallen",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{old: "err == nil && now == falls {", new: "err == nil && now >= falls {"}},
		pkg:   "recipes/semaphore", test: "TestLeaseThatIsReleasedAfterTheCountFellIsNotGranted",
	},
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
		name:  "a server that is too busy to catch up is read from",
		file:  "internal/engine/session.go",
		edits: []edit{{old: "behind && a.Code == proto.Throttled", new: "behind && a.Code == proto.Throttled && false"}},
		pkg:   "framework", test: "TestAServerThatIsTooBusyToCatchUpIsLeft",
	},
	{
		name:  "a write through zkconn is repeated",
		file:  "zkconn/conn.go",
		edits: []edit{{old: "engine.Hints{Once: true}", new: "engine.Hints{}"}},
		pkg:   "zkconn", test: "TestAWriteIsSentOnce",
	},
	{
		name:  "a watch of zkconn does not see what it has missed",
		file:  "zkconn/watch.go",
		edits: []edit{{old: "e.Type == 0 {", new: "e.Type == 0 || key.kind == ofData {"}},
		pkg:   "zkconn", test: "TestAWatchSurvivesAReconnect",
	},
	{
		name:  "a Lock of zkconn releases what somebody else holds",
		file:  "zkconn/lock.go",
		edits: []edit{{old: "mine := l.hold == nil", new: "mine := true"}},
		pkg:   "zkconn", test: "TestALostLockIsUnlockedBeforeItIsLockedAgain",
	},
	{
		name:  "two writers hold at the same time",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{old: "!(isRead(own) && isRead(child))", new: "isRead(own) != isRead(child)"}},
		pkg:   "recipes/rwlock", test: "TestReadWriteLock/inprocess",
	},
}

// TestEachMutationCanBeMade keeps the list in step with the sources.
func TestEachMutationCanBeMade(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) { overlay(t, root, m) })
	}
}

func TestEachMutationIsCaught(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("LEFT OUT: no go command to build with")
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	seeSources(t, root)
	sound := newSound(t, root)
	turns := make(chan struct{}, runtime.NumCPU()) // to build; who runs a test waits most of the time
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			list := overlay(t, root, m)
			turns <- struct{}{}
			began := time.Now()
			_, _, _ = sound.built[m.pkg]()
			program, output, err := build(t, root, m.pkg, list)
			<-turns
			require.NoErrorf(t, err, "the mutation does not compile:\n%s", output)
			built := time.Now()
			sound.check(t, m)
			out, err := runTest(t, program, m.test)
			var exit *exec.ExitError
			require.Truef(t, errors.As(err, &exit), "not caught by %s in %s (%v):\n%s", m.test, m.pkg, err, out)
			require.Containsf(t, out, "--- FAIL: "+first(m.test), "%s ended otherwise than by failing", m.test)
			require.NotContainsf(t, out, "test timed out", "%s does not end", m.test)
			t.Logf("%s: built in %v, %s failed after %v", m.file, built.Sub(began), m.test, time.Since(built))
		})
	}
}

// seeSources looks at every source file: the go command then knows that the result of this test depends on
// them, and does not take an old one from its cache.
func seeSources(t *testing.T, root string) {
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		return err
	}))
}

// sound are the tests of the library as it is, which must pass.
type sound struct {
	root, dir string
	built     map[string]func() (program, output string, err error) // by package
}

func newSound(t *testing.T, root string) *sound {
	s := &sound{root: root, dir: t.TempDir(), built: make(map[string]func() (string, string, error))}
	for _, m := range mutations {
		if s.built[m.pkg] != nil {
			continue
		}
		type product struct{ program, output string }
		program := filepath.Join(s.dir, strings.ReplaceAll(m.pkg, "/", "-")+".test")
		once := sync.OnceValues(func() (product, error) {
			out, err := compile(root, m.pkg, program)
			return product{program, out}, err
		})
		s.built[m.pkg] = func() (string, string, error) {
			p, err := once()
			return p.program, p.output, err
		}
	}
	return s
}

// check fails unless the mutation's test exists and passes without the mutation.
func (s *sound) check(t *testing.T, m mutation) {
	t.Helper()
	program, out, err := s.built[m.pkg]()
	require.NoErrorf(t, err, "does not compile:\n%s", out)
	out, err = runTest(t, program, m.test)
	require.NoErrorf(t, err, "fails without the mutation:\n%s", out)
	require.Containsf(t, out, "--- PASS: "+first(m.test), "there is no such test in %s", m.pkg)
}

// overlay applies a mutation and returns the file that tells the go command of it.
func overlay(t *testing.T, root string, m mutation) string {
	t.Helper()
	sources := make(map[string]string) // by path
	for _, e := range m.edits {
		original := filepath.Join(root, cmp.Or(e.in, m.file))
		source, found := sources[original]
		if !found {
			data, err := os.ReadFile(original)
			require.NoError(t, err)
			source = string(data)
		}
		require.Equalf(t, 1, strings.Count(source, e.old), "this mutation is out of date: %s must have %q once", original, e.old)
		sources[original] = strings.Replace(source, e.old, e.new, 1)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for original, source := range sources {
		changed := filepath.Join(dir, filepath.Base(original))
		require.NoError(t, os.WriteFile(changed, []byte(source), 0o600))
		replace[original] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, list, 0o600))
	return file
}

// build compiles a package's tests with a mutation. A mutation that does not compile proves nothing.
func build(t *testing.T, root, pkg, overlay string) (program, output string, err error) {
	program = filepath.Join(t.TempDir(), "mutant.test")
	output, err = compile(root, pkg, program, "-overlay", overlay)
	return program, output, err
}

func compile(root, pkg, program string, flags ...string) (output string, err error) {
	args := slices.Concat([]string{"test", "-c", "-ldflags", "-s -w", "-o", program}, flags, []string{"./" + pkg})
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runTest runs one test of a program, without Docker, where it can leave behind what it likes.
func runTest(t *testing.T, program, test string) (output string, err error) {
	cmd := exec.Command(program, "-test.v", "-test.run", pattern(test), "-test.timeout", "90s")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CURATOR_TEST_ENSEMBLE=") // what would run on an ensemble is not what is asked for
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// pattern matches a test, or a subtest, by its whole name.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

func first(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}
