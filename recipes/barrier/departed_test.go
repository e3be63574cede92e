package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// A process that gives up and enters again at once is one member, not two.
func TestEnter_AfterATimeout(t *testing.T) {
	for range 100 { // the order of goroutines differs
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			d := newDouble(w.Client(), "/d", 2)
			for range 2 {
				givesUp(t, d, "one process has passed a barrier for two")
			}
			require.Empty(t, left(t, w.Server, "/d"))
		})
	}
}

// The next Enter waits for the deletion that a failed Leave has requested.
func TestEnter_AfterAFailedLeave(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		entry, two := enterBoth(t, c, w.Client(), "/d")
		gate := w.Server.Block(zktest.OnOp("delete"), zktest.OnPath(entry.Path()))
		require.ErrorIs(t, entry.Leave(testbed.Timeout(t, time.Second)), context.DeadlineExceeded)
		w.Server.ResetCounts()
		again := entering(testbed.Context(t), newDouble(c, "/d", 2))
		time.Sleep(time.Second) // virtual time
		require.Zero(t, w.Server.Requests().Requests["create"], "the earlier node has not been deleted")
		gate.Open()
		leaving := testbed.Go(func() error { return two.Leave(testbed.Context(t)) })
		leave(t, enter(t, w.Client(), "/d", 2), inside(t, again))
		require.NoError(t, <-leaving)
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// A create that was sent in an earlier session, and that the server carries out after the deletion
// was answered, does not count either. Once its session is over for the servers it is forgotten.
func TestEnter_AfterALateCreate(t *testing.T) {
	enters := map[string]func(t *testing.T, c, other *framework.Client, late func()){
		"of an Enter that fails": func(t *testing.T, c, _ *framework.Client, late func()) {
			one := entering(testbed.Timeout(t, 3*time.Second), newDouble(c, "/d", 2))
			late()
			require.ErrorIs(t, (<-one).err, context.DeadlineExceeded)
		},
		"of a member that leaves": func(t *testing.T, c, other *framework.Client, late func()) {
			one := entering(testbed.Context(t), newDouble(c, "/d", 2))
			late()
			leave(t, enter(t, other, "/d", 2), inside(t, one))
		},
	}
	for name, enterAndGo := range enters {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			// the servers keep the session for as long again
			c := w.Client(framework.WithExpirationPercent(50))
			session := testbed.Session(t, c)
			require.NoError(t, w.Server.Create("/d", nil))
			gate := w.Server.Block(zktest.OnSession(session.ID()), zktest.OnCreate(), zktest.OnPath("/d/"))
			enterAndGo(t, c, w.Client(), func() {
				<-gate.Arrived()
				w.Server.Freeze(session.ID())
				<-session.Done()
				synctest.Wait()
			})
			synctest.Wait()
			gate.Open()
			synctest.Wait()
			require.Len(t, testbed.ServerChildren(t, w.Server, "/d"), 1, "the late node")
			givesUp(t, newDouble(c, "/d", 2), "one process has passed a barrier for two")
			require.Empty(t, left(t, w.Server, "/d"))
		})
	}
}

// Waiting members enter again when another client deletes their nodes, or the whole barrier.
func TestEnter_AfterADeletionByAnother(t *testing.T) {
	for name, all := range map[string]bool{"a member": false, "the barrier": true} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			first := entering(testbed.Context(t), newDouble(w.Client(), "/d", 3))
			second := entering(testbed.Context(t), newDouble(w.Client(), "/d", 3))
			synctest.Wait() // both wait
			names := testbed.ServerChildren(t, w.Server, "/d")
			require.Len(t, names, 2)
			require.NoError(t, w.Server.Delete("/d/"+names[0]))
			if all {
				require.NoError(t, w.Server.Delete("/d/"+names[1]))
				_ = w.Server.Delete("/d") // a member may have entered again
			}
			synctest.Wait() // both have noticed
			third, one, two := enter(t, w.Client(), "/d", 3), inside(t, first), inside(t, second)
			require.NoError(t, one.Context().Err())
			leave(t, third, one, two)
			require.Empty(t, left(t, w.Server, "/d"))
			idle(t, w.Server)
		})
	}
}

// A member is created after the deletion of the client's earlier member was carried out, even if
// the server has refused that for a while. Otherwise other clients count both.
func TestEnter_AfterADeletionThatIsRefusedForNow(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		session := testbed.Session(t, c)
		require.NoError(t, w.Server.Create("/d", nil))
		busy := testbed.Busy(w.Server, "delete")
		engine.Of(c).Discard("/d/earlier", (*engine.Session)(session))
		entered := entering(testbed.Context(t), newDouble(c, "/d", 1))
		time.Sleep(time.Second) // virtual time
		require.Empty(t, entered)
		require.Empty(t, testbed.ServerChildren(t, w.Server, "/d"), "no member was created")
		busy()
		inside(t, entered)
	})
}
