package lock_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// A client that may not read its own nodes. Servers tell it nothing about them.

// unreadable gives the nodes below a lock's path an ACL without the permission to read.
func unreadable() framework.Option {
	return framework.WithACLProvider(func(path string) []zk.ACL {
		if strings.HasPrefix(path, "/lock/") {
			return zk.WorldACL(zk.PermAll &^ zk.PermRead)
		}
		return zk.WorldACL(zk.PermAll)
	})
}

// TestHolderThatMayNotReadItsNodeIsToldOfItsDeletion, with a view and without.
func TestHolderThatMayNotReadItsNodeIsToldOfItsDeletion(t *testing.T) {
	for name, acquires := range map[string]int{"first": 1, "used again": 2, "and again": 3} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
				q := newQueue(t, client(unreadable()), "/lock", lock.WithErrorPolicy(connstate.Session))
				for range acquires - 1 {
					require.NoError(t, acquire(t, q).Release())
				}
				hold := acquire(t, q)
				for range 3 { // it is told also after others have come and gone
					time.Sleep(time.Second) // virtual time, after which its node is watched: nobody is told of that
					require.NoError(t, server.Delete(foreign(t, client(), "/lock")))
				}
				server.CutConnections()
				time.Sleep(time.Second) // virtual time, in which its node is watched again
				require.NoError(t, hold.Err())
				require.NoError(t, server.Delete(hold.Path()))
				time.Sleep(time.Millisecond) // virtual time: others may hold by now, so it is told at once if it has not just looked
				require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
				synctest.Wait()
				require.Zero(t, server.WatchCount())
			})
		})
	}
}

// TestWaiterThatMayNotReadItsNodeDoesNotHoldWithoutIt: its node is in the first list of a view, and the view is not told of its
// end.
func TestWaiterThatMayNotReadItsNodeDoesNotHoldWithoutIt(t *testing.T) {
	virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		others := client()
		ahead := foreign(t, others, "/lock")
		q := newQueue(t, client(unreadable()), "/lock")
		_, err := q.TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		mine := acquiring(t, t.Context(), q, server, 2) // it begins a view
		synctest.Wait()
		require.True(t, q.Viewed())
		behind := foreign(t, others, "/lock")
		children, err := server.Children("/lock")
		require.NoError(t, err)
		for _, child := range children {
			if path := "/lock/" + child; path != ahead && path != behind {
				require.NoError(t, server.Delete(path))
			}
		}
		release(t, others, ahead)
		time.Sleep(time.Minute) // virtual time, in which it must not hold
		require.Empty(t, mine, "the one behind holds now")
		release(t, others, behind)
		got := testbed.Receive(t, mine, "the lock")
		require.NoError(t, got.err)
		require.NoError(t, got.hold.Release())
	})
}
