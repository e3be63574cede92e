package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/shard"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oracle watches the calls of all members. It knows nothing of plans or elections.
type oracle struct {
	t     *testing.T
	mu    sync.Mutex
	calls map[int][]call // that have not returned, by shard
	began int            // calls
	moves int            // calls for a shard that another member had before
	last  map[int]string

	forced bool // sessions are ended by force, which owners notice afterwards
}

type call struct {
	id  string
	ctx context.Context
}

func newOracle(t *testing.T) *oracle {
	return &oracle{t: t, calls: make(map[int][]call), last: make(map[int]string)}
}

// work returns a function for Run that works until its context ends.
func (o *oracle) work(id string) func(ctx context.Context, shard int) error {
	return func(ctx context.Context, shard int) error {
		defer o.begin(ctx, id, shard)()
		<-ctx.Done()
		return nil
	}
}

// begin notes that a call begins, and returns what notes that it returns.
func (o *oracle) begin(ctx context.Context, id string, shard int) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.calls[shard] {
		assert.True(o.t, o.forced || c.ctx.Err() != nil, "shard %d has two owners: %s and %s", shard, c.id, id)
		assert.NotEqual(o.t, id, c.id, "two calls for shard %d", shard)
	}
	o.began++
	if last := o.last[shard]; last != "" && last != id {
		o.moves++
	}
	o.last[shard] = id
	o.calls[shard] = append(o.calls[shard], call{id, ctx})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.calls[shard] = slices.DeleteFunc(o.calls[shard], func(c call) bool { return c.ctx == ctx })
	}
}

// owned returns how many shards each member owns.
func (o *oracle) owned() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	owned := make(map[string]int)
	for _, calls := range o.calls {
		for _, c := range calls {
			if c.ctx.Err() == nil {
				owned[c.id]++
			}
		}
	}
	return owned
}

// total returns how many shards have an owner.
func (o *oracle) total() (sum int) {
	for _, n := range o.owned() {
		sum += n
	}
	return sum
}

// takeMoves returns the number of moves since it was called before.
func (o *oracle) takeMoves() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	moves := o.moves
	o.moves = 0
	return moves
}

// world has members with a client each, in virtual time.
type world struct {
	*testing.T
	server *zktest.Server
	client func(...framework.Option) *framework.Client
	oracle *oracle
}

func virtual(t *testing.T, test func(w world), opts ...zktest.Option) {
	t.Helper()
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		test(world{t, w.Server, w.Client, newOracle(t)})
	}, opts...)
}

// member is a member whose Run is in progress.
type member struct {
	*shard.Member
	client *framework.Client
	stop   context.CancelFunc // ends Run
	ended  chan error         // the result of Run; closed after that
}

// leave ends the Run of a member, and returns when it has returned.
func (m member) leave() error {
	m.stop()
	return <-m.ended
}

// join joins and runs a member of a group of shards with a separate client.
func (w world) join(id string, shards int, opts ...shard.Option) member {
	w.Helper()
	return w.joinWith(w.client(), id, shards, w.oracle.work(id), opts...)
}

func (w world) joinWith(
	client *framework.Client, id string, shards int, f func(context.Context, int) error, opts ...shard.Option,
) member {
	w.Helper()
	m, err := shard.New(client, "/ingest", id, shards, opts...)
	require.NoError(w, err)
	ctx, stop := context.WithCancel(context.Background())
	running := member{m, client, stop, make(chan error, 1)}
	go func() {
		defer close(running.ended)
		running.ended <- m.Run(ctx, f)
	}()
	w.Cleanup(func() {
		stop()
		for range running.ended {
		}
	})
	return running
}

// joinBoth joins two members, a and b, and waits until they own half of the shards each.
func (w world) joinBoth(shards int, opts ...shard.Option) (a, b member) {
	w.Helper()
	a, b = w.join("a", shards, opts...), w.join("b", shards, opts...)
	w.settled(map[string]int{"a": shards / 2, "b": shards / 2})
	w.oracle.takeMoves()
	return a, b
}

