package kratosregistry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kratos/kratos/v2/registry"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/kratosregistry"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRegistry(t *testing.T, client *framework.Client, opts ...kratosregistry.Option) *kratosregistry.Registry {
	t.Helper()
	r, err := kratosregistry.New(client, opts...)
	require.NoError(t, err)
	return r
}

func inProcess(t *testing.T) (*zktest.Server, *kratosregistry.Registry) {
	t.Helper()
	server := zktest.NewServer(t)
	return server, newRegistry(t, testbed.On(server).Client(t))
}

func orders(id string) *registry.ServiceInstance {
	return &registry.ServiceInstance{ID: id, Name: "orders", Endpoints: []string{"grpc://127.0.0.1:9000"}}
}

func ids(list []*registry.ServiceInstance) []string {
	names := []string{}
	for _, i := range list {
		names = append(names, i.ID)
	}
	return names
}

// The data are what contrib/registry/zookeeper of Kratos 3.0.0 has written for the same instance.
func TestTheNodesAreThoseOfKratosOwnRegistry(t *testing.T) {
	ctx := testbed.Context(t)
	server, r := inProcess(t)
	one := &registry.ServiceInstance{
		ID: "2c1f", Name: "orders", Version: "v1.2.3", Metadata: map[string]string{"zone": "eu<1>", "a": "ä&b"},
		Endpoints: []string{"http://127.0.0.1:8000?isSecure=false&w=1", "grpc://[::1]:9000"},
	}
	require.NoError(t, r.Register(ctx, one))
	require.NoError(t, r.Register(ctx, &registry.ServiceInstance{ID: "bare", Name: "orders"}))
	for path, want := range map[string]string{
		"/microservices":        "",
		"/microservices/orders": "",
		"/microservices/orders/2c1f": `{"id":"2c1f","name":"orders","version":"v1.2.3","metadata":{"a":"ä\u0026b","zone":"eu\u003c1\u003e"},` +
			`"endpoints":["http://127.0.0.1:8000?isSecure=false\u0026w=1","grpc://[::1]:9000"]}`,
		"/microservices/orders/bare": `{"id":"bare","name":"orders","version":"","metadata":null,"endpoints":null}`,
	} {
		require.Equal(t, want, testbed.ServerData(t, server, path), path)
		stat := testbed.ServerStat(t, server, path)
		require.Equal(t, len(path) > len("/microservices/orders"), stat.EphemeralOwner != 0, "%s: an instance is ephemeral, a parent is persistent", path)
	}
	list, err := r.GetService(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, []*registry.ServiceInstance{one, {ID: "bare", Name: "orders"}}, list)

	require.NoError(t, r.Deregister(ctx, one))
	require.NoError(t, r.Deregister(ctx, orders("bare")))
	require.NoError(t, r.Deregister(ctx, one), "a second one does nothing")
	server.ReapContainers()
	require.Empty(t, testbed.ServerChildren(t, server, "/microservices/orders"), "it stays without instances")
}

// Each request fails in turn, or the session ends before or after it. Later another session ends.
func TestNothingComesBackAfterDeregister(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		r := newRegistry(t, s.Subject)
		require.NoError(t, r.Register(t.Context(), orders("1")))
		require.NoError(t, r.Register(t.Context(), orders("2")))
		require.NoError(t, r.Deregister(t.Context(), orders("1")))
		s.Spare(true)
		// virtual time, in which a lost session expires, and kept nodes are recreated
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"2"}, testbed.ServerChildren(t, s.Server, "/microservices/orders"))
		require.NoError(t, s.Server.ExpireSession(testbed.Session(t, s.Subject).ID()))
		time.Sleep(2 * time.Minute) // virtual time, as before
		require.Equal(t, []string{"2"}, testbed.ServerChildren(t, s.Server, "/microservices/orders"))
		require.NoError(t, r.Deregister(t.Context(), orders("2")))
	})
}

func TestDeregisterEndsInTheBackgroundWhenItsContextIsDone(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		r := newRegistry(t, w.Client())
		require.NoError(t, r.Register(t.Context(), orders("1")))
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		ctx := testbed.Timeout(t, time.Second)
		require.ErrorIs(t, r.Deregister(ctx, orders("1")), context.DeadlineExceeded)
		require.True(t, w.Server.Exists("/microservices/orders/1"))
		w.Server.RefuseConnections(false)
		time.Sleep(2 * time.Minute) // virtual time, in which it could return
		require.False(t, w.Server.Exists("/microservices/orders/1"))
	})
}

func TestDeregisterEndsARegisterThatWaits(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		r := newRegistry(t, w.Client())
		created := w.Server.Block(zktest.OnCreate(), zktest.OnPath("/microservices/orders/1"))
		first := testbed.Go(func() error { return r.Register(t.Context(), orders("1")) })
		<-created.Arrived()
		again := testbed.Go(func() error { return r.Register(t.Context(), orders("1")) }) // waits for the first
		synctest.Wait()                                                                   // both wait
		ctx := testbed.Timeout(t, time.Second)
		for _, err := range []error{r.Deregister(ctx, orders("1")), <-first} {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
		created.Open()
		require.NoError(t, <-again, "it was not deregistered")
		require.NoError(t, r.Deregister(t.Context(), orders("1")))
		// virtual time, in which the first create could still be carried out
		time.Sleep(2 * time.Minute)
		require.False(t, w.Server.Exists("/microservices/orders/1"))
	})
}

func TestRegisterWaitsForAServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		r := newRegistry(t, w.Client())
		w.Server.Stop()
		done := testbed.Go(func() error { return r.Register(t.Context(), orders("1")) })
		time.Sleep(5 * time.Minute) // virtual time: the length of the outage
		require.NoError(t, w.Server.Restart())
		require.NoError(t, <-done)
		require.NoError(t, r.Deregister(t.Context(), orders("1")))
	})
}

