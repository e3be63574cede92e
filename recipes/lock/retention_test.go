package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// keeping returns a Queue that keeps its node for 20 s, and has just begun to.
func keeping(t *testing.T, server *zktest.Server, client *framework.Client) *lock.Queue {
	t.Helper()
	q := newQueue(t, client, "/lock", lock.WithRetention(20*time.Second))
	require.NoError(t, acquire(t, q).Release())
	synctest.Wait()
	length(t, server, q, 1)
	return q
}

func TestKeptNodeIsTakenOverWithoutARequest(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := keeping(t, w.Server, w.Client())
		w.Server.ResetCounts()
		for range 100 {
			require.NoError(t, acquire(t, q).Release())
		}
		hold := try(t, q)
		refused(t, q)
		require.NoError(t, hold.Release())
		require.ErrorIs(t, hold.Err(), lock.ErrReleased)
		require.ErrorIs(t, hold.Release(), lock.ErrReleased)
		require.Empty(t, w.Server.Requests().Requests)
		length(t, w.Server, q, 1)
	})
}

// TestKeptNodeGoes has each reason for which it is given back.
func TestKeptNodeGoes(t *testing.T) {
	for name, reason := range map[string]func(t *testing.T, server *zktest.Server, mine, other *framework.Client){
		"a foreign node": func(t *testing.T, server *zktest.Server, mine, other *framework.Client) {
			node := foreign(t, other, "/lock")
			synctest.Wait()
			require.Equal(t, []string{node[len("/lock/"):]}, testbed.ServerChildren(t, server, "/lock"), "at once")
			release(t, other, node)
		},
		"another Queue of the client": func(t *testing.T, server *zktest.Server, mine, other *framework.Client) {
			require.NoError(t, acquire(t, newQueue(t, mine, "/lock")).Release())
		},
		"the time is over": func(t *testing.T, server *zktest.Server, mine, other *framework.Client) {
			time.Sleep(20*time.Second - time.Millisecond) // virtual time
			require.True(t, server.Exists("/lock"))
			time.Sleep(time.Millisecond) // virtual time
		},
		"the connection is lost": func(t *testing.T, server *zktest.Server, mine, other *framework.Client) {
			server.CutConnections()
			synctest.Wait()
			require.NoError(t, mine.WaitConnected(t.Context()))
		},
		"the client is closed": func(t *testing.T, server *zktest.Server, mine, other *framework.Client) {
			require.NoError(t, mine.Close())
		},
		"the session ends": func(t *testing.T, server *zktest.Server, mine, other *framework.Client) {
			require.NoError(t, server.ExpireSession(testbed.Session(t, mine).ID()))
		},
		"an operator deletes it": func(t *testing.T, server *zktest.Server, mine, other *framework.Client) {
			require.NoError(t, server.Delete("/lock/"+testbed.ServerChildren(t, server, "/lock")[0]))
		},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			mine, other := w.Client(), w.Client()
			q := keeping(t, w.Server, mine)
			reason(t, w.Server, mine, other)
			synctest.Wait()
			children, err := w.Server.Children("/lock")
			if err == nil {
				require.Empty(t, children)
			}
			if name == "the client is closed" {
				require.ErrorIs(t, testbed.Err(q.Acquire(t.Context())), framework.ErrClosed)
				return
			}
			require.NoError(t, acquire(t, q).Release())
		})
	}
}

// TestANodeThatIsGivenBackIsNotTakenOver: it is about to be deleted, and another would hold then.
func TestANodeThatIsGivenBackIsNotTakenOver(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := keeping(t, w.Server, w.Client())
		require.False(t, q.TakeOverWhileGivenBack())
		require.NoError(t, acquire(t, q).Release())
	})
}

// TestReleaseWithPassesTheTurnOn, not the node, to a goroutine that waits.
func TestReleaseWithPassesTheTurnOn(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock", lock.WithRetention(20*time.Second))
		hold := acquire(t, q)
		next := start(t.Context(), q.Acquire)
		synctest.Wait()
		require.Equal(t, 1, q.InLine())
		require.NoError(t, testbed.Err(hold.ReleaseWith(t.Context())))
		got := received(t, next)
		require.NotEqual(t, hold.Path(), got.Path())
		require.NoError(t, got.Release())
	})
}

// TestWaiterBehindAKeptNodeHolds, and the Queue whose node was kept takes its turn behind it.
func TestWaiterBehindAKeptNodeHolds(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, other := keeping(t, w.Server, w.Client()), newQueue(t, w.Client(), "/lock", lock.WithRetention(time.Hour))
		for range 5 {
			theirs := acquire(t, other)
			mine := acquiring(t, t.Context(), q, w.Server, 2)
			synctest.Wait()
			require.Empty(t, mine, "two holders")
			require.NoError(t, theirs.Release())
			require.NoError(t, received(t, mine).Release())
			synctest.Wait()
		}
	})
}

