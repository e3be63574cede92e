package shard_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/shard"
)

// An orchestrator kills a process that does not end soon. All calls return before Run does.
func TestRun_EndsSoonWithoutAServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		m := testbed.Must(shard.New(w.Client(framework.WithSessionTimeout(40*time.Second)), "/s", "a", 4))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls atomic.Int32
		done := testbed.Go(func() error {
			return m.Run(ctx, func(ctx context.Context, _ int) error {
				calls.Add(1)
				<-ctx.Done()
				time.Sleep(3 * time.Second) // virtual time: the work ends
				calls.Add(-1)
				return nil
			})
		})
		time.Sleep(30 * time.Second) // virtual time, in which the member owns all shards
		require.EqualValues(t, 4, calls.Load())
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		synctest.Wait()
		began := time.Now()
		cancel()
		err := <-done
		require.Equal(t, 8*time.Second, time.Since(began), "5 s after the last call")
		require.Zero(t, calls.Load())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.ErrorContains(t, err, "nodes of member a may remain")
		w.Server.RefuseConnections(false)
		time.Sleep(10 * time.Second) // virtual time, in which the client connects
		require.False(t, w.Server.Exists("/s/members/a"))
		require.NoError(t, m.Drain(t.Context()))
	})
}

// A view of one session waits for no other session: Run ends with it.
func TestRun_InAViewOfALostSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		session := testbed.Session(t, client)
		m := testbed.Must(shard.New(client.In(session), "/s", "a", 4))
		idle := testbed.Must(shard.New(client.In(session), "/s", "b", 4, shard.WithWeight(1)))
		work := func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }
		done := testbed.Go(func() error { return m.Run(t.Context(), work) })
		idleDone := testbed.Go(func() error { return idle.Run(t.Context(), work) })
		testbed.Eventually(t, func() bool { return len(m.Owned())+len(idle.Owned()) == 4 }, "the members own all shards")
		require.NoError(t, w.Server.ExpireSession(session.ID()))
		require.ErrorIs(t, testbed.Receive(t, done, "the end of Run"), framework.ErrSessionLost)
		require.ErrorIs(t, testbed.Receive(t, idleDone, "the end of Run"), framework.ErrSessionLost)
		require.ErrorIs(t, m.Run(t.Context(), work), framework.ErrSessionLost, "at once")
	})
}

// Run ends if its client is closed, and if the plan has another number of shards.
func TestRun_EndsWithItsClientOrItsPlan(t *testing.T) {
	for want, end := range map[error]func(w world, m member) error{
		framework.ErrClosed: func(_ world, m member) error { return m.client.Close() },
		shard.ErrShards:     func(w world, _ member) error { return w.server.Set("/ingest/plan", []byte(`{"owners":["a"]}`)) },
	} {
		virtual(t, func(w world) {
			a := w.join("a", 4)
			w.settled(map[string]int{"a": 4})
			require.NoError(w, end(w, a))
			require.ErrorIs(w, testbed.Receive(w.T, a.ended, "the end of Run"), want)
		})
	}
}