// settled waits until the members own so many shards each.
func (w world) settled(want map[string]int) {
	w.Helper()
	for range 1000 {
		// in virtual time
		if time.Sleep(100 * time.Millisecond); maps.Equal(w.oracle.owned(), want) {
			return
		}
	}
	require.Equal(w, want, w.oracle.owned())
}

func TestRun_BalancesAsMembersJoinLeaveAndCrash(t *testing.T) {
	virtual(t, func(w world) {
		a := w.join("a", 10)
		w.settled(map[string]int{"a": 10})
		require.Equal(w, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, a.Owned())
		b := w.join("b", 10)
		w.settled(map[string]int{"a": 5, "b": 5})
		require.Equal(w, 5, w.oracle.takeMoves())
		c := w.join("c", 10)
		w.settled(map[string]int{"a": 4, "b": 3, "c": 3})
		require.Equal(w, 3, w.oracle.takeMoves())
		require.ErrorIs(w, b.leave(), context.Canceled)
		w.settled(map[string]int{"a": 5, "c": 5})
		require.Equal(w, 3, w.oracle.takeMoves())
		w.oracle.forced = true
		require.NoError(w, w.server.ExpireSession(w.session(c)))
		time.Sleep(time.Second) // in virtual time
		w.settled(map[string]int{"a": 5, "c": 5})
	})
}

// The next planner knows no members until it has read the group.
func TestRun_ANewPlannerMovesOnlyTheShardsOfTheFormerOne(t *testing.T) {
	virtual(t, func(w world) {
		a := w.join("a", 9)
		w.settled(map[string]int{"a": 9})
		w.join("b", 9)
		w.settled(map[string]int{"a": 5, "b": 4})
		w.join("c", 9)
		w.settled(map[string]int{"a": 3, "b": 3, "c": 3})
		before := w.oracle.began
		require.ErrorIs(w, a.leave(), context.Canceled)
		time.Sleep(10 * time.Second) // in virtual time
		w.settled(map[string]int{"b": 5, "c": 4})
		require.Equal(w, 3, w.oracle.began-before)
	}, zktest.WithLatency(80*time.Millisecond))
}

func TestRun_Weights(t *testing.T) {
	virtual(t, func(w world) {
		w.join("a", 12)
		w.join("b", 12, shard.WithWeight(2))
		w.settled(map[string]int{"a": 4, "b": 8})
	})
}

func TestNew_RestartWithinTheSessionKeepsTheShards(t *testing.T) {
	virtual(t, func(w world) {
		_, dead := w.joinBoth(8)
		w.server.Freeze(w.session(dead)) // for good: the process has crashed, and its session lives on
		w.join("b", 8)
		w.settled(map[string]int{"a": 4, "b": 4})
		require.Zero(w, w.oracle.takeMoves())
	})
}

func TestDrain_HandsOverOneByOne(t *testing.T) {
	virtual(t, func(w world) {
		_, b := w.joinBoth(12)
		states, stop := context.WithCancel(w.Context())
		most := testbed.Go(func() (most int) {
			for state, err := range b.Observe(states) {
				if err == nil {
					most = max(most, 12-len(state.Owned)-w.oracle.owned()["a"])
				}
			}
			return most
		})
		require.NoError(w, b.Drain(testbed.Context(w.T)))
		stop()
		require.NoError(w, <-b.ended)
		require.LessOrEqual(w, <-most, 2, "one moves, and one has its new owner, whose function is about to run")
		w.settled(map[string]int{"a": 12})
		require.Equal(w, 6, w.oracle.takeMoves())
	}, zktest.WithLatency(time.Millisecond))
}

func TestDrain_WaitsForTheNewOwnerOfEachShard(t *testing.T) {
	virtual(t, func(w world) {
		a, b := w.joinBoth(6)
		session := w.session(a)
		campaigns := w.server.Block(zktest.On(func(r zktest.Request) bool {
			return r.Session == session && strings.HasPrefix(r.Path, "/ingest/shards/")
		}))
		defer campaigns.Open()
		drained := testbed.Go(func() error { return b.Drain(testbed.Context(w.T)) })
		time.Sleep(2 * time.Second) // in virtual time
		require.Len(w, b.Owned(), 2, "the others stay until the first has its new owner")
		campaigns.Open()
		require.NoError(w, <-drained)
		w.settled(map[string]int{"a": 6})
	})
}

