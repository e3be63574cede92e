package lock_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestReleaseWithIsOneTransaction(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		ctx := testbed.Context(t)
		testbed.Create(t, client, "/result", []byte("old"))
		q := newQueue(t, client, "/lock")
		hold := acquire(t, q)
		synctest.Wait()
		w.Server.ResetCounts()
		responses, err := hold.ReleaseWith(ctx, &zk.SetDataRequest{Path: "/result", Data: []byte("new"), Version: -1})
		require.NoError(t, err)
		require.Len(t, responses, 1)
		require.EqualValues(t, 1, responses[0].Stat.Version)
		require.Equal(t, 1, counted(w.Server)["multi"])
		require.Zero(t, counted(w.Server)["delete"])
		require.ErrorIs(t, hold.Err(), lock.ErrReleased)
		length(t, w.Server, q, 0)
		require.ErrorIs(t, hold.Release(), lock.ErrReleased)
		require.ErrorIs(t, testbed.Err(hold.ReleaseWith(ctx)), lock.ErrReleased)
	})
}

func TestReleaseWithWhatIsRefusedWritesNothingAndReleases(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	testbed.Create(t, client, "/a", []byte("old"))
	q := newQueue(t, client, "/lock")
	hold := acquire(t, q)
	_, err := hold.ReleaseWith(testbed.Context(t), &zk.SetDataRequest{Path: "/a", Data: []byte("new"), Version: -1},
		&zk.SetDataRequest{Path: "/missing", Data: []byte("new"), Version: -1})
	require.ErrorIs(t, err, zk.ErrNoNode)
	testbed.OneOp(t, err, "release", hold.Path())
	var failed *framework.MultiError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "set /missing", failed.Op+" "+failed.Path)
	require.Equal(t, "old", testbed.Get(t, client, "/a"))
	length(t, server, q, 0)
}

func TestReleaseWithoutANodeWritesNothing(t *testing.T) {
	server, bed := newServer(t)
	client := bed.Client(t)
	ctx := testbed.Context(t)
	testbed.Create(t, client, "/a", []byte("old"))
	hold := acquire(t, newQueue(t, client, "/lock"))
	gate := server.Block(zktest.OnOp("multi"))
	done := testbed.Go(func() error {
		_, err := hold.ReleaseWith(ctx, &zk.SetDataRequest{Path: "/a", Data: []byte("new"), Version: -1})
		return err
	})
	testbed.Receive(t, gate.Arrived(), "the transaction")
	require.NoError(t, bed.Client(t).Delete(ctx, hold.Path()))
	gate.Open()
	require.ErrorIs(t, testbed.Receive(t, done, "the end"), zk.ErrNoNode)
	require.Equal(t, "old", testbed.Get(t, client, "/a"))
}

func TestReleaseWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		client := s.Client() // another, which meets the fault as well
		ctx := testbed.Context(t)
		_, err := client.Create(ctx, "/result", []byte{})
		if err != nil {
			require.ErrorIs(t, err, zk.ErrNodeExists) // its reply was lost
		}
		hold := acquireIn(t, ctx, s.subject)
		_, err = hold.ReleaseWith(ctx, &zk.SetDataRequest{Path: "/result", Data: []byte("x"), Version: -1})
		testbed.Listed(t, hold, "ReleaseWith", err)
		_, stat, got := client.Get(ctx, "/result")
		require.NoError(t, got)
		switch {
		case err == nil:
			require.EqualValues(t, 1, stat.Version, "once")
		case !retry.Unknown(err):
			require.Zero(t, stat.Version, "not at all: %v", err)
		default:
			require.LessOrEqual(t, stat.Version, int32(1), "never twice")
		}
		s.finish(t)
	})
}

func TestReleaseWith_OfAReenteredLeaseIsRefused(t *testing.T) {
	for name, opts := range map[string][]lock.Option{"plain": nil, "retention": {lock.WithRetention(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, testbed.On(zktest.NewServer(t)).Client(t), "/lock", append(opts, lock.WithReentry())...)
			hold := acquire(t, q)
			inner := acquireIn(t, hold.Context(), q)
			require.ErrorIs(t, testbed.Err(hold.ReleaseWith(testbed.Context(t))), framework.ErrBadArgument)
			require.NoError(t, hold.Err())
			require.NoError(t, inner.Release())
			require.NoError(t, hold.Release())
		})
	}
}

// TestQueueAheadIsLookedAtAfterTheCreate has another client queue during the create of the second
// try.
func TestQueueAheadIsLookedAtAfterTheCreate(t *testing.T) {
	inLeases := func(r zktest.Request) bool { return strings.HasPrefix(r.Path, "/s/leases") }
	for name, fail := range map[string]func(*zktest.Server){
		"the connection is lost": func(s *zktest.Server) { s.Inject(zktest.FailBefore, 0, zktest.OnCreate(), zktest.On(inLeases)) },
		"the path is missing":    func(s *zktest.Server) { _ = s.Delete("/s/leases") },
	} {
		t.Run(name, func(t *testing.T) {
			server, bed := newServer(t)
			other, client := bed.Client(t), bed.Client(t)
			for _, path := range []string{"/s/locks", "/s/leases"} {
				require.NoError(t, acquire(t, newQueue(t, other, path)).Release())
			}
			q := newQueue(t, client, "/s/leases", locks.Inside.With(locking.Settings[*lock.Queue]{Front: newQueue(t, client, "/s/locks")}))
			fail(server)
			var tries atomic.Int32
			second := server.Block(zktest.OnCreate(), zktest.On(inLeases), zktest.On(func(zktest.Request) bool { return tries.Add(1) == 2 }))
			tried := start(testbed.Context(t), q.TryAcquire)
			testbed.Receive(t, second.Arrived(), "the second try")
			foreign(t, other, "/s/locks")
			second.Open()
			require.ErrorIs(t, testbed.Receive(t, tried, "the end").err, lock.ErrNotAcquired)
			length(t, server, q, 0)
		})
	}
}
