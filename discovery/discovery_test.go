package discovery_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// ids returns the ids of a list, in its order.
func ids[T any](list []discovery.Instance[T]) []string {
	names := []string{}
	for _, i := range list {
		names = append(names, i.ID)
	}
	return names
}

func at(name, id string) discovery.Instance[string] {
	return discovery.Instance[string]{Name: name, ID: id, Address: "10.0.0.1", Port: 80, Payload: "of " + id}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	require.ErrorIs(t, testbed.Err(discovery.New[string](nil, "/services")), framework.ErrBadArgument)
	for _, base := range []string{"", "services", "/services/"} {
		require.ErrorIs(t, testbed.Err(discovery.New[string](client, base)), framework.ErrBadPath, base)
	}
	for _, o := range []discovery.Option{nil, discovery.WithJavaClass(""), discovery.WithPaths(nil), discovery.WithUnreadable(nil), discovery.WithDownAfter(0, time.Second), discovery.WithDownAfter(1, 0)} {
		require.ErrorIs(t, testbed.Err(discovery.New[string](client, "/services", o)), framework.ErrBadArgument)
	}
	d := newDiscovery[string](t, client)
	ctx := testbed.Context(t)
	for _, i := range []discovery.Instance[string]{
		{ID: "1", Address: "a"}, {Name: "a", ID: "1/2", Address: "a"}, {Name: "a", ID: "1"}, {Name: "a", ID: "1", Address: "a", Port: 65536},
		{Name: "a", ID: "1", Address: "a", SSLPort: -1}, {Name: "a", ID: "1", Address: "a", Type: "LATER"},
	} {
		_, err := d.Register(ctx, i)
		require.ErrorIs(t, err, framework.ErrBadArgument, "%v", i)
		var op *framework.OpError
		require.ErrorAs(t, err, &op)
		assert.Equal(t, "register", op.Op)
	}
	require.Error(t, testbed.Err(d.Register(ctx, discovery.Instance[string]{Name: "a/", ID: "1", Address: "a"})))
	_, err := d.Lookup(ctx, "")
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.EqualError(t, err, "lookup /services: bad argument: empty service name")
	require.ErrorIs(t, testbed.Err(d.Get(ctx, "a", "")), framework.ErrBadArgument)
	_, _, err = d.Get(ctx, "a", "1/2")
	require.EqualError(t, err, `get /services/a: bad argument: invalid instance id "1/2"`)
	require.ErrorIs(t, testbed.Err(d.Watch(ctx, "../a")), framework.ErrBadPath)
	for _, path := range []string{"", "a", "/a/"} {
		d := newDiscovery[string](t, client, discovery.WithPaths(func(string) string { return path }))
		require.ErrorIs(t, testbed.Err(d.Register(ctx, at("orders", "1"))), framework.ErrBadPath, path)
		require.ErrorIs(t, testbed.Err(d.Lookup(ctx, "orders")), framework.ErrBadPath, path)
	}
}

// CUR-DSC-01, -02
func TestNamesAndInstancesOfSeveralServices(t *testing.T) {
	testbed.Run(t, []testbed.Case{{Name: "names and instances of several services", Test: func(t *testing.T, bed *testbed.Bed) {
		ctx := testbed.Context(t)
		client := bed.Client(t)
		base := testbed.Path(t)
		d := testbed.Must(discovery.New[string](client, base))
		reader := testbed.Must(discovery.New[any](bed.Client(t), base))
		for _, name := range []string{"b", "a"} {
			for _, id := range []string{"2", "1"} {
				register(t, d, at(name, id))
			}
		}
		testbed.CatchUp(t, client)
		names, err := d.Names(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, names)
		list := lookup(t, d, "b")
		require.Equal(t, []string{"1", "2"}, ids(list))
		require.Equal(t, "of 1", list[0].Payload)
		w := watch(t, reader, "a")
		require.Equal(t, []string{"1", "2"}, ids(w.Instances()))
	}}})
}

// CUR-DSC-03
func TestWhatIsNotThereIsEmptyAndNoError(t *testing.T) {
	ctx := testbed.Context(t)
	d := newDiscovery[string](t, newClient(t, zktest.NewServer(t)))
	names, err := d.Names(ctx)
	require.NoError(t, err)
	require.Empty(t, names)
	require.Empty(t, lookup(t, d, "orders"))
	_, found, err := d.Get(ctx, "orders", "1")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, d.Unregister(ctx, "orders", "1"))
}

func TestTheBaseMayBeTheRootAndANameMayHaveSlashes(t *testing.T) {
	server := zktest.NewServer(t)
	d, err := discovery.New[string](newClient(t, server), "/", discovery.WithUnreadable(func(path string, err error) { t.Error(path, err) }))
	require.NoError(t, err)
	r := register(t, d, at("shop/eu", "2"))
	require.NoError(t, server.Create("/shop/1", []byte(`{"address":"h","port":1}`))) // Java refuses no name
	require.Equal(t, "/shop/eu/2", r.Path())
	for name, id := range map[string]string{"shop": "1", "shop/eu": "2"} {
		require.Equal(t, []string{id}, ids(lookup(t, d, name)))
	}
}