func TestDrain_TheLastMember(t *testing.T) {
	virtual(t, func(w world) {
		a := w.join("a", 6)
		w.settled(map[string]int{"a": 6})
		require.NoError(w, a.Drain(testbed.Context(w.T)))
		require.NoError(w, <-a.ended)
		require.NoError(w, a.Drain(testbed.Context(w.T)), "again")
		require.NoError(w, a.Run(testbed.Context(w.T), w.oracle.work("a")), "a drained member takes no shards")
		w.join("b", 6)
		w.settled(map[string]int{"b": 6})
	})
}

func TestDrain_BeforeRun(t *testing.T) {
	virtual(t, func(w world) {
		m, err := shard.New(w.client(), "/ingest", "a", 4)
		require.NoError(w, err)
		require.NoError(w, m.Drain(testbed.Context(w.T)))
		require.NoError(w, m.Run(testbed.Context(w.T), w.oracle.work("a")))
		require.False(w, w.server.Exists("/ingest/members"))
	})
}

// Tokens rise from owner to owner, and the guard of a former owner fails.
func TestTerm(t *testing.T) {
	virtual(t, func(w world) {
		require.Nil(w, shard.Term(w.Context()))
		terms := make(chan *leader.Term, 10)
		work := func(ctx context.Context, _ int) error {
			terms <- shard.Term(ctx)
			<-ctx.Done()
			return nil
		}
		a := w.joinWith(w.client(), "a", 1, work)
		first := testbed.Receive(w.T, terms, "the first owner")
		low, err := first.FencingToken(testbed.Context(w.T))
		require.NoError(w, err)
		client := w.client()
		w.joinWith(client, "b", 1, work)
		require.NoError(w, a.Drain(testbed.Context(w.T)))
		second := testbed.Receive(w.T, terms, "the second owner")
		high, err := second.FencingToken(testbed.Context(w.T))
		require.NoError(w, err)
		require.Greater(w, high, low)
		_, err = a.client.Multi(testbed.Context(w.T), first.Guard())
		require.ErrorIs(w, err, zk.ErrNoNode)
		_, err = client.Multi(testbed.Context(w.T), second.Guard())
		require.NoError(w, err)
	})
}

func TestRun_ContextDerivesFromTheCallers(t *testing.T) {
	virtual(t, func(w world) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(w.Context(), key{}, "value"), time.Minute)
		defer cancel()
		m, err := shard.New(w.client(), "/ingest", "a", 1)
		require.NoError(w, err)
		require.ErrorIs(w, m.Run(ctx, func(in context.Context, _ int) error {
			want, _ := ctx.Deadline()
			deadline, _ := in.Deadline()
			require.Equal(w, want, deadline)
			require.Equal(w, "value", in.Value(key{}))
			<-in.Done()
			require.Equal(w, context.DeadlineExceeded, in.Err())
			return in.Err()
		}), context.DeadlineExceeded)
	})
}

