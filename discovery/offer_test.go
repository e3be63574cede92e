package discovery_test

import (
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// Curator's Java library deletes and creates its node at every reconnect, although the service
// never stopped.
func TestPick_WhileTheOnlyInstanceIsCreatedAgain(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		d := newDiscovery[string](t, world.Client())
		data := []byte(`{"name":"orders","id":"java","address":"h","port":1}`)
		require.NoError(t, world.Server.Create("/services/orders/java", data))
		w := watch(t, d, "orders")
		require.NoError(t, world.Server.Delete("/services/orders/java"))
		synctest.Wait() // the watch has the deletion
		require.Empty(t, w.Instances(), "the truth")
		require.Equal(t, "java", pick(t, w, discovery.RoundRobin))
		require.NoError(t, world.Server.Create("/services/orders/java", data))
		synctest.Wait()
		require.Len(t, w.Instances(), 1)

		require.NoError(t, world.Server.Delete("/services/orders/java"))
		time.Sleep(5*time.Second - time.Millisecond) // virtual time: just before the grace is over
		require.Equal(t, "java", pick(t, w, discovery.RoundRobin))
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin)), discovery.ErrNoInstance)
	})
}

// A process that is started again with the same id replaces its node in one transaction.
func TestPick_WhileAnInstanceIsReplaced(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	d := newDiscovery[string](t, client)
	require.NoError(t, server.Create("/services/orders/1", []byte(`{"address":"h","port":1}`)))
	w := watch(t, d, "orders")
	over := testbed.Go(func() error { // ends with its transactions
		for range 100 {
			_, err := client.Multi(t.Context(), &zk.DeleteRequest{Path: "/services/orders/1", Version: -1},
				&zk.CreateRequest{Path: "/services/orders/1", Data: []byte(`{"address":"h","port":1}`)})
			if err != nil {
				return err
			}
		}
		return nil
	})
	for {
		select {
		case err := <-over:
			require.NoError(t, err)
			return
		default:
			pick(t, w, discovery.RoundRobin)
		}
	}
}

func TestPick_PrefersInstancesThatExist(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		d := newDiscovery[string](t, world.Client(), discovery.WithDownAfter(1, time.Hour))
		for _, id := range []string{"1", "2"} {
			require.NoError(t, world.Server.Create("/services/orders/"+id, []byte(`{"address":"h","port":1}`)))
		}
		w := watch(t, d, "orders")
		require.NoError(t, world.Server.Delete("/services/orders/1"))
		synctest.Wait()
		for range 5 {
			require.Equal(t, "2", pick(t, w, discovery.RoundRobin))
		}
		w.ReportError(w.Instances()[0])
		require.Equal(t, "1", pick(t, w, discovery.RoundRobin), "the other one fails")
		notOne := func(i *discovery.Instance[string]) bool { return i.ID != "1" }
		require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin, notOne)), discovery.ErrNoInstance)
	})
}

// Goodbyes end the grace at once.
func TestPick_AfterAGoodbye(t *testing.T) {
	goodbyes := map[string]func(t *testing.T, server *zktest.Server, r *discovery.Registration[discovery.Metadata]){
		"drained": func(t *testing.T, _ *zktest.Server, r *discovery.Registration[discovery.Metadata]) {
			require.NoError(t, r.Drain(t.Context(), 0))
		},
		"out of service": func(t *testing.T, _ *zktest.Server, r *discovery.Registration[discovery.Metadata]) {
			i := r.Instance()
			i.Payload.Metadata = map[string]string{"instance_status": "OUT_OF_SERVICE"}
			require.NoError(t, r.Update(t.Context(), i))
		},
		"out of service, then gone": func(t *testing.T, server *zktest.Server, r *discovery.Registration[discovery.Metadata]) {
			i := r.Instance()
			i.Payload.Metadata = map[string]string{"instance_status": "DOWN"}
			require.NoError(t, r.Update(t.Context(), i))
			synctest.Wait() // the watch has it
			require.NoError(t, server.Delete(r.Path()))
		},
	}
	for name, leave := range goodbyes {
		testbed.RunWorld(t, name, func(t *testing.T, world *testbed.World) {
			d := newDiscovery[discovery.Metadata](t, world.Client())
			r := register(t, d, discovery.Spring("orders", "h", 1, nil))
			w := watch(t, d, "orders")
			leave(t, world.Server, r)
			synctest.Wait()
			require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin)), discovery.ErrNoInstance)
			require.NoError(t, r.Close())
		})
	}
}

