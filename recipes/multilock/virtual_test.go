package multilock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestManyLocksAreGivenUpAsSoonAsOne has a caller with many locks give up, while its servers do not
// answer.
func TestManyLocksAreGivenUpAsSoonAsOne(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client, other := w.Client(framework.WithSessionTimeout(40*time.Second)), w.Client()
		const last = 30
		path := func(i int) string { return fmt.Sprintf("/lock-%d", i) }
		var locks []lock.Locker
		for i := range last + 1 {
			locks = append(locks, newMutex(client, path(i)))
		}
		l := newLock(locks...)
		hold := testbed.Acquire(t, newMutex(other, path(last)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := testbed.Go(func() error {
			_, err := l.Acquire(ctx)
			return err
		})
		session := testbed.Session(t, client)
		synctest.Wait() // it has all locks but one
		w.Server.Freeze(session.ID())
		began := time.Now()
		cancel()
		require.ErrorIs(t, testbed.Receive(t, done, "the end"), context.Canceled)
		require.LessOrEqual(t, time.Since(began), 2*time.Second, "one for the locks, and one for the place in the queue")
		w.Server.Thaw()
		require.NoError(t, hold.Release())
		free(t, locks)
	})
}

// TestLossThatEndedTheWaitingIsReturned, and not that a context was cancelled that is the
// multilock's own. The time of the caller is over while the place in the queue of the second lock
// is given up.
func TestLossThatEndedTheWaitingIsReturned(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client, other := w.Client(), w.Client()
		a := newMutex(client, "/a")
		b := newMutex(client, "/b")
		first := &noting{Locker: a}
		l := newLock(first, b)
		hold := testbed.Acquire(t, newMutex(other, "/b"))
		ctx := testbed.Timeout(t, 5*time.Second)
		done := testbed.Go(func() error {
			_, err := l.Acquire(ctx)
			return err
		})
		// virtual time: the caller's is over while it gives up, which takes a second
		time.Sleep(4800 * time.Millisecond)
		session := testbed.Session(t, client)
		defer w.Server.Block(zktest.OnOp("delete"), zktest.OnSession(session.ID())).Open()
		require.NoError(t, other.Delete(t.Context(), first.hold.Path()))
		err := testbed.Receive(t, done, "the end")
		require.ErrorIs(t, err, lock.ErrNodeDeleted)
		testbed.OneOp(t, err, "acquire", first.hold.Path())
		require.NotErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, hold.Release())
	})
}