func TestRun_AnErrorAfterTheShardWasLostIsLogged(t *testing.T) {
	virtual(t, func(w world) {
		var logged strings.Builder
		client := w.client(framework.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		failure := errors.New("flush failed")
		a := w.joinWith(client, "a", 2, func(ctx context.Context, shard int) error {
			defer w.oracle.begin(ctx, "a", shard)()
			<-ctx.Done()
			if shard == 0 {
				return ctx.Err()
			}
			return failure
		})
		w.settled(map[string]int{"a": 2})
		w.join("b", 2)
		w.settled(map[string]int{"a": 1, "b": 1})
		require.NoError(w, a.Drain(testbed.Context(w.T)))
		require.NoError(w, <-a.ended)
		require.Equal(w, 1, strings.Count(logged.String(), "flush failed"))
		require.Equal(w, 1, strings.Count(logged.String(), "function failed"))
	})
}

func TestRun_AFunctionThatGoesOnKeepsItsShard(t *testing.T) {
	virtual(t, func(w world) {
		finish := make(chan struct{})
		done := sync.OnceFunc(func() { close(finish) })
		defer done() // in a test that fails, too
		a := w.joinWith(w.client(), "a", 2, func(ctx context.Context, shard int) error {
			defer w.oracle.begin(ctx, "a", shard)()
			<-ctx.Done()
			<-finish
			return nil
		})
		w.settled(map[string]int{"a": 2})
		w.join("b", 2)
		time.Sleep(time.Minute) // in virtual time
		synctest.Wait()
		require.Equal(w, map[string]int{"a": 1}, w.oracle.owned(), "b waits")
		require.Len(w, a.Owned(), 1)
		done()
		w.settled(map[string]int{"a": 1, "b": 1})
	})
}

func TestRun_WithMaxMoves(t *testing.T) {
	virtual(t, func(w world) {
		var mu sync.Mutex
		leaving, most := 0, 0
		w.joinWith(w.client(), "a", 8, func(ctx context.Context, shard int) error {
			defer w.oracle.begin(ctx, "a", shard)()
			<-ctx.Done()
			mu.Lock()
			leaving++
			most = max(most, leaving)
			mu.Unlock()
			time.Sleep(time.Second) // in virtual time
			mu.Lock()
			leaving--
			mu.Unlock()
			return nil
		}, shard.WithMaxMoves(2))
		w.settled(map[string]int{"a": 8})
		w.join("b", 8)
		w.settled(map[string]int{"a": 4, "b": 4})
		require.Equal(w, 2, most)
	})
}

// An error, a panic or a Goexit of one shard's function concerns that shard alone. The function is
// called again after a pause, and at once if it has returned nil.
func TestRun_AShardFailsAlone(t *testing.T) {
	virtual(t, func(w world) {
		failure := errors.New("disk full")
		var calls [5][]time.Time
		a := w.joinWith(w.client(), "a", 5, func(ctx context.Context, shard int) error {
			calls[shard] = append(calls[shard], time.Now())
			switch {
			case shard == 1 && len(calls[1]) < 4:
				panic("nil map")
			case shard == 2 && len(calls[2]) < 4:
				return failure
			case shard == 3 && len(calls[3]) < 4:
				runtime.Goexit()
			case shard == 4 && len(calls[4]) < 4:
				return nil
			}
			return w.oracle.work("a")(ctx, shard)
		})
		time.Sleep(time.Second) // in virtual time
		require.Equal(w, []int{0, 4}, a.Owned())
		state := w.now(a)
		require.Equal(w, []int{0, 1, 2, 3, 4}, state.Assigned)
		require.ErrorIs(w, state.Failing[2], failure)
		require.ErrorContains(w, state.Failing[1], "nil map")
		require.ErrorContains(w, state.Failing[3], "Goexit")
		w.settled(map[string]int{"a": 5})
		require.Len(w, calls[4], 4, "it was called again")
		for shard, times := range calls[:4] {
			for i := 1; i < len(times); i++ {
				require.Equal(w, time.Second<<(i-1), times[i].Sub(times[i-1]), "shard %d", shard)
			}
		}
		require.Len(w, w.now(a).Failing, 3)
		time.Sleep(61 * time.Second) // in virtual time
		require.Empty(w, w.now(a).Failing, "each has run for a minute")
		require.Equal(w, 5, w.oracle.began)
	})
}

func TestRun_Outage(t *testing.T) {
	virtual(t, func(w world) {
		a, _ := w.joinBoth(4)
		w.server.Freeze()
		time.Sleep(2 * time.Minute) // in virtual time
		require.Empty(w, w.oracle.owned())
		require.Empty(w, a.Owned())
		w.server.Thaw()
		w.settled(map[string]int{"a": 2, "b": 2})
	})
}

// Each request of a member fails: shards have at most one owner, all are owned in the end, and no
// node stays.
func TestRun_EachRequestFails(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		w := world{t, s.Server, s.Client, newOracle(t)}
		w.oracle.forced = s.Expires
		other := w.joinWith(s.Other, "other", 4, w.oracle.work("other"))
		m := w.joinWith(s.Subject, "subject", 4, w.oracle.work("subject"))
		w.settled(map[string]int{"other": 2, "subject": 2})
		require.NoError(t, m.Drain(testbed.Context(t)))
		require.NoError(t, testbed.Listed(t, m.Member, "Run", <-m.ended))
		w.settled(map[string]int{"other": 4})
		require.ErrorIs(t, testbed.Listed(t, other.Member, "Run", other.leave()), context.Canceled)
		testbed.Eventually(t, func() bool { return !strings.Contains(s.Server.Tree(), "latch-") }, "the elections are empty")
		require.NotContains(t, s.Server.Tree(), "subject")
	})
}

