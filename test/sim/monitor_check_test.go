package sim

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/lock"
)

// checked lets a function report holders to a monitor, and returns the monitor's complaints.
func checked(t *testing.T, most int, report func(m *monitor, hold func(h held) (end func()))) (wrong []string) {
	synctest.Test(t, func(*testing.T) {
		m := newMonitor(most, false)
		owner := 0
		report(m, func(h held) func() {
			var end context.CancelCauseFunc
			h.ctx, end = context.WithCancelCause(context.Background())
			if h.owner == 0 {
				owner++
				h.owner = owner
			}
			h.timeout = 4 * time.Second
			m.enter(&h)
			return func() { end(errors.New("released")) }
		})
		m.tokens()
		wrong = m.wrong
	})
	return wrong
}

// requireWrong requires one complaint that begins so, or none.
func requireWrong(t *testing.T, want string, wrong []string) {
	t.Helper()
	if want == "" {
		require.Empty(t, wrong)
		return
	}
	require.Len(t, wrong, 1)
	require.True(t, strings.HasPrefix(wrong[0], want), wrong[0])
}

func TestMonitorFindsWhatIsWrong(t *testing.T) {
	type hold = func(held) func()
	for name, c := range map[string]struct {
		most   int
		report func(*monitor, hold)
		want   string // empty: nothing
	}{
		"one after the other":      {1, func(_ *monitor, hold hold) { hold(held{known: 1})(); hold(held{known: 2}) }, ""},
		"two at a time":            {1, func(_ *monitor, hold hold) { hold(held{}); hold(held{}) }, "overlap"},
		"readers":                  {1, func(_ *monitor, hold hold) { hold(held{shared: true}); hold(held{shared: true}) }, ""},
		"a writer beside a reader": {1, func(_ *monitor, hold hold) { hold(held{shared: true}); hold(held{}) }, "overlap"},
		"a reader beside a writer": {1, func(_ *monitor, hold hold) { hold(held{}); hold(held{shared: true}) }, "overlap"},
		"a downgrade": {1, func(_ *monitor, hold hold) {
			hold(held{owner: 7, known: 3})
			hold(held{owner: 7, shared: true, known: 3})
		}, ""},
		"two of two":               {2, func(_ *monitor, hold hold) { hold(held{}); hold(held{}) }, ""},
		"three of two":             {2, func(_ *monitor, hold hold) { hold(held{}); hold(held{}); hold(held{}) }, "overlap"},
		"a token that falls":       {1, func(_ *monitor, hold hold) { hold(held{known: 2})(); hold(held{known: 1}) }, "token falls"},
		"a token that stays":       {1, func(_ *monitor, hold hold) { hold(held{known: 2})(); hold(held{known: 2}) }, "token falls"},
		"a session ended by force": {1, func(m *monitor, hold hold) { hold(held{session: 5}); m.end(5); hold(held{}) }, ""},
		"an excuse that has ended": {1, func(m *monitor, hold hold) {
			hold(held{session: 5})
			m.end(5)
			time.Sleep(15 * time.Second)
			hold(held{})
		}, "overlap"},
		"a node deleted by hand": {1, func(m *monitor, hold hold) { hold(held{node: "/l/a"}); m.delete("/l/a"); hold(held{}) }, ""},
		"another node deleted":   {1, func(m *monitor, hold hold) { hold(held{node: "/l/a"}); m.delete("/l/b"); hold(held{}) }, "overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			requireWrong(t, c.want, checked(t, c.most, c.report))
		})
	}
}

func TestMonitorFindsStaleAndLostWrites(t *testing.T) {
	old, late := &held{known: 1}, &held{known: 2}
	for name, c := range map[string]struct {
		writes []write
		value  int
		want   string
	}{
		"in order":              {[]write{{1, old}, {2, late}}, 2, ""},
		"a stale holder writes": {[]write{{1, late}, {2, old}}, 2, "stale write"},
		"the same number twice": {[]write{{1, old}, {1, late}}, 2, "update lost"},
		"a counter that is low": {[]write{{1, old}, {2, late}}, 1, "update lost"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMonitor(1, false)
			m.writes = c.writes
			m.conclude(c.value)
			requireWrong(t, c.want, m.wrong)
		})
	}
}

