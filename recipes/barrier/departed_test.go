package barrier_test

import (
	"context"
	"encoding/binary"
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
			d := newDouble(t, w.Client(), "/d", 2)
			for range 2 {
				short := testbed.Timeout(t, time.Second)
				_, err := d.Enter(short)
				require.ErrorIs(t, err, context.DeadlineExceeded, "one process has passed a barrier for two")
			}
			require.Empty(t, left(t, w.Server, "/d"))
		})
	}
}

// The next Enter waits for the deletion that a failed Leave has requested.
func TestEnter_AfterAFailedLeave(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		d := newDouble(t, w.Client(), "/d", 2)
		waiting := entering(testbed.Context(t), newDouble(t, w.Client(), "/d", 2))
		entry, err := d.Enter(t.Context())
		require.NoError(t, err)
		two := <-waiting
		require.NoError(t, two.err)
		gate := w.Server.Block(zktest.OnOp("delete"), zktest.OnPath(entry.Path()))
		short := testbed.Timeout(t, time.Second)
		require.ErrorIs(t, entry.Leave(short), context.DeadlineExceeded)
		w.Server.ResetCounts()
		again := entering(testbed.Context(t), d)
		time.Sleep(time.Second) // virtual time
		require.Zero(t, w.Server.Requests().Requests["create"], "the earlier node has not been deleted")
		gate.Open()
		leaving := testbed.Go(func() error { return two.entry.Leave(testbed.Context(t)) })
		partner, err := newDouble(t, w.Client(), "/d", 2).Enter(testbed.Context(t))
		require.NoError(t, err)
		one := <-again
		require.NoError(t, one.err)
		leave(t, partner, one.entry)
		require.NoError(t, <-leaving)
		require.Empty(t, left(t, w.Server, "/d"))
	})
}

// A create that was sent in an earlier session, and that the server carries out after the deletion
// was answered, does not count either. Once its session is over for the servers it is forgotten.
func TestEnter_AfterALateCreate(t *testing.T) {
	enters := map[string]func(t *testing.T, server *zktest.Server, c, other *framework.Client, late func()){
		"of an Enter that fails": func(t *testing.T, server *zktest.Server, c, _ *framework.Client, late func()) {
			short := testbed.Timeout(t, 3*time.Second)
			one := entering(short, newDouble(t, c, "/d", 2))
			late()
			require.ErrorIs(t, (<-one).err, context.DeadlineExceeded)
		},
		"of a member that leaves": func(t *testing.T, server *zktest.Server, c, other *framework.Client, late func()) {
			one := entering(testbed.Context(t), newDouble(t, c, "/d", 2))
			late()
			two, err := newDouble(t, other, "/d", 2).Enter(t.Context())
			require.NoError(t, err)
			first := <-one
			require.NoError(t, first.err)
			leave(t, two, first.entry)
		},
	}
	for name, enter := range enters {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			// the servers keep the session for as long again
			c := w.Client(framework.WithExpirationPercent(50))
			session := testbed.Session(t, c)
			require.NoError(t, w.Server.Create("/d", nil))
			gate := w.Server.Block(zktest.OnSession(session.ID()), zktest.OnCreate(), zktest.OnPath("/d/"))
			enter(t, w.Server, c, w.Client(), func() {
				<-gate.Arrived()
				w.Server.Freeze(session.ID())
				<-session.Done()
				synctest.Wait()
			})
			synctest.Wait()
			gate.Open()
			synctest.Wait()
			require.Len(t, testbed.ServerChildren(t, w.Server, "/d"), 1, "the late node")
			short := testbed.Timeout(t, time.Second)
			_, err := newDouble(t, c, "/d", 2).Enter(short)
			require.ErrorIs(t, err, context.DeadlineExceeded, "one process has passed a barrier for two")
			require.Empty(t, left(t, w.Server, "/d"))
		})
	}
}

// Waiting members enter again when another client deletes their nodes, or the whole barrier.
func TestEnter_AfterADeletionByAnother(t *testing.T) {
	for name, all := range map[string]bool{"a member": false, "the barrier": true} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			first := entering(testbed.Context(t), newDouble(t, w.Client(), "/d", 3))
			second := entering(testbed.Context(t), newDouble(t, w.Client(), "/d", 3))
			synctest.Wait() // both wait
			names := testbed.ServerChildren(t, w.Server, "/d")
			require.Len(t, names, 2)
			require.NoError(t, w.Server.Delete("/d/"+names[0]))
			if all {
				require.NoError(t, w.Server.Delete("/d/"+names[1]))
				_ = w.Server.Delete("/d") // a member may have entered again
			}
			synctest.Wait() // both have noticed
			third, err := newDouble(t, w.Client(), "/d", 3).Enter(testbed.Context(t))
			require.NoError(t, err)
			one, two := <-first, <-second
			require.NoError(t, one.err)
			require.NoError(t, two.err)
			require.NoError(t, one.entry.Context().Err())
			leave(t, third, one.entry, two.entry)
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
		busy := w.Server.Rewrite(throttled, zktest.OnOp("delete"))
		engine.Of(c).Discard("/d/earlier", (*engine.Session)(session))
		entered := entering(testbed.Context(t), newDouble(t, c, "/d", 1))
		time.Sleep(time.Second) // virtual time
		require.Empty(t, entered)
		require.Empty(t, testbed.ServerChildren(t, w.Server, "/d"), "no member was created")
		busy()
		require.NoError(t, (<-entered).err)
	})
}

// throttled turns a reply into the reply of an overloaded server.
func throttled(_ zktest.Request, answer []byte) []byte {
	const header, throttledOp = 4 + 4 + 8 + 4, -127
	out := append([]byte{}, answer[:header]...)
	binary.BigEndian.PutUint32(out, header-4)
	code := int32(throttledOp)
	binary.BigEndian.PutUint32(out[header-4:], uint32(code))
	return out
}
