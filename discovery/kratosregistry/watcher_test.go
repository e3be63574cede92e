package kratosregistry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kratos/kratos/v2/registry"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery/kratosregistry"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func next(t *testing.T, w registry.Watcher) []*registry.ServiceInstance {
	t.Helper()
	list, err := w.Next()
	require.NoError(t, err)
	return list
}

func watch(t *testing.T, r *kratosregistry.Registry, service string) registry.Watcher {
	t.Helper()
	w, err := r.Watch(testbed.Context(t), service)
	require.NoError(t, err)
	t.Cleanup(func() { w.Stop() })
	return w
}

// follow returns the lists of a watcher until it ends.
func follow(w registry.Watcher) <-chan []string {
	lists := make(chan []string, 10)
	go func() { // ends with the watcher
		for list, err := w.Next(); err == nil; list, err = w.Next() {
			lists <- ids(list)
		}
	}()
	return lists
}

func TestAWatcherGetsEachChangeAndKeepsItsListThroughAnOutage(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		ctx := t.Context()
		service := newRegistry(t, world.Client())
		lists := follow(watch(t, newRegistry(t, world.Client()), "orders"))
		synctest.Wait()
		require.Empty(t, lists, "Next waits while there is no instance")
		require.NoError(t, service.Register(ctx, orders("1")))
		require.Equal(t, []string{"1"}, <-lists)
		require.NoError(t, service.Register(ctx, orders("2")))
		require.Equal(t, []string{"1", "2"}, <-lists)
		require.NoError(t, service.Register(ctx, &registry.ServiceInstance{Name: "stock", ID: "3"}))
		require.NoError(t, service.Register(ctx, orders("1")))
		require.Equal(t, []string{"1", "2"}, <-lists, "it was written")
		require.NoError(t, service.Deregister(ctx, orders("1")))
		require.Equal(t, []string{"2"}, <-lists)

		world.Server.RefuseConnections(true)
		world.Server.CutConnections()
		time.Sleep(time.Second) // virtual time: the outage
		world.Server.RefuseConnections(false)
		time.Sleep(time.Minute) // virtual time, in which all has been read again
		require.Empty(t, lists, "an outage that changes nothing is no change")

		world.Server.Stop()
		require.NoError(t, world.Server.Restart())
		require.NoError(t, service.Deregister(ctx, orders("2")))
		require.Empty(t, <-lists)
		late := watch(t, newRegistry(t, world.Client()), "stock")
		require.Equal(t, []string{"3"}, ids(next(t, late)), "complete from the start")
	})
}

func TestAWatcherEndsWithStopItsContextAndItsClient(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	r := newRegistry(t, client)
	for _, c := range []struct {
		end  func(w registry.Watcher, cancel func())
		want error
	}{
		{func(w registry.Watcher, _ func()) { require.NoError(t, w.Stop()) }, framework.ErrEnded},
		{func(_ registry.Watcher, cancel func()) { cancel() }, context.Canceled},
		{func(registry.Watcher, func()) { require.NoError(t, client.Close()) }, framework.ErrClosed},
	} {
		ctx, cancel := context.WithCancel(testbed.Context(t))
		defer cancel()
		w, err := r.Watch(ctx, "orders")
		require.NoError(t, err)
		end := func() error {
			_, err := w.Next()
			return err
		}
		one, two := testbed.Go(end), testbed.Go(end)
		c.end(w, cancel)
		for _, ended := range []<-chan error{one, two} {
			err := testbed.Receive(t, ended, "the end of Next")
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, err, context.Canceled, "Kratos goes on asking after any other error")
		}
		testbed.Eventually(t, func() bool { return server.WatchCount() == 0 }, "the watch is removed")
		require.NoError(t, w.Stop())
		require.NoError(t, w.Stop())
	}
	w, err := r.Watch(testbed.Context(t), "orders")
	if err == nil {
		_, err = w.Next()
	}
	require.ErrorIs(t, err, framework.ErrClosed)
}

