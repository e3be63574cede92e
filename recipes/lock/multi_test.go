package lock_test

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
)

func TestMulti(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		require.NoError(t, w.Server.Create("/value", nil))
		q := newQueue(t, client, "/lock")
		hold := acquire(t, q)
		set := func(text string) any { return framework.SetOp("/value", []byte(text)) }
		value := func() string { return testbed.ServerData(t, w.Server, "/value") }
		responses := testbed.Must(hold.Multi(t.Context(), set("first"), framework.CreateOp("/other", nil)))
		require.Len(t, responses, 2, "the caller's operations")
		require.Equal(t, "/other", responses[1].String)
		require.Equal(t, "first", value())

		_, err := hold.Multi(t.Context(), set("no"), framework.SetOp("/none", nil))
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.NotErrorIs(t, err, framework.ErrLost, "the caller's node is missing")
		var refused *framework.MultiError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 1, refused.Index)
		require.Equal(t, "/none", refused.Path)
		testbed.OneOp(t, err, "multi", hold.Path())

		below := testbed.Namespace(t, client, "app")
		for name, ops := range map[string][]any{
			"none": nil, "nil": {nil}, "a nil pointer": {(*zk.SetDataRequest)(nil)}, "a hold": {hold}, "a nil guard": {(*zk.CheckVersionRequest)(nil)},
			"a guard of another client":    {set("no"), acquire(t, newQueue(t, w.Client(), "/another")).Guard()},
			"a guard in another namespace": {set("no"), acquire(t, newQueue(t, below, "/lock")).Guard()},
		} {
			_, err = hold.Multi(t.Context(), ops...)
			require.ErrorIs(t, err, framework.ErrBadArgument, name)
			testbed.OneOp(t, err, "multi", hold.Path())
		}
		require.Equal(t, "first", value())
		_, err = hold.Multi(t.Context(), set("second"), acquire(t, newQueue(t, client, "/beside")).Guard())
		require.NoError(t, err, "the guard of another lock of the client")
		require.Equal(t, "second", value())

		require.NoError(t, hold.Release())
		_, err = hold.Multi(t.Context(), set("no"))
		require.ErrorIs(t, err, lock.ErrNodeDeleted)
		require.ErrorIs(t, err, framework.ErrLost)
		require.ErrorIs(t, err, lock.ErrReleased)
		testbed.OneOp(t, err, "multi", hold.Path())

		hold = acquire(t, q)
		require.NoError(t, w.Server.Delete(hold.Path()))
		_, err = hold.Multi(t.Context(), set("no"))
		require.ErrorIs(t, err, lock.ErrNodeDeleted)
		require.NotErrorIs(t, err, lock.ErrReleased)
		require.Equal(t, "second", value())
	})
}

func TestMulti_OfAGroup(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		locker := func(c *framework.Client, path string) lock.Locker {
			return testbed.Must(mutex.New(c, path))
		}
		group := func(lockers ...lock.Locker) *lock.Group {
			return testbed.Acquire(t, testbed.Must(multilock.New(lockers...)))
		}
		g := group(locker(client, "/a"), locker(client, "/b"))
		require.Len(t, testbed.Must(g.Multi(t.Context(), framework.CreateOp("/yes", nil))), 1)
		require.NoError(t, w.Server.Delete(g.Holds()[1].Path()))
		_, err := g.Multi(t.Context(), framework.CreateOp("/no", nil))
		require.ErrorIs(t, err, lock.ErrNodeDeleted)
		testbed.OneOp(t, err, "multi", g.Holds()[1].Path())
		require.False(t, w.Server.Exists("/no"))

		g = group(locker(client, "/c"), locker(w.Client(), "/d"))
		_, err = g.Multi(t.Context(), framework.CreateOp("/no", nil))
		require.ErrorIs(t, err, framework.ErrBadArgument, "of two clients")
		require.NoError(t, g.Release())
	})
}

// TestReleaseWith_TheGuardOfAnotherClient is refused, and the lease is released.
func TestReleaseWith_TheGuardOfAnotherClient(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		other := acquire(t, newQueue(t, w.Client(), "/another"))
		for name, op := range map[string]any{"a guard": other.Guard(), "nil": nil} {
			hold := acquire(t, q)
			_, err := hold.ReleaseWith(context.Background(), framework.CreateOp("/no", nil), op)
			require.ErrorIs(t, err, framework.ErrBadArgument, name)
			testbed.OneOp(t, err, "release", hold.Path())
			require.ErrorIs(t, hold.Err(), lock.ErrReleased)
			length(t, w.Server, q, 0)
		}
		require.False(t, w.Server.Exists("/no"))
	})
}
