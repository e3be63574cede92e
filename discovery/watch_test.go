package discovery_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/zktest"
)

// CUR-DSC-07, -08; CURATOR-705
func TestAWatchFollowsItsServiceOnly(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	d := newDiscovery[string](t, newClient(t, server))
	w := watch(t, d, "orders")
	require.Empty(t, w.Instances())
	followed, stop := context.WithCancel(ctx)
	lists, ended := follow(w.Observe(followed))
	require.Empty(t, testbed.Receive(t, lists, "the first list"))
	one := register(t, d, at("orders", "1"))
	require.Equal(t, []string{"1"}, ids(testbed.Receive(t, lists, "the first instance")))
	register(t, d, at("others", "x"))
	require.NoError(t, server.Create("/services/orders/empty", nil)) // is no instance
	register(t, d, at("orders", "2"))
	require.Equal(t, []string{"1", "2"}, ids(testbed.Receive(t, lists, "the second instance")))

	i := one.Instance()
	i.Payload = "updated"
	require.NoError(t, one.Update(ctx, i))
	require.Equal(t, "updated", testbed.Receive(t, lists, "the update")[0].Payload)
	require.NoError(t, one.Close())
	require.Equal(t, []string{"2"}, ids(testbed.Receive(t, lists, "the end of the first")))

	late := watch(t, d, "orders")
	require.Equal(t, []string{"2"}, ids(late.Instances()), "complete from the start")
	testbed.Eventually(t, func() bool { fresh, _ := late.Current(); return fresh }, "all has been read")
	stop()
	require.ErrorIs(t, testbed.Receive(t, ended, "the end of the iteration"), context.Canceled)
	require.Empty(t, lists)
}

func TestAWatchKeepsItsListThroughAnOutageAndThenCatchesUp(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		d := newDiscovery[string](t, world.Client())
		r := register(t, d, at("orders", "1"))
		reader := newDiscovery[string](t, world.Client())
		w := watch(t, reader, "orders")
		world.Server.RefuseConnections(true)
		world.Server.CutConnections()
		synctest.Wait() // the loss is noticed
		fresh, _ := w.Current()
		require.False(t, fresh)
		require.Equal(t, []string{"1"}, ids(w.Instances()))
		require.NoError(t, world.Server.Delete(r.Path()))
		require.NoError(t, world.Server.Create("/services/orders/2", []byte("{}")))
		world.Server.RefuseConnections(false)
		require.Eventually(t, func() bool {
			list := ids(w.Instances())
			return len(list) == 2 // this client's instance is recreated
		}, time.Minute, time.Second)
		require.NoError(t, r.Close())
	})
}

func TestAWatchEndsWithItsCloseAndWithItsClient(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	d := newDiscovery[string](t, client)
	for _, c := range []struct {
		end  func(w *discovery.Watch[string]) error
		want error
	}{
		{func(w *discovery.Watch[string]) error { return w.Close() }, framework.ErrEnded},
		{func(*discovery.Watch[string]) error { return client.Close() }, framework.ErrClosed},
	} {
		w := watch(t, d, "orders")
		_, ended := follow(w.Observe(testbed.Context(t)))
		require.NoError(t, w.Err())
		require.NoError(t, c.end(w))
		err := testbed.Receive(t, ended, "the end of the iteration")
		require.ErrorIs(t, err, c.want)
		testbed.OneOp(t, err, "observe", "/services/orders")
		require.ErrorIs(t, w.Err(), c.want)
		require.NoError(t, w.Close())
	}
}

func TestAWatchThatFindsNoServerSaysSo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		d := newDiscovery[string](t, w.Client())
		w.Server.Stop()
		ctx := testbed.Timeout(t, time.Minute)
		_, err := d.Watch(ctx, "orders")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer)
	})
}

func TestAListStaysWholeWhileAnotherInstanceComesAndGoes(t *testing.T) {
	server := zktest.NewServer(t)
	w, _ := ten(t, newDiscovery[string](t, newClient(t, server)))
	ctx := testbed.Context(t)
	has := func(n int) {
		for list, err := range w.Observe(ctx) {
			if !assert.NoError(t, err) || len(list) == n {
				return
			}
		}
	}
	over := make(chan struct{})
	go func() { // ends with its requests
		defer close(over)
		for range 20 {
			// the first in the list
			assert.NoError(t, server.Create("/services/orders/+", []byte("{}")))
			has(11)
			assert.NoError(t, server.Delete("/services/orders/+"))
			has(10)
		}
	}()
	for !wait.Closed(over) {
		list := ids(w.Instances())
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, list[max(0, len(list)-10):])
	}
}