// session returns the session of a member, or 0 while it has none.
func (w world) session(m member) int64 {
	session, err := m.client.Session(testbed.Context(w.T))
	if err != nil {
		return 0
	}
	return session.ID()
}

func TestNew_Refusals(t *testing.T) {
	virtual(t, func(w world) {
		ctx, client := testbed.Context(w.T), w.client()
		for _, c := range []struct {
			path, id string
			shards   int
			opts     []shard.Option
			want     error
		}{
			{"ingest", "a", 4, nil, framework.ErrBadPath},
			{"", "a", 4, nil, framework.ErrBadPath},
			{"/", "a", 4, nil, framework.ErrBadPath},
			{"/ingest", "a", 10_001, nil, framework.ErrBadArgument},
			{"/ingest", "", 4, nil, framework.ErrBadArgument},
			{"/ingest", "a/b", 4, nil, framework.ErrBadArgument},
			{"/ingest", "a", 0, nil, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{nil}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithWeight(0)}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithWeight(1001)}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithMaxMoves(0)}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithGrace(0)}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithGrace(-1)}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithGrace(25 * time.Hour)}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithSettling(-1)}, framework.ErrBadArgument},
			{"/ingest", "a", 4, []shard.Option{shard.WithSettling(time.Hour)}, framework.ErrBadArgument},
		} {
			_, err := shard.New(client, c.path, c.id, c.shards, c.opts...)
			require.ErrorIs(w, err, c.want, "%+v", c)
		}
		_, err := shard.New(nil, "/ingest", "a", 4)
		require.ErrorIs(w, err, framework.ErrBadArgument)
		_, err = shard.New(client, "/ingest", "host-5a3fb5b1-8666-4ea0-97e3-cedcc039252f", 4, shard.WithGrace(time.Minute))
		require.ErrorIs(w, err, framework.ErrBadArgument)
		require.ErrorContains(w, err, "the same after a restart")

		m, err := shard.New(client, "/ingest", "a", 4)
		require.NoError(w, err)
		require.ErrorIs(w, m.Run(ctx, nil), framework.ErrBadArgument)
		require.False(w, w.server.Exists("/ingest"), "nothing was written")

		running, stop := context.WithCancel(ctx)
		ended := testbed.Go(func() error { return m.Run(running, w.oracle.work("a")) })
		synctest.Wait()
		require.ErrorIs(w, m.Run(ctx, w.oracle.work("a")), shard.ErrRunning)
		other, err := shard.New(client, "/ingest", "b", 5)
		require.NoError(w, err)
		err = other.Run(ctx, w.oracle.work("b"))
		require.ErrorIs(w, err, shard.ErrShards)
		require.EqualError(w, err, "update /ingest/plan: number of shards differs: the plan has 4, not 5")
		stop()
		require.ErrorIs(w, <-ended, context.Canceled)
	})
}