// Kratos sorts the endpoints of instances that it compares.
func TestTheInstancesOfANextBelongToItsCaller(t *testing.T) {
	server, r := inProcess(t)
	require.NoError(t, server.Create("/microservices/orders/1", []byte(`{"id":"1","name":"orders","metadata":{"k":"v"},"endpoints":["http://b","grpc://a"]}`)))
	w := watch(t, r, "orders")
	first := next(t, w)[0]
	first.Endpoints[0], first.Metadata["k"] = "spoilt", "spoilt"
	require.NoError(t, r.Register(testbed.Context(t), orders("2")))
	again := next(t, w)[0]
	require.Equal(t, []string{"http://b", "grpc://a"}, again.Endpoints)
	require.Equal(t, map[string]string{"k": "v"}, again.Metadata)
}

func TestAVersionThatCannotBeReadIsNoInstance(t *testing.T) {
	server, r := inProcess(t)
	require.NoError(t, r.Register(testbed.Context(t), orders("1")))
	require.NoError(t, r.Register(testbed.Context(t), orders("2")))
	w := watch(t, r, "orders")
	require.Equal(t, []string{"1", "2"}, ids(next(t, w)))
	require.NoError(t, server.Set("/microservices/orders/1", []byte("bad")))
	require.Equal(t, []string{"2"}, ids(next(t, w)))
}

// Any data of a node are an instance or reported, and the watcher continues.
func FuzzAnInstanceOfAnother(f *testing.F) {
	for _, text := range []string{"", "null", "{}", "[]", `{"id":"1","name":"orders","version":"v","metadata":{"a":"b"},"endpoints":["grpc://a:1?isSecure=true"]}`,
		`{"name":"orders","metadata":null,"endpoints":[null]}`, `{"name":1}`, "\xff"} {
		f.Add([]byte(text))
	}
	server, err := zktest.Start()
	if err != nil {
		f.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		f.Fatal(err)
	}
	defer client.Close()
	r, err := kratosregistry.New(client, kratosregistry.WithUnreadable(func(string, error) {}))
	if err != nil {
		f.Fatal(err)
	}
	if err := server.Create("/microservices/orders/good", []byte(`{"id":"good","name":"orders"}`)); err != nil {
		f.Fatal(err)
	}
	if err := server.Create("/microservices/orders/x", nil); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, server.Set("/microservices/orders/x", data))
		list, err := r.GetService(testbed.Context(t), "orders")
		require.NoError(t, err)
		require.Contains(t, []int{1, 2}, len(list))
		require.Equal(t, "good", list[0].ID)
	})
}

// A provider that registers again is missing for a moment, although it never stopped.
func TestNext_ReturnsAnEmptyListOnlyAfterTheGrace(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		r := newRegistry(t, world.Client(), kratosregistry.WithGrace(3*time.Second))
		data := []byte(`{"id":"1","name":"orders"}`)
		require.NoError(t, world.Server.Create("/microservices/orders/1", data))
		lists := follow(watch(t, r, "orders"))
		require.Equal(t, []string{"1"}, <-lists)
		require.NoError(t, world.Server.Delete("/microservices/orders/1"))
		time.Sleep(3*time.Second - time.Millisecond) // virtual time: just before the grace is over
		require.Empty(t, lists)
		list, err := r.GetService(t.Context(), "orders")
		require.NoError(t, err)
		require.Empty(t, list, "the truth")
		require.NoError(t, world.Server.Create("/microservices/orders/1", data))
		require.Equal(t, []string{"1"}, <-lists)
		require.NoError(t, world.Server.Delete("/microservices/orders/1"))
		began := time.Now()
		require.Empty(t, <-lists)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
	_, err := kratosregistry.New(testbed.On(zktest.NewServer(t)).Client(t), kratosregistry.WithGrace(-1))
	require.ErrorIs(t, err, framework.ErrBadArgument)
}
