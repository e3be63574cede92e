package dubbo_test

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/dubbo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func app(port int, services ...string) dubbo.Application {
	a := dubbo.Application{Name: "orders", Host: "127.0.0.1", Port: port}
	for _, name := range services {
		a.Services = append(a.Services, dubbo.Service{Name: name, Methods: []string{"put", "get"}})
	}
	return a
}

func newClient(t *testing.T, server *zktest.Server) *framework.Client {
	t.Helper()
	return testbed.NewClient(t, server.Servers())
}

// register returns a registration that is closed when the test ends.
func register(t *testing.T, client *framework.Client, a dubbo.Application, opts ...dubbo.Option) *dubbo.Registration {
	t.Helper()
	r, err := dubbo.Register(testbed.Context(t), client, a, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// testdata/go-provider.json has the nodes of a provider that Dubbo 3.3.5 and 3.2.16 in Java called.
func TestRegister_WritesWhatConsumersRead(t *testing.T) {
	text := testbed.Must(os.ReadFile("testdata/go-provider.json"))
	var want struct{ Metadata, Instance map[string]any }
	require.NoError(t, json.Unmarshal(text, &want))
	server := zktest.NewServer(t)
	a := dubbo.Application{Name: "go-map", Host: "127.0.0.1", Port: 26704, Services: []dubbo.Service{{Name: "demo.Greeter", Methods: []string{"greet"}}}}
	r := register(t, newClient(t, server), a)
	require.Equal(t, "/services/go-map/127.0.0.1:26704", r.Path())
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(testbed.ServerData(t, server, "/dubbo/metadata/go-map/"+r.Revision())), &got))
	want.Metadata["revision"] = r.Revision()
	require.Equal(t, want.Metadata, got)
	for key, value := range got {
		var forGo map[string]any
		require.NoError(t, json.Unmarshal([]byte(testbed.ServerData(t, server, "/dubbo/go-map/"+r.Revision())), &forGo))
		require.Equal(t, value, forGo[key], "for dubbo-go")
	}
	require.Equal(t, "go-map", testbed.ServerData(t, server, "/dubbo/mapping/demo.Greeter"))
	got = nil
	require.NoError(t, json.Unmarshal([]byte(testbed.ServerData(t, server, r.Path())), &got))
	metadata := func(instance map[string]any) map[string]any {
		return instance["payload"].(map[string]any)["metadata"].(map[string]any)
	}
	for _, own := range []map[string]any{want.Instance, got} {
		delete(own, "registrationTimeUTC")
		require.NotEmpty(t, metadata(own)["timestamp"])
		delete(metadata(own), "timestamp")
	}
	require.Equal(t, r.Revision(), metadata(got)["dubbo.metadata.revision"])
	metadata(want.Instance)["dubbo.metadata.revision"] = r.Revision()
	require.Equal(t, want.Instance, got)
}

func TestRegister_RefusesWhatCannotBeCalled(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	good := app(1, "a.B")
	for _, change := range []func(a *dubbo.Application){
		func(a *dubbo.Application) { a.Name = "" }, func(a *dubbo.Application) { a.Name = "a,b" }, func(a *dubbo.Application) { a.Name = "a/b" },
		func(a *dubbo.Application) { a.Name = "metadata" },
		func(a *dubbo.Application) { a.Host = "" }, func(a *dubbo.Application) { a.Port = 0 }, func(a *dubbo.Application) { a.Port = 65536 },
		func(a *dubbo.Application) { a.Services = nil }, func(a *dubbo.Application) { a.Services = append(a.Services, a.Services[0]) },
		func(a *dubbo.Application) { a.Services = []dubbo.Service{{Name: "a.B"}} },
		func(a *dubbo.Application) { a.Services = []dubbo.Service{{Name: "a/B", Methods: []string{"c"}}} },
		func(a *dubbo.Application) { a.Services = []dubbo.Service{{Name: "a.B", Methods: []string{"c,d"}}} },
	} {
		bad := good
		change(&bad)
		_, err := dubbo.Register(testbed.Context(t), client, bad)
		require.ErrorIs(t, err, framework.ErrBadArgument, "%v", bad)
	}
	require.ErrorIs(t, testbed.Err(dubbo.Register(testbed.Context(t), nil, good)), framework.ErrBadArgument)
	require.ErrorIs(t, testbed.Err(dubbo.Register(testbed.Context(t), client, good, nil)), framework.ErrBadArgument)
	for _, group := range []string{"", "/", "/abc", "a/b"} {
		_, err := dubbo.Register(testbed.Context(t), client, good, dubbo.WithGroup(group))
		require.ErrorIs(t, err, framework.ErrBadArgument, group)
	}
	_, err := dubbo.Register(testbed.Context(t), client, good, dubbo.WithGroup("."))
	require.ErrorIs(t, err, framework.ErrBadPath)
}