func TestToRegisterAgainWritesTheInstance(t *testing.T) {
	ctx := testbed.Context(t)
	server, r := inProcess(t)
	i := orders("1")
	require.NoError(t, r.Register(ctx, i))
	before := testbed.ServerStat(t, server, "/microservices/orders/1")
	i.Version = "v2"
	require.NoError(t, r.Register(ctx, i))
	require.Contains(t, testbed.ServerData(t, server, "/microservices/orders/1"), `"version":"v2"`)
	after := testbed.ServerStat(t, server, "/microservices/orders/1")
	require.Equal(t, before.Czxid, after.Czxid, "watchers see one instance that has changed")
	require.NoError(t, r.Deregister(ctx, i))
	require.False(t, server.Exists("/microservices/orders/1"))
}

// Kratos' own registry leaves the node of the earlier process as it is, and so is not registered
// when that session ends.
func TestTheNodeOfAnEarlierProcessIsReplaced(t *testing.T) {
	ctx := testbed.Context(t)
	server, crashed := inProcess(t)
	require.NoError(t, crashed.Register(ctx, orders("1")))
	before := testbed.ServerStat(t, server, "/microservices/orders/1")
	require.NoError(t, newRegistry(t, testbed.On(server).Client(t)).Register(ctx, orders("1")))
	require.NoError(t, server.ExpireSession(before.EphemeralOwner))
	after := testbed.ServerStat(t, server, "/microservices/orders/1")
	require.NotEqual(t, before.EphemeralOwner, after.EphemeralOwner)
}

func TestBadArgumentsAreRefused(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.On(zktest.NewServer(t)).Client(t)
	require.ErrorIs(t, testbed.Err(kratosregistry.New(nil)), framework.ErrBadArgument)
	for _, option := range []kratosregistry.Option{nil, kratosregistry.WithUnreadable(nil)} {
		require.ErrorIs(t, testbed.Err(kratosregistry.New(client, option)), framework.ErrBadArgument)
	}
	_, err := kratosregistry.New(client, kratosregistry.WithRootPath("services"))
	require.ErrorIs(t, err, framework.ErrBadPath)
	r := newRegistry(t, client, kratosregistry.WithRootPath("/services"))
	for _, i := range []*registry.ServiceInstance{nil, {ID: "1"}, {Name: "orders"}, {Name: "orders", ID: "a/b"}} {
		require.ErrorIs(t, r.Register(ctx, i), framework.ErrBadArgument)
		require.ErrorIs(t, r.Deregister(ctx, i), framework.ErrBadArgument)
	}
	err = r.Register(ctx, &registry.ServiceInstance{Name: "../orders", ID: "1"})
	require.ErrorIs(t, err, framework.ErrBadPath)
	var op *framework.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "register", op.Op)
	require.ErrorIs(t, testbed.Err(r.Watch(ctx, "")), framework.ErrBadArgument)
	require.ErrorIs(t, testbed.Err(r.GetService(ctx, "../orders")), framework.ErrBadPath)
	list, err := r.GetService(ctx, "orders")
	require.NoError(t, err)
	require.Empty(t, list)
	cancelled := testbed.Cancelled(t)
	require.ErrorIs(t, r.Register(cancelled, orders("1")), context.Canceled)
	require.NoError(t, r.Register(ctx, orders("1")), "one that has failed does not stand in the way")
	require.ErrorIs(t, testbed.Err(r.GetService(cancelled, "orders")), context.Canceled)
}

func TestANodeThatCannotBeReadIsLeftOutAndReported(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	reports := make(chan string, 20)
	r := newRegistry(t, client, kratosregistry.WithUnreadable(func(path string, _ error) { reports <- path }))
	require.NoError(t, r.Register(ctx, orders("good")))
	for id, data := range map[string]string{"text": "10.0.0.1:80", "null": "null", "other": `{"id":"x","name":"stock"}`, "type": `{"name":"orders","endpoints":"a"}`, "empty": ""} {
		require.NoError(t, server.Create("/microservices/orders/"+id, []byte(data)))
	}
	testbed.Create(t, client, "/microservices/orders/secret", []byte("{}"), framework.ACL([]zk.ACL{{Perms: zk.PermWrite, Scheme: "world", ID: "anyone"}}))
	list, err := r.GetService(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, []string{"good"}, ids(list))
	var paths []string
	for range 4 {
		paths = append(paths, testbed.Receive(t, reports, "a report"))
	}
	require.ElementsMatch(t, []string{"/microservices/orders/text", "/microservices/orders/null", "/microservices/orders/other", "/microservices/orders/type"}, paths)
	require.Empty(t, reports)
}

// Kratos' own registry lists no instance of a service with a child that is none.
func TestRegister_RefusesServicesAboveAndBelowEachOther(t *testing.T) {
	for _, names := range [][2]string{{"pay", "pay/v2"}, {"pay/v2", "pay"}, {"pay", "pay/eu/v2"}, {"pay/eu/v2", "pay"}} {
		_, r := inProcess(t)
		require.NoError(t, r.Register(testbed.Context(t), &registry.ServiceInstance{ID: "1", Name: names[0]}))
		err := r.Register(testbed.Context(t), &registry.ServiceInstance{ID: "2", Name: names[1]})
		require.ErrorIs(t, err, discovery.ErrNested, names)
		require.ErrorContains(t, err, "/microservices/pay/")
		require.NoError(t, r.Register(testbed.Context(t), &registry.ServiceInstance{ID: "2", Name: names[0]}))
	}
}