// CURATOR-457. With such a DiscoveryPathConstructor Java makes the same node, with the name of the
// service in its JSON, and takes the children of the base for the names of services.
// TestWithOtherClients of package interop has Java read and write there.
func TestServicesMayHavePathsOfTheirOwn(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	d := newDiscovery[string](t, newClient(t, server), discovery.WithPaths(func(name string) string { return "/services/" + name + "/instances" }))
	r := register(t, d, at("orders", "1"))
	require.Equal(t, "/services/orders/instances/1", r.Path())
	require.Contains(t, testbed.ServerData(t, server, r.Path()), `{"name":"orders","id":"1",`)
	require.NoError(t, server.Create("/services/orders/instances/2", []byte("{}")))
	names, err := d.Names(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"orders"}, names)
	w := watch(t, d, "orders")
	for _, list := range [][]discovery.Instance[string]{lookup(t, d, "orders"), w.Instances()} {
		require.Equal(t, []string{"1", "2"}, ids(list))
		require.Equal(t, "orders", list[1].Name, "a name that the node does not say")
	}
	require.NoError(t, d.Unregister(ctx, "orders", "2"))
	_, found, err := d.Get(ctx, "orders", "2")
	require.NoError(t, err)
	require.False(t, found)
	require.ErrorIs(t, testbed.Err(d.Lookup(ctx, "../orders")), framework.ErrBadPath)
}

func TestANodeThatCannotBeReadIsLeftOutAndReported(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	client := newClient(t, server)
	reports := make(chan string, 10)
	d := newDiscovery[string](t, client, discovery.WithUnreadable(func(path string, _ error) { reports <- path }))
	register(t, d, at("orders", "good"))
	require.NoError(t, server.Create("/services/orders/bad", []byte("10.0.0.1:80")))
	require.NoError(t, server.Create("/services/orders/class", []byte(`{"name":"orders","payload":{"@class":"com.example.X"}}`)))
	require.NoError(t, server.Create("/services/orders/empty", nil))
	testbed.Create(t, client, "/services/orders/secret", []byte("{}"), framework.ACL([]zk.ACL{{Perms: zk.PermWrite, Scheme: "world", ID: "anyone"}}))

	require.Equal(t, []string{"good"}, ids(lookup(t, d, "orders")))
	var paths []string
	for range 3 {
		paths = append(paths, testbed.Receive(t, reports, "a report"))
	}
	slices.Sort(paths)
	require.Equal(t, []string{"/services/orders/bad", "/services/orders/class", "/services/orders/secret"}, paths)
	require.Error(t, testbed.Err(d.Get(ctx, "orders", "bad")))

	w := watch(t, d, "orders")
	require.Equal(t, []string{"good"}, ids(w.Instances()))
	for range 2 {
		testbed.Receive(t, reports, "a report")
	}
	require.NoError(t, server.Set("/services/orders/bad", []byte(`{"id":"mended"}`)))
	shows(t, w, func(list []discovery.Instance[string]) bool { return len(list) == 2 })
	require.Equal(t, []string{"mended", "good"}, ids(w.Instances()))
	require.NoError(t, server.Set("/services/orders/bad", []byte("bad again")))
	shows(t, w, func(list []discovery.Instance[string]) bool { return len(list) == 1 })
	require.Equal(t, []string{"good"}, ids(w.Instances()), "an earlier version is no instance")
	require.Equal(t, "/services/orders/bad", testbed.Receive(t, reports, "a report"))
	require.Empty(t, reports, "each version is reported once")
}

// touchy is a payload whose reading panics.
type touchy string

func (p *touchy) UnmarshalJSON(data []byte) error {
	if *p = touchy(data); *p == `"bad"` {
		panic("no")
	}
	return nil
}

func TestAPayloadThatPanicsIsLeftOutAndReported(t *testing.T) {
	server := zktest.NewServer(t)
	reports := make(chan string, 10)
	d := newDiscovery[touchy](t, newClient(t, server), discovery.WithUnreadable(func(path string, _ error) { reports <- path }))
	for _, id := range []string{"1", "2"} {
		require.NoError(t, server.Create("/services/orders/"+id, []byte(`{"payload":"good"}`)))
	}
	w := watch(t, d, "orders")
	require.NoError(t, server.Set("/services/orders/1", []byte(`{"payload":"bad"}`)))
	require.Equal(t, "/services/orders/1", testbed.Receive(t, reports, "a report"))
	require.Equal(t, []string{"2"}, ids(w.Instances()), "an earlier version is no instance")
	require.Equal(t, []string{"2"}, ids(lookup(t, d, "orders")))
	require.Equal(t, "/services/orders/1", testbed.Receive(t, reports, "a report"))
}

func TestGetReadsOneInstance(t *testing.T) {
	ctx := testbed.Context(t)
	d := newDiscovery[string](t, newClient(t, zktest.NewServer(t)))
	r := register(t, d, at("orders", "1"))
	i, found, err := d.Get(ctx, "orders", "1")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "of 1", i.Payload)
	require.Equal(t, r.Path(), i.Path())
	require.True(t, r.Instance().RegistrationTime.Equal(i.RegistrationTime))
}