func TestMonitorFindsNodesThatVanish(t *testing.T) {
	const session, path = 5, "/l/a"
	for name, c := range map[string]struct {
		cause  error
		report func(m *monitor)
		lives  bool
		wrong  bool
	}{
		"its session lives":         {lock.ErrNodeDeleted, func(*monitor) {}, true, true},
		"its session is over":       {lock.ErrNodeDeleted, func(*monitor) {}, false, false},
		"it was deleted by hand":    {lock.ErrNodeDeleted, func(m *monitor) { m.delete(path) }, true, false},
		"its session was ended":     {lock.ErrNodeDeleted, func(m *monitor) { m.end(session) }, true, false},
		"it was lost in other ways": {framework.ErrSuspended, func(*monitor) {}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMonitor(1, false)
			ctx, end := context.WithCancelCause(context.Background())
			h := &held{ctx: ctx, session: session, node: path, timeout: time.Second}
			m.enter(h)
			c.report(m)
			end(c.cause)
			m.leave(h)
			m.vanished(map[int64]bool{session: c.lives})
			require.Equal(t, c.wrong, len(m.wrong) > 0)
		})
	}
}

func TestMonitorFindsNodesOfOldSessions(t *testing.T) {
	m := newMonitor(1, false)
	m.end(1)
	m.wrongOwner("a", "/l/a", 1, 2)
	require.Empty(t, m.wrong, "it was ended by force at that moment")
	m.wrongOwner("a", "/l/a", 3, 2)
	require.Len(t, m.wrong, 1)
}

func TestRivalsBelieveByThemselvesAndAreExcusedByTheWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newMonitor(1, false)
		rivals := newMonitor(1, false)
		rivals.base = world
		believes := true
		first := &held{owner: 1, session: 1, node: "/a", ctx: context.Background(), believe: func() bool { return believes }}
		second := &held{owner: 2, session: 2, node: "/a", ctx: context.Background()}
		rivals.enter(first)
		world.end(1)
		rivals.enter(second)
		require.Empty(t, rivals.wrong, "an excuse")
		time.Sleep(time.Minute)
		rivals.enter(&held{owner: 3, ctx: context.Background()})
		require.Len(t, rivals.wrong, 1)
		require.Contains(t, rivals.wrong[0], "overlap")
		believes = false
		rivals.live = []*held{first}
		rivals.enter(second)
		require.Len(t, rivals.wrong, 1, "it does not believe any more")
	})
}

func TestATrapCatchesTheNextWhoSuits(t *testing.T) {
	m := newMonitor(2, false)
	var caught []*held
	m.arm(&trap{suits: func(h *held) bool { return h.watches }, sprung: func(_ *trap, h *held) { caught = append(caught, h) }})
	hold := func(h held) *held {
		h.ctx, h.session, h.node, h.timeout = context.Background(), 1, "/l", time.Second
		m.enter(&h)
		return &h
	}
	require.Nil(t, m.pinOf(hold(held{owner: 1})), "does not suit")
	h := hold(held{owner: 1, watches: true})
	require.NotNil(t, m.pinOf(h))
	require.Nil(t, m.pinOf(hold(held{owner: 1, watches: true})), "once")
	require.Equal(t, []*held{h}, caught)
	m.arm(&trap{})
	require.Equal(t, 1, m.disarm())
	require.Zero(t, m.disarm())
}