// The mapping is shared with all providers of an interface, in any language.
func TestTheMappingIsChangedByCompareAndSet(t *testing.T) {
	// Virtual time: a Close may take no longer than 5 s.
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		require.NoError(t, w.Server.Create("/dubbo/mapping/shop.Orders", []byte("java-a, java-b")))
		client := w.Client()
		var wg sync.WaitGroup
		all := make([]*dubbo.Registration, 10)
		for n := range all {
			a := app(n+1, "shop.Orders", "shop.Stock")
			a.Name = "go-" + string(rune('0'+n))
			wg.Go(func() { all[n] = register(t, client, a) })
		}
		wg.Wait()
		require.Len(t, strings.Split(testbed.ServerData(t, w.Server, "/dubbo/mapping/shop.Orders"), ","), 12)
		for _, r := range all {
			wg.Go(func() { assert.NoError(t, r.Close()) })
		}
		wg.Wait()
		require.Equal(t, "java-a,java-b", testbed.ServerData(t, w.Server, "/dubbo/mapping/shop.Orders"))
		require.False(t, w.Server.Exists("/dubbo/mapping/shop.Stock"), "no application has it")
	})
}

func TestClose_DeletesWhatNoInstanceUses(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	one, same := register(t, client, app(1, "a.B", "a.C")), app(1, "a.B", "a.C")
	same.Host = "127.0.0.2"
	two := register(t, client, same)
	other := register(t, client, app(2, "a.C"))
	require.Equal(t, one.Revision(), two.Revision())
	require.NotEqual(t, one.Revision(), other.Revision())
	paths := []string{"/dubbo/metadata/orders/" + one.Revision(), "/dubbo/orders/" + one.Revision(), "/dubbo/mapping/a.B"}
	created := map[string]int64{} // a node that is deleted is created again by the other process
	for _, path := range paths {
		created[path] = testbed.ServerStat(t, server, path).Czxid
	}
	require.NoError(t, one.Close())
	require.False(t, server.Exists(one.Path()))
	for _, path := range paths {
		require.Equal(t, created[path], testbed.ServerStat(t, server, path).Czxid, "%s is used by another process", path)
	}
	require.NoError(t, two.Drain(testbed.Context(t), 0))
	for _, path := range paths {
		require.False(t, server.Exists(path), path)
	}
	require.Equal(t, "orders", testbed.ServerData(t, server, "/dubbo/mapping/a.C"), "the other revision has it")
	require.NoError(t, other.Close())
	require.NoError(t, other.Close())
	for _, path := range []string{"/dubbo/metadata/orders", "/dubbo/orders", "/dubbo/mapping/a.C"} {
		require.False(t, server.Exists(path), path)
	}
	require.ErrorIs(t, other.Err(), framework.ErrEnded)
}

func TestClose_DeletesWhatACrashedProcessHasLeft(t *testing.T) {
	server := zktest.NewServer(t)
	crashing, client := newClient(t, server), newClient(t, server)
	crashed := register(t, crashing, app(1, "a.B"))
	require.NoError(t, crashing.Close()) // the session ends, and no node is deleted
	require.False(t, server.Exists(crashed.Path()))
	paths := []string{"/dubbo/metadata/orders/" + crashed.Revision(), "/dubbo/orders/" + crashed.Revision(), "/dubbo/mapping/a.B"}
	require.NoError(t, register(t, client, app(1, "a.C")).Close())
	for _, path := range paths {
		require.True(t, server.Exists(path), "%s: the other services have another revision", path)
	}
	require.NoError(t, register(t, client, app(1, "a.B")).Close())
	for _, path := range paths {
		require.False(t, server.Exists(path), path)
	}
}

// A provider in Java keeps its metadata in its own process.
func TestClose_KeepsTheMappingOfAProviderWhoseServicesAreUnknown(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	d := testbed.Must(discovery.New[discovery.Metadata](client, "/services"))
	_, err := d.Write(testbed.Context(t), discovery.Dubbo("orders", "127.0.0.1", 3, map[string]string{
		"dubbo.metadata.revision": "java", "dubbo.metadata.storage-type": "local",
	}))
	require.NoError(t, err)
	require.NoError(t, register(t, client, app(1, "a.B")).Close())
	require.Equal(t, "orders", testbed.ServerData(t, server, "/dubbo/mapping/a.B"))
}

func TestAllNodesAreKept(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		r := register(t, w.Client(), app(1, "a.B"))
		paths := []string{"/dubbo/metadata/orders/" + r.Revision(), "/dubbo/orders/" + r.Revision(), "/dubbo/mapping/a.B", r.Path()}
		for _, path := range paths {
			require.NoError(t, w.Server.Delete(path))
		}
		time.Sleep(time.Second) // virtual time, in which they are created again
		for _, path := range paths {
			require.True(t, w.Server.Exists(path), path)
		}
		require.NoError(t, r.Problem())

		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		synctest.Wait() // the loss is noticed
		require.Error(t, r.Problem())
		for _, path := range paths[:3] {
			require.NoError(t, w.Server.Delete(path))
		}
		time.Sleep(5 * time.Minute) // virtual time: the session expires
		require.False(t, w.Server.Exists(r.Path()))
		w.Server.RefuseConnections(false)
		time.Sleep(time.Minute) // virtual time, in which the client connects
		for _, path := range paths {
			require.True(t, w.Server.Exists(path), path)
		}
		require.NoError(t, r.Problem())
		require.NoError(t, w.Server.Set("/dubbo/mapping/a.B", []byte("java")))
		time.Sleep(time.Second) // virtual time, in which the mapping is written again
		require.Equal(t, "java,orders", testbed.ServerData(t, w.Server, "/dubbo/mapping/a.B"))
	})
}