// Each of them adds to the data of one node, and the watch may read it once.
func TestDrain_OfManyInstancesAtOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		w := watch(t, newDiscovery[string](t, world.Client()), "orders")
		var all []*discovery.Registration[string]
		for n := range 20 {
			d := newDiscovery[string](t, world.Client())
			all = append(all, register(t, d, at("orders", strconv.Itoa(n))))
		}
		time.Sleep(time.Second) // virtual time, longer than the latency of the watch
		var drains sync.WaitGroup
		for _, r := range all {
			drains.Go(func() { assert.NoError(t, r.Drain(t.Context(), 0)) })
		}
		drains.Wait()
		time.Sleep(100 * time.Millisecond) // virtual time: the goodbyes arrive, and the grace of 5 s is not over
		require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin)), discovery.ErrNoInstance)
	}, zktest.WithLatency(2*time.Millisecond))
}

// The node of a service must not grow with each deployment.
func TestDrain_KeepsTheLastGoodbyes(t *testing.T) {
	// Virtual time: a goodbye may take no longer than a second.
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		d := newDiscovery[string](t, world.Client())
		require.NoError(t, world.Server.Create("/services/orders", []byte("foreign data")))
		for n := range 110 {
			require.NoError(t, register(t, d, at("orders", strconv.Itoa(n))).Drain(t.Context(), 0))
		}
		var left struct{ Leaving map[string]int64 }
		require.NoError(t, json.Unmarshal([]byte(testbed.ServerData(t, world.Server, "/services/orders")), &left))
		require.Len(t, left.Leaving, 100)
		require.NotContains(t, left.Leaving, "9")
		require.Contains(t, left.Leaving, "10")
	})
}

// A node that was created after a goodbye of the same name has not said goodbye.
func TestPick_AGoodbyeDoesNotCountForALaterNode(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		d := newDiscovery[string](t, world.Client())
		r := register(t, d, at("orders", "1"))
		w := watch(t, d, "orders")
		require.NoError(t, r.Drain(t.Context(), 0))
		r = register(t, d, at("orders", "1"))
		synctest.Wait()
		require.NoError(t, r.Close())
		synctest.Wait()
		require.Equal(t, "1", pick(t, w, discovery.RoundRobin))
	})
}

// A node further down would contain an instance of another service.
func TestDrain_WritesNoGoodbyeBelowAnotherService(t *testing.T) {
	server := zktest.NewServer(t)
	d := newDiscovery[string](t, newClient(t, server))
	require.NoError(t, register(t, d, at("shop/eu", "1")).Drain(testbed.Context(t), 0))
	require.Empty(t, testbed.ServerData(t, server, "/services/shop/eu"))
	r := register(t, d, at("shop", "1"))
	require.NoError(t, r.Close())
	require.NoError(t, r.Drain(testbed.Context(t), 0), "it has left already")
	require.Empty(t, testbed.ServerData(t, server, "/services/shop"))
}