func TestWatcherFindsWhatIsWrong(t *testing.T) {
	at := func(czxid, mzxid int64) cache.Node {
		return cache.Node{Path: "/a", Stat: zk.Stat{Czxid: czxid, Mzxid: mzxid}}
	}
	for name, c := range map[string]struct {
		changes []cache.Change
		wrong   bool
	}{
		"created, changed, deleted, created": {[]cache.Change{
			{Kind: cache.Created, New: at(1, 1)}, {Kind: cache.Changed, Old: at(1, 1), New: at(1, 2)}, {Kind: cache.Deleted, Old: at(1, 2)},
			{Kind: cache.Created, New: at(3, 3)},
		}, false},
		"deleted after skipped changes": {[]cache.Change{{Kind: cache.Created, New: at(1, 1)}, {Kind: cache.Deleted, Old: at(1, 2)}}, false},
		"made twice":                    {[]cache.Change{{Kind: cache.Created, New: at(1, 1)}, {Kind: cache.Created, New: at(2, 2)}}, true},
		"deleted before it existed":     {[]cache.Change{{Kind: cache.Deleted, Old: at(1, 1)}}, true},
		"changed to an earlier state":   {[]cache.Change{{Kind: cache.Created, New: at(1, 2)}, {Kind: cache.Changed, Old: at(1, 2), New: at(1, 1)}}, true},
		"created in the state before its deletion": {[]cache.Change{
			{Kind: cache.Created, New: at(2, 2)}, {Kind: cache.Deleted, Old: at(2, 2)}, {Kind: cache.Created, New: at(1, 1)},
		}, true},
		"the same created again": {[]cache.Change{
			{Kind: cache.Created, New: at(1, 1)}, {Kind: cache.Deleted, Old: at(1, 1)}, {Kind: cache.Created, New: at(1, 1)},
		}, true},
		"another one changed": {[]cache.Change{{Kind: cache.Created, New: at(1, 1)}, {Kind: cache.Changed, Old: at(2, 2), New: at(2, 3)}}, true},
		"created after its parent, deleted before it": {[]cache.Change{
			{Kind: cache.Created, New: at(1, 1)}, {Kind: cache.Created, Path: "/a/b", New: at(2, 2)}, {Kind: cache.Deleted, Path: "/a/b", Old: at(2, 2)},
			{Kind: cache.Deleted, Old: at(1, 1)},
		}, false},
		"created without its parent": {[]cache.Change{{Kind: cache.Created, Path: "/a/b", New: at(1, 1)}}, true},
		"deleted after its parent": {[]cache.Change{
			{Kind: cache.Created, New: at(1, 1)}, {Kind: cache.Created, Path: "/a/b", New: at(2, 2)}, {Kind: cache.Deleted, Old: at(1, 1)},
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := &watcher{world: &world{monitor: newMonitor(1, false)}, watcherPlan: watcherPlan{Path: "/a"}, notified: map[string]zk.Stat{}, mirror: map[string]cache.Node{}}
			for _, ch := range c.changes {
				ch.Path = cmp.Or(ch.Path, "/a")
				x.change(ch)
			}
			require.Equal(t, c.wrong, len(x.monitor.wrong) > 0, "%v", x.monitor.wrong)
		})
	}
	x := &watcher{world: &world{monitor: newMonitor(1, false)}, seen: map[string]zk.Stat{}}
	x.look(at(1, 1))
	x.look(at(2, 2))
	require.Empty(t, x.monitor.wrong)
	x.look(at(2, 1))
	require.Len(t, x.monitor.wrong, 1)
}

// TestEveryFaultHits requires that there are worlds in which each kind of fault finds something.
func TestEveryFaultHits(t *testing.T) {
	for kind := range faultKinds {
		t.Run(kind.String(), func(t *testing.T) {
			s := scenario{
				Seed: 1, Recipe: "mutex", Members: 3, MemberLatency: time.Millisecond, Latency: time.Millisecond, Lag: time.Millisecond,
				SyncTimeout: 10 * time.Second, ReapEvery: time.Minute, Length: 10 * time.Second,
			}
			if kind == refuseCredentials {
				s.ACL = "auth"
			}
			for range 3 {
				s.Clients = append(s.Clients, clientPlan{
					Session: 4 * time.Second, Connection: 5 * time.Second, Goroutines: 2, Trusting: true, Retries: 20, Eager: true,
					StayMost: 300 * time.Millisecond, Revocable: true,
				})
			}
			for i := range 8 {
				s.Faults = append(s.Faults, fault{At: time.Duration(i+1) * time.Second, Kind: kind, For: time.Second, Target: i})
			}
			hits := 0
			// some kinds need a holder whose server leads
			for ; hits == 0 && s.Seed <= 10; s.Seed++ {
				r := simulate(t, s, false)
				require.Empty(t, r.wrong)
				hits = r.counts["fault: "+kind.String()]
			}
			require.Positive(t, hits)
		})
	}
}
