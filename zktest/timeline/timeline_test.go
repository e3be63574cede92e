package timeline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	internal "github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/timeline"
)

// entriesOf returns the entries of a kind.
func entriesOf(t *zktest.Timeline, kind internal.Kind) []internal.Entry {
	all, _ := internal.Of(t).Entries()
	return slices.DeleteFunc(all, func(e internal.Entry) bool { return e.Kind != kind })
}

// find returns the first entry of a kind whose line contains a string.
func find(t *testing.T, tl *zktest.Timeline, kind internal.Kind, text string) internal.Entry {
	t.Helper()
	var lines []string
	for _, e := range entriesOf(tl, kind) {
		if strings.Contains(e.String(), text) {
			return e
		}
		lines = append(lines, e.String())
	}
	require.Fail(t, "no such entry", "%s with %q in\n%s", kind, text, strings.Join(lines, "\n"))
	return internal.Entry{}
}

// TestClient_ALossAndItsCause: the record shows the hold that a cut-off holder loses, the fault,
// the expiry of its session, and the next hold, in this order.
func TestClient_ALossAndItsCause(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithTimeline())
		require.NoError(t, testbed.Err(cluster.WaitLeader(t.Context())))
		tl := cluster.Timeline()
		locks := make(map[string]*mutex.Mutex)
		for _, name := range []string{"holder", "waiter"} {
			client := testbed.ClientOf(t, cluster, framework.WithSessionTimeout(4*time.Second), timeline.Client(tl, name))
			locks[name] = testbed.Must(mutex.New(client, "/jobs"))
		}
		hold := testbed.Acquire(t, locks["holder"])
		next := testbed.Go(func() error {
			hold, err := locks["waiter"].Acquire(context.Background())
			if err == nil {
				err = hold.Release()
			}
			return err
		})
		synctest.Wait()
		tl.Note("the network fails")
		for _, s := range cluster.Members() {
			s.Freeze(hold.Session().ID())
		}
		<-hold.Done()
		require.NoError(t, <-next)

		lost := find(t, tl, internal.Hold, "holder hold /jobs")
		assert.True(t, lost.Bad)
		assert.Equal(t, hold.Err().Error(), lost.Result)
		assert.Equal(t, hold.Path(), lost.Path)
		fault := find(t, tl, internal.Fault, "freeze session")
		session := find(t, tl, internal.Session, "holder")
		assert.Equal(t, "expired", session.Result)
		after := find(t, tl, internal.Hold, "waiter hold /jobs")
		assert.Equal(t, "released", after.Result[strings.LastIndex(after.Result, " ")+1:])
		assert.False(t, after.Bad)
		order := []time.Duration{lost.At, fault.At, lost.At + lost.Dur, session.At + session.Dur, after.At}
		assert.True(t, slices.IsSorted(order), "%v", order)
		assert.Equal(t, internal.Open, fault.Dur)

		// The deletion of the expiry fired the event that woke the waiter.
		event := find(t, tl, internal.Watch, hold.Path())
		assert.Equal(t, "waiter", event.Lane)
		assert.Equal(t, session.Zxid, event.Zxid)
		created := find(t, tl, internal.Request, "-> "+hold.Path())
		assert.Equal(t, "holder", created.Lane)
		assert.NotZero(t, created.Zxid)
		find(t, tl, internal.Wait, "waiter wait /jobs -> acquired")
		find(t, tl, internal.Leader, "leads")
		find(t, tl, internal.Act, "the network fails")
		find(t, tl, internal.State, "connected")
	})
}

func TestClient_WithoutATimeline(t *testing.T) {
	server := zktest.NewServer(t)
	require.Nil(t, server.Timeline())
	client, err := framework.New(server.Servers(), timeline.Client(server.Timeline(), "a"))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	server.Timeline().Note("nothing")
	require.ErrorContains(t, server.Timeline().WriteHTML(nil), "WithTimeline is missing")
	require.ErrorContains(t, server.Timeline().WriteSVG(nil, ""), "WithTimeline is missing")
}

// TestServer records what happens to sessions, and faults while they are in force.
func TestServer(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithTimeline())
		tl := server.Timeline()
		client := testbed.ClientOf(t, server, timeline.Client(tl, "a"))
		session := testbed.Session(t, client)
		server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
		find(t, tl, internal.Fault, "lose reply")
		require.NoError(t, client.WaitConnected(t.Context()))
		testbed.Create(t, client, "/a", nil, framework.Protected())
		assert.NotEqual(t, internal.Open, find(t, tl, internal.Fault, "lose reply").Dur, "it was met")
		lost := find(t, tl, internal.Request, "(lose reply)")
		assert.True(t, lost.Bad)
		server.CutConnections()
		synctest.Wait()
		find(t, tl, internal.Act, "cut all connections")
		assert.True(t, find(t, tl, internal.Link, "connection lost").Bad)
		for _, fault := range []struct {
			begin, end func()
			text       string
		}{
			{server.Pause, server.Resume, "pause"},
			{server.Stop, func() { require.NoError(t, server.Restart()) }, "stopped"},
			{func() { server.Freeze() }, func() { server.Thaw() }, "freeze all sessions"},
			{func() { server.RefuseConnections(true) }, server.ClearFaults, "refuse connections"},
		} {
			fault.begin()
			time.Sleep(time.Second) // virtual time: the fault is in force
			fault.end()
			assert.GreaterOrEqual(t, find(t, tl, internal.Fault, fault.text).Dur, time.Second, fault.text)
		}
		require.NoError(t, server.ExpireSession(session.ID()))
		assert.Equal(t, "expired", find(t, tl, internal.Session, internal.SessionText(session.ID())).Result)
		<-session.Done()
		require.NoError(t, client.WaitConnected(t.Context()))
		require.NoError(t, client.Close())
		find(t, tl, internal.Session, "closed")
	})
}