// A change costs a few requests for each shard that moves, and a read of the plan for each member.
// The group is balanced again within a second. docs/PERFORMANCE.md has the figures of 1,000 shards
// and 100 members.
func TestRun_Requests(t *testing.T) {
	members, shards := testlevel.Pick(10, 10, 100), testlevel.Pick(100, 100, 1000)
	virtual(t, func(w world) {
		running := make(map[string]member)
		balanced := func() bool {
			owned, sum := w.oracle.owned(), 0
			for id := range running {
				if d := owned[id] - shards/len(running); d != 0 && d != 1 {
					return false
				}
				sum += owned[id]
			}
			return sum == shards
		}
		// counted returns the number of requests since the counts were reset, beside pings.
		counted := func() (sum int) {
			for op, count := range w.server.Requests().Requests {
				if op != "ping" {
					sum += count
				}
			}
			return sum
		}
		// measure counts the requests until the group is balanced again, beside those that members
		// at rest send.
		heartbeats := 0
		measure := func(what string, change func()) (took time.Duration) {
			w.server.ResetCounts()
			w.oracle.takeMoves()
			began := time.Now()
			for change(); !balanced(); {
				time.Sleep(time.Millisecond) // in virtual time
			}
			took = time.Since(began)
			synctest.Wait()
			requests, moves := counted()-int(took/time.Second)*heartbeats, w.oracle.takeMoves()
			t.Logf("%s: %d requests, %d moves, %v", what, requests, moves, took)
			if heartbeats > 0 {
				require.Less(w, requests, 12*moves+4*members, what)
			}
			return took
		}
		client, die := w.mortal()
		require.Less(w, measure("start", func() {
			running["m000"] = w.joinWith(client, "m000", shards, w.oracle.work("m000"))
			for i := 1; i < members; i++ {
				id := fmt.Sprintf("m%03d", i)
				running[id] = w.join(id, shards)
			}
		}), 2*time.Second)
		time.Sleep(time.Minute) // in virtual time
		w.server.ResetCounts()
		time.Sleep(time.Minute) // in virtual time
		heartbeats = counted() / 60
		t.Logf("at rest: %d requests a second", heartbeats)

		measure("a member crashes, and its session of 10 s expires", func() {
			delete(running, "m000")
			die()
		})
		require.Less(w, measure("a member joins", func() { running["new"] = w.join("new", shards) }), time.Second)
		began := time.Now()
		for id, m := range running {
			delete(running, id)
			require.Less(w, measure(id+" leaves", func() { _ = m.leave() }), time.Second)
			require.Less(w, measure(id+" joins again", func() { running[id] = w.join(id, shards) }), time.Second)
		}
		t.Logf("rolling restart: %v", time.Since(began))
	}, zktest.WithLatency(time.Millisecond))
}

// A member without a valid weight has no shards.
func TestRun_ForeignMembers(t *testing.T) {
	virtual(t, func(w world) {
		_, err := node.Join(testbed.Context(w.T), w.client(), "/ingest/members", "java", []byte("hello"))
		require.NoError(w, err)
		require.NoError(w, w.server.Create("/ingest/members/old", []byte(`{"weight":1}`)))
		w.join("a", 4)
		time.Sleep(time.Minute) // in virtual time
		w.settled(map[string]int{"a": 4})
	})
}

// While the plan cannot be read, written or decoded, the shards stay with their owners, and each
// member says so once.
func TestRun_OutlivesItsPlan(t *testing.T) {
	text := func(text string) func(w world, c *framework.Client) {
		return func(w world, c *framework.Client) { require.NoError(w, w.server.Set("/ingest/plan", []byte(text))) }
	}
	acl := func(path string, perms int32) func(w world, c *framework.Client) {
		return func(w world, c *framework.Client) {
			testbed.SetACL(w.T, c, path, zk.WorldACL(perms))
		}
	}
	for name, c := range map[string]struct {
		harm, mend func(w world, c *framework.Client)
		says       string // once by each member, or by one
	}{
		"not JSON":       {text("not JSON"), text(`{"owners":["a","a","b","b"]}`), "bad value"},
		"not readable":   {acl("/ingest/plan", zk.PermWrite|zk.PermAdmin), acl("/ingest/plan", zk.PermAll), "not authenticated"},
		"not writable":   {acl("/ingest/plan", zk.PermRead|zk.PermAdmin), acl("/ingest/plan", zk.PermAll), "not authenticated"},
		"members hidden": {acl("/ingest/members", zk.PermAll&^zk.PermRead), acl("/ingest/members", zk.PermAll), "not authenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w world) {
				var logged testbed.Output
				log := framework.WithLogger(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})))
				a := w.joinWith(w.client(log), "a", 4, w.oracle.work("a"))
				w.joinWith(w.client(log), "b", 4, w.oracle.work("b"))
				w.settled(map[string]int{"a": 2, "b": 2})
				c.harm(w, a.client)
				joined := w.join("c", 4)    // needs a plan
				w.server.CutConnections()   // whatever is read is read again
				time.Sleep(5 * time.Minute) // in virtual time
				owned := w.oracle.owned()
				require.Equal(w, []int{2, 2}, []int{owned["a"], owned["b"]}, "%s", logged.String())
				require.Contains(w, logged.String(), c.says)
				require.LessOrEqual(w, strings.Count(logged.String(), c.says), 6, "%s", logged.String())
				c.mend(w, a.client)
				_ = joined.leave() // it had no right to begin, or no shards
				w.join("d", 4)
				time.Sleep(2 * time.Minute) // in virtual time
				owned = w.oracle.owned()
				require.Equal(w, 4, owned["a"]+owned["b"]+owned["d"])
				require.Positive(w, owned["d"])
			})
		})
	}
}