// TestNodeIsNotKeptWhileSomebodyWaits on the servers, or after it was shown to anybody.
func TestNodeIsNotKeptWhileSomebodyWaits(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, hold *lock.Hold){
		"the token": func(t *testing.T, hold *lock.Hold) {
			require.NoError(t, testbed.Err(hold.FencingToken(t.Context())))
		},
		"the guard": func(t *testing.T, hold *lock.Hold) { hold.Guard() },
		"a pin":     func(t *testing.T, hold *lock.Hold) { hold.Pin() },
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			hold := acquire(t, keeping(t, w.Server, w.Client()))
			use(t, hold)
			require.NoError(t, hold.Release())
			synctest.Wait() // no longer: a kept node is deleted after 20 s
			require.Empty(t, testbed.ServerChildren(t, w.Server, "/lock"))
		})
	}
	testbed.RunWorld(t, "a waiter", func(t *testing.T, w *testbed.World) {
		q, other := keeping(t, w.Server, w.Client()), w.Client()
		hold := acquire(t, q)
		node := foreign(t, other, "/lock")
		synctest.Wait()
		require.NoError(t, hold.Release())
		require.Equal(t, []string{node[len("/lock/"):]}, testbed.ServerChildren(t, w.Server, "/lock"))
	})
}

// TestSomebodyJoinsWhileANodeBeginsToBeKept has a contender arrive after the release has found an
// empty queue, and before the node is kept.
func TestSomebodyJoinsWhileANodeBeginsToBeKept(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, other := keeping(t, w.Server, w.Client()), w.Client()
		var node string
		require.True(t, acquire(t, q).ReleaseDuring(func() {
			node = foreign(t, other, "/lock")
			synctest.Wait()
		}))
		synctest.Wait()
		require.Equal(t, []string{node[len("/lock/"):]}, testbed.ServerChildren(t, w.Server, "/lock"))
	})
}

// TestAGoroutineComesWhileANodeBeginsToBeKept: it takes the node over.
func TestAGoroutineComesWhileANodeBeginsToBeKept(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := keeping(t, w.Server, w.Client())
		w.Server.ResetCounts()
		var mine <-chan result
		require.True(t, acquire(t, q).ReleaseDuring(func() {
			mine = start(t.Context(), q.Acquire)
			synctest.Wait()
		}))
		require.NoError(t, received(t, mine).Release())
		require.Empty(t, w.Server.Requests().Requests)
	})
}

// TestNodeIsKeptForAMinuteInAll: others may wait whose nodes we may not read.
func TestNodeIsKeptForAMinuteInAll(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := keeping(t, w.Server, w.Client())
		node := "/lock/" + testbed.ServerChildren(t, w.Server, "/lock")[0]
		for range 12 {
			require.True(t, w.Server.Exists(node))
			time.Sleep(5*time.Second - time.Millisecond) // virtual time
			require.NoError(t, acquire(t, q).Release())
		}
		time.Sleep(time.Second) // virtual time
		require.False(t, w.Server.Exists(node))
	})
}

// TestTryAcquireGetsAKeptNodesLock if its Queue has retention as well: it gives the other one time
// to give its node back.
func TestTryAcquireGetsAKeptNodesLock(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := keeping(t, w.Server, w.Client())
		refused(t, newQueue(t, w.Client(), "/lock")) // without retention a kept node is like any other
		hold := try(t, newQueue(t, w.Client(), "/lock", lock.WithRetention(time.Second)))
		began := time.Now()
		refused(t, newQueue(t, w.Client(), "/lock", lock.WithRetention(time.Second))) // it is held
		require.Less(t, time.Since(began), 10*time.Millisecond)
		length(t, w.Server, q, 1)
		require.NoError(t, hold.Release())
	})
}

func TestRetentionWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		for range 3 {
			hold := acquire(t, s.subject)
			s.checkAlone(t, hold)
			if err := testbed.Listed(t, hold, "Release", hold.Release()); err != nil {
				require.ErrorIs(t, err, framework.ErrLost)
			}
		}
		s.finish(t)
	}, lock.WithRetention(time.Hour))
}

// TestKeptNodeAndWaitersInMemory: goroutines of one Queue hand the node on, and the last one keeps
// it.
func TestKeptNodeAndWaitersInMemory(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := keeping(t, w.Server, w.Client())
		w.Server.ResetCounts()
		inside, ended := 0, make(chan error)
		for range 20 {
			go func() {
				ended <- q.Do(t.Context(), func(context.Context) error {
					inside++ // guarded by the lock
					require.Equal(t, 1, inside)
					time.Sleep(time.Millisecond) // virtual time, in which others arrive
					inside--
					return nil
				})
			}()
		}
		for range 20 {
			require.NoError(t, <-ended)
		}
		require.Empty(t, w.Server.Requests().Requests)
		length(t, w.Server, q, 1)
	})
}