// Every request fails in turn. After an error of Register, no node of it is left.
func TestRegister_SurvivesEveryFault(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		r := register(t, s.Subject, app(1, "a.B"))
		require.Equal(t, "orders", testbed.ServerData(t, s.Server, "/dubbo/mapping/a.B"))
		require.NoError(t, r.Close())
		for _, path := range []string{r.Path(), "/dubbo/mapping/a.B", "/dubbo/metadata/orders/" + r.Revision()} {
			require.False(t, s.Server.Exists(path), path)
		}
	})
}

func TestRegister_ThatFailsLeavesNoNode(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/services/orders/plain", []byte(`{"address":"h","port":1}`)))
	_, err := dubbo.Register(testbed.Context(t), newClient(t, server), app(1, "a.B"))
	require.ErrorIs(t, err, discovery.ErrOtherProfile)
	for _, path := range []string{"/dubbo/mapping/a.B", "/dubbo/metadata/orders", "/dubbo/orders"} {
		require.False(t, server.Exists(path), path)
	}
}

// Dubbo's consumers in a group have the instances at /<group>/<application>, and the rest below
// /<group>, too. Those in Java do not start if a child there is no instance.
func TestWithGroup(t *testing.T) {
	for _, group := range []string{"abc", "dubbo"} {
		t.Run(group, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := newClient(t, server)
			first := register(t, client, app(1, "a.B"), dubbo.WithGroup(group))
			r := register(t, client, app(50051, "a.B"), dubbo.WithGroup(group))
			require.Equal(t, "/"+group+"/orders/127.0.0.1:50051", r.Path())
			require.Equal(t, "orders", testbed.ServerData(t, server, "/"+group+"/mapping/a.B"))
			require.True(t, server.Exists("/"+group+"/metadata/orders/"+r.Revision()))
			d := testbed.Must(discovery.New[discovery.Metadata](client, "/"+group))
			list := testbed.Must(d.Lookup(testbed.Context(t), "orders"))
			require.Len(t, list, 4)
			for _, i := range list {
				require.Equal(t, discovery.Dubbo("", "h", 1, nil).PayloadClass, i.PayloadClass)
				require.NotZero(t, i.Port)
				offers := i.Payload.Metadata["dubbo.metadata.revision"] != "0"
				require.Equal(t, strings.Contains(i.ID, ":"), offers)
				require.Equal(t, offers, !i.Disabled)
			}
			require.NoError(t, first.Close())
			require.True(t, server.Exists(r.Path()))
			require.NoError(t, r.Close())
			for _, path := range []string{"/orders", "/metadata/orders", "/mapping/a.B"} {
				children, err := server.Children("/" + group + path)
				require.True(t, err != nil || len(children) == 0, "%s %v", path, children)
			}
		})
	}
}

// A consumer with group=dubbo reads the children of this node as instances.
func TestRegister_WritesOnlyInstancesBelowTheApplication(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	r := register(t, client, app(1, "a.B"))
	d := testbed.Must(discovery.New[discovery.Metadata](client, "/dubbo"))
	list := testbed.Must(d.Lookup(testbed.Context(t), "orders"))
	require.Len(t, list, 1)
	require.Equal(t, r.Revision(), list[0].ID)
	require.Equal(t, 1, list[0].Port)
	require.Equal(t, map[string]string{"dubbo.metadata.revision": "0"}, list[0].Payload.Metadata, "it offers nothing")
}

// A service that crashes again and again on random ports has another revision each time.
func TestRegister_DeletesTheRevisionsOfCrashedProcesses(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		java := "/dubbo/metadata/orders/java"
		require.NoError(t, w.Server.Create(java, []byte(`{"app":"orders","revision":"java","services":{}}`)))
		lives := register(t, w.Client(), app(9, "a.B"))
		for port := 1000; port < 1010; port++ {
			crashes := w.Client()
			register(t, crashes, app(port, "a.B"))
			require.NoError(t, crashes.Close())
		}
		revisions := func(dir string) []string { return testbed.ServerChildren(t, w.Server, dir) }
		require.Len(t, revisions("/dubbo/orders"), 11, "they may be of processes that are about to register")
		time.Sleep(time.Minute) // virtual time: the age from which a revision counts as unused
		r := register(t, w.Client(), app(1, "a.B"))
		synctest.Wait() // the deletions in the background are done
		require.ElementsMatch(t, []string{lives.Revision(), r.Revision()}, revisions("/dubbo/orders"))
		require.ElementsMatch(t, []string{lives.Revision(), r.Revision(), "java"}, revisions("/dubbo/metadata/orders"))
	})
}