func TestRun_WritesADeletedPlanAgain(t *testing.T) {
	virtual(t, func(w world) {
		w.joinBoth(4)
		began := w.oracle.began
		require.NoError(w, w.server.Delete("/ingest/plan"))
		time.Sleep(time.Second) // in virtual time
		require.True(w, w.server.Exists("/ingest/plan"))
		require.Equal(w, began, w.oracle.began, "no shard moves")
		w.join("c", 4)
		time.Sleep(time.Second) // in virtual time
		owned := w.oracle.owned()
		require.Equal(w, []int{1, 3}, []int{owned["c"], owned["a"] + owned["b"]})
	})
}

// The plan is one node: a member with an id that does not fit is refused before it has sent a
// request.
func TestNew_RefusesAnIDThatDoesNotFitThePlan(t *testing.T) {
	virtual(t, func(w world) {
		client := func() *framework.Client { return w.client(framework.WithMaxRequest(4096)) }
		w.joinWith(client(), "a", 64, w.oracle.work("a"))
		w.joinWith(client(), "b", 64, w.oracle.work("b"))
		w.settled(map[string]int{"a": 32, "b": 32})
		_, err := shard.New(client(), "/ingest", strings.Repeat("x", 200), 64)
		require.ErrorIs(w, err, framework.ErrTooLong)
		_, err = shard.New(client(), "/ingest", strings.Repeat("<", 10), 64)
		require.ErrorIs(w, err, framework.ErrTooLong, "JSON escapes it")
		// With another limit, the planner says so, and the owners go on.
		w.joinWith(w.client(), strings.Repeat("x", 200), 64, w.oracle.work("x"))
		time.Sleep(time.Minute) // in virtual time
		require.Equal(w, 64, w.oracle.total())
	})
}

// A missing right ends Run at its start: node.Keep and a cache would wait for it.
func TestRun_EndsIfTheRightsAreMissingAtItsStart(t *testing.T) {
	for name, c := range map[string]struct {
		path  string
		perms int32
	}{
		"members cannot be listed":           {"/ingest/members", zk.PermCreate | zk.PermDelete | zk.PermAdmin},
		"the member's node is not permitted": {"/ingest/members", zk.PermRead},
		"nothing can be created":             {"/ingest", zk.PermRead},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w world) {
				client := w.client()
				testbed.Create(w.T, client, c.path, nil, framework.PersistentParents())
				testbed.SetACL(w.T, client, c.path, zk.WorldACL(c.perms))
				a := w.joinWith(client, "a", 8, w.oracle.work("a"))
				require.ErrorIs(w, testbed.Receive(w.T, a.ended, "the end"), zk.ErrNoAuth)
				require.NotContains(w, w.server.Tree(), "/a")
			})
		})
	}
}

// A client with WithCompression cannot read a members node with data of another program.
func TestRun_EndsIfTheMembersAreNotCompressed(t *testing.T) {
	for data, want := range map[string]error{"plain": framework.ErrNotCompressed, "": context.Canceled} {
		virtual(t, func(w world) {
			require.NoError(w, w.server.Create("/ingest/members", []byte(data)))
			a := w.joinWith(w.client(framework.WithCompression()), "a", 4, w.oracle.work("a"))
			time.Sleep(time.Second) // in virtual time
			require.ErrorIs(w, a.leave(), want, "%q", data)
		})
	}
}

// now returns the state of a member.
func (w world) now(m member) shard.State {
	for state := range m.Observe(w.Context()) {
		return state
	}
	return shard.State{}
}