func TestAvailable(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		d := newDiscovery[string](t, world.Client(), discovery.WithGrace(3*time.Second))
		w := watch(t, d, "orders")
		lists, ended := follow(w.Available(t.Context()))
		next := func() []string {
			synctest.Wait()
			select {
			case list := <-lists:
				return ids(list)
			default:
				return nil
			}
		}
		require.Empty(t, <-lists)
		require.NoError(t, world.Server.Create("/services/orders/1", []byte(`{"address":"h","port":1}`)))
		require.Equal(t, []string{"1"}, next())
		require.NoError(t, world.Server.Create("/services/orders/2", []byte(`{"address":"h","port":1,"enabled":false}`)))
		require.Nil(t, next(), "it is disabled")
		require.NoError(t, world.Server.Delete("/services/orders/1"))
		require.Nil(t, next(), "it is offered for the grace")
		began := time.Now()
		require.Empty(t, <-lists)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.NoError(t, w.Close())
		err := <-ended
		require.ErrorIs(t, err, framework.ErrEnded)
		testbed.OneOp(t, err, "available", "/services/orders")
		require.Empty(t, lists)
	})
}

func TestErr_OfARegistrationIsNilUntilItHasEnded(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		r := register(t, newDiscovery[string](t, w.Client()), at("orders", "1"))
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		synctest.Wait() // the loss is noticed
		require.Error(t, r.Problem())
		require.NoError(t, r.Err())
		w.Server.RefuseConnections(false)
		require.NoError(t, r.Close())
		require.ErrorIs(t, r.Err(), framework.ErrEnded)
		require.ErrorIs(t, r.Problem(), framework.ErrEnded)
	})
}

// Nodes that were created in one transaction have one czxid.
func TestReportError_OfNodesOfOneTransaction(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	d := newDiscovery[string](t, client)
	_, err := client.Multi(testbed.Context(t), &zk.CreateRequest{Path: "/services"}, &zk.CreateRequest{Path: "/services/orders"},
		&zk.CreateRequest{Path: "/services/orders/1", Data: []byte(`{}`)}, &zk.CreateRequest{Path: "/services/orders/2", Data: []byte(`{}`)})
	require.NoError(t, err)
	w := watch(t, d, "orders")
	for range 2 {
		w.ReportError(w.Instances()[0])
	}
	require.Equal(t, "2", pick(t, w, discovery.RoundRobin))
}

func TestSticky_StaysBesideOtherStrategies(t *testing.T) {
	w, _ := ten(t, newDiscovery[string](t, newClient(t, zktest.NewServer(t))))
	one, another := discovery.Sticky[string](), discovery.Sticky[string]()
	first, second := pick(t, w, one), pick(t, w, another)
	for range 20 {
		pick(t, w, discovery.RoundRobin)
		require.Equal(t, first, pick(t, w, one))
		require.Equal(t, second, pick(t, w, another))
	}
}

func TestPick_FiltersAllMustPass(t *testing.T) {
	w, _ := ten(t, newDiscovery[string](t, newClient(t, zktest.NewServer(t))))
	above := func(id string) func(*discovery.Instance[string]) bool {
		return func(i *discovery.Instance[string]) bool { return i.ID > id }
	}
	seen := map[string]bool{}
	for range 30 {
		i, err := w.Pick(discovery.RoundRobin, above("3"), above("7"))
		require.NoError(t, err)
		seen[i.ID] = true
	}
	require.Equal(t, map[string]bool{"8": true, "9": true}, seen)
	require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin, above("9"))), discovery.ErrNoInstance)
}

// An operator changes the status of a running instance.
func TestProblem_IsNilAfterAWriteOfAnotherClient(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		r := register(t, newDiscovery[string](t, w.Client()), at("orders", "1"))
		require.NoError(t, w.Server.Set(r.Path(), []byte(`{"address":"other"}`)))
		synctest.Wait() // the client has heard of it
		require.NoError(t, r.Problem())
		require.Equal(t, `{"address":"other"}`, testbed.ServerData(t, w.Server, r.Path()))
		require.NoError(t, r.Update(t.Context(), r.Instance()))
		require.Contains(t, testbed.ServerData(t, w.Server, r.Path()), "10.0.0.1")
	})
}
