package discovery_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestProfilesWriteWhatSpringAndDubboRead(t *testing.T) {
	server := zktest.NewServer(t)
	d := newDiscovery[discovery.Metadata](t, newClient(t, server))
	spring := discovery.Spring("orders", "10.0.0.1", 8080, map[string]string{"zone": "a"})
	spring.ID, spring.RegistrationTime = "id-1", time.UnixMilli(1700000000000)
	dubbo := discovery.Dubbo("stock", "10.0.0.2", 20880, map[string]string{"dubbo.metadata.revision": "0"})
	dubbo.RegistrationTime = time.UnixMilli(1700000000000)
	for path, want := range map[string]string{
		register(t, d, spring).Path(): `{"name":"orders","id":"id-1","address":"10.0.0.1","port":8080,"sslPort":null,` +
			`"payload":{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"orders","name":"orders","metadata":{"instance_status":"UP","zone":"a"}},` +
			`"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},` +
			`{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}`,
		register(t, d, dubbo).Path(): `{"name":"stock","id":"10.0.0.2:20880","address":"10.0.0.2","port":20880,"sslPort":null,` +
			`"payload":{"@class":"org.apache.dubbo.registry.zookeeper.ZookeeperInstance","id":"10.0.0.2:20880","name":"stock","metadata":{"dubbo.metadata.revision":"0"}},` +
			`"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null}`,
	} {
		require.Equal(t, want, testbed.ServerData(t, server, path))
	}
	require.Equal(t, map[string]string{"instance_status": "DOWN"},
		discovery.Spring("a", "h", 1, map[string]string{"instance_status": "DOWN"}).Payload.Metadata)
	require.Equal(t, "http://h:1", discovery.Spring("a", "h", 1, nil).URI(nil))
}

// TestWhatSpringDoesNotCallIsDisabled: an operator takes an instance out of service, and programs
// in Go continued to call it.
func TestWhatSpringDoesNotCallIsDisabled(t *testing.T) {
	ctx := testbed.Context(t)
	client := newClient(t, zktest.NewServer(t))
	r := register(t, newDiscovery[discovery.Metadata](t, client), discovery.Spring("orders", "h", 1, nil))
	d := newDiscovery[map[string]any](t, client) // whatever a program reads payloads into
	w := watch(t, d, "orders")
	for status, disabled := range map[string]bool{"OUT_OF_SERVICE": true, "DOWN": true, "up": false, "UP": false, " ": false, "": false} {
		i := r.Instance()
		i.Payload.Metadata = map[string]string{"instance_status": status, "zone": "a"}
		require.NoError(t, r.Update(ctx, i))
		require.Equal(t, disabled, lookup(t, d, "orders")[0].Disabled, status)
		shows(t, w, func(list []discovery.Instance[map[string]any]) bool {
			return list[0].Payload["metadata"].(map[string]any)["instance_status"] == status
		})
		if _, err := w.Pick(discovery.RoundRobin); disabled {
			require.ErrorIs(t, err, discovery.ErrNoInstance, status)
		} else {
			require.NoError(t, err, status)
		}
	}
	other := discovery.Instance[discovery.Metadata]{Name: "other", Address: "h", Port: 1}
	// of another class, it may mean anything
	other.Payload.Metadata = map[string]string{"instance_status": "DOWN"}
	register(t, newDiscovery[discovery.Metadata](t, client), other)
	require.False(t, lookup(t, d, "other")[0].Disabled)
}

// The field "enabled" is of Curator, the status of Spring: Java's Curator would leave the copy out
// for ever.
func TestAStatusOfSpringIsNotWrittenAsDisabled(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	d := newDiscovery[discovery.Metadata](t, newClient(t, server), discovery.WithEnabledField())
	down := discovery.Spring("orders", "h", 1, map[string]string{"instance_status": "DOWN"})
	read, found, err := d.Get(ctx, "orders", register(t, d, down).Instance().ID)
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, read.Disabled)
	for status, want := range map[string]string{"DOWN": `"enabled":true`, "UP": `"enabled":false`} {
		read.ID, read.Payload.Metadata = status, map[string]string{"instance_status": status}
		require.Contains(t, testbed.ServerData(t, server, register(t, d, read).Path()), want, "only what Disabled alone says")
	}
}

// One instance of another class makes Spring throw for all instances of the service, and stops
// Dubbo's consumers.
func TestRegister_RefusesAnInstanceOfAnotherProfile(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	d := newDiscovery[any](t, newClient(t, server))
	node := func(class string) []byte {
		return []byte(`{"address":"h","port":1,"payload":{"@class":"` + class + `","metadata":{}}}`)
	}
	classes := map[string]string{"spring": springClass, "dubbo": "org.apache.dubbo.registry.zookeeper.ZookeeperInstance", "plain": "com.example.C"}
	for name, class := range classes {
		require.NoError(t, server.Create("/services/"+name+"/0 empty", nil))
		require.NoError(t, server.Create("/services/"+name+"/1 unreadable", []byte("text")))
		require.NoError(t, server.Create("/services/"+name+"/there", node(class)))
		for other, class := range classes {
			i := discovery.Instance[any]{Name: name, Address: "h", Port: 1, PayloadClass: class, Payload: map[string]any{"metadata": nil}}
			for _, write := range []func() error{
				func() error { _, err := d.Write(ctx, i); return err },
				func() error {
					r, err := d.Register(ctx, i)
					if err == nil {
						err = r.Close()
					}
					return err
				},
			} {
				if other == name {
					require.NoError(t, write())
				} else {
					require.ErrorIs(t, write(), discovery.ErrOtherProfile, "%s beside %s", other, name)
				}
			}
		}
	}
	for _, payload := range []any{nil, "text", map[string]string{"a": "b"}} {
		for _, name := range []string{"spring", "dubbo"} {
			_, err := d.Register(ctx, discovery.Instance[any]{Name: name, Address: "h", Port: 1, Payload: payload})
			require.ErrorIs(t, err, discovery.ErrOtherProfile)
		}
	}
	alone := discovery.Instance[any]{Name: "alone", ID: "1", Address: "h", Port: 1}
	require.NoError(t, testbed.Err(d.Write(ctx, alone)))
	alone.PayloadClass, alone.Payload = springClass, map[string]any{}
	require.NoError(t, testbed.Err(d.Write(ctx, alone)), "the only other one is replaced")
}

// A client that may write but not read can register a plain instance.
func TestRegister_WithoutThePermissionToReadTheService(t *testing.T) {
	ctx := testbed.Context(t)
	client := newClient(t, zktest.NewServer(t))
	testbed.Create(t, client, "/services/orders", nil, framework.PersistentParents(),
		framework.ACL([]zk.ACL{{Perms: zk.PermCreate | zk.PermDelete | zk.PermWrite, Scheme: "world", ID: "anyone"}}))
	register(t, newDiscovery[string](t, client), at("orders", "1"))
	_, err := newDiscovery[discovery.Metadata](t, client).Register(ctx, discovery.Spring("orders", "h", 1, nil))
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

func TestRegister_RefusesWhatJavaCallersFailOn(t *testing.T) {
	ctx := testbed.Context(t)
	d := newDiscovery[discovery.Metadata](t, newClient(t, zktest.NewServer(t)))
	spring := func(host string, change func(i *discovery.Instance[discovery.Metadata])) discovery.Instance[discovery.Metadata] {
		i := discovery.Spring("orders", host, 1, nil)
		change(&i)
		return i
	}
	none := func(*discovery.Instance[discovery.Metadata]) {}
	revision := map[string]string{"dubbo.metadata.revision": "1"}
	for reason, i := range map[string]discovery.Instance[discovery.Metadata]{
		"a space":                spring("my host", none),
		"an underscore":          spring("my_host", none),
		"two dots":               spring("a..b", none),
		"a port":                 spring("h:8080", none),
		"a URI":                  spring("http://h", none),
		"a zone of this machine": spring("fe80::1%eth0", none),
		"a zone":                 spring("h", func(i *discovery.Instance[discovery.Metadata]) { i.Address = "fe80::1%eth0" }),
		"a tag": spring("h", func(i *discovery.Instance[discovery.Metadata]) {
			i.URISpec = &discovery.URISpec{Parts: []discovery.URIPart{{Value: "http://h/<a>"}}}
		}),
		"no port":                         spring("h", func(i *discovery.Instance[discovery.Metadata]) { i.Port = 0 }),
		"Dubbo: no port":                  discovery.Dubbo("stock", "h", 0, nil),
		"Dubbo: no place of the metadata": discovery.Dubbo("stock", "h", 1, revision),
	} {
		require.ErrorIs(t, testbed.Err(d.Register(ctx, i)), framework.ErrBadArgument, reason)
		require.ErrorIs(t, testbed.Err(d.Write(ctx, i)), framework.ErrBadArgument, reason)
	}
	r := register(t, d, spring("h", none))
	require.ErrorIs(t, r.Update(ctx, spring("h", func(i *discovery.Instance[discovery.Metadata]) {
		i.ID, i.Port = r.Instance().ID, 0
	})), framework.ErrBadArgument)
	for _, i := range []discovery.Instance[discovery.Metadata]{
		spring("::1", none), spring("[::1]", none),
		spring("h", func(i *discovery.Instance[discovery.Metadata]) { i.Port, i.SSLPort = 0, 443 }),
		spring("h", func(i *discovery.Instance[discovery.Metadata]) { i.URISpec = nil }),
		discovery.Dubbo("stock", "my_host", 1, nil), discovery.Dubbo("stock", "h", 2, map[string]string{"dubbo.metadata.revision": "0"}),
		discovery.Dubbo("stock", "h", 3, map[string]string{"dubbo.metadata.revision": "1", "dubbo.metadata.storage-type": "remote"}),
	} {
		register(t, d, i)
	}
	require.Equal(t, "[::1]", discovery.Spring("a", "::1", 1, nil).Address)
	require.Equal(t, "fd00::7:20880", discovery.Dubbo("a", "[fd00::7]", 20880, nil).ID, "as Dubbo writes it")
}

// What another program has registered is read, and logged.
func TestAnInstanceOnWhichJavaCallersFailIsLogged(t *testing.T) {
	server := zktest.NewServer(t)
	good := `{"address":"h","port":1,"payload":{"@class":"` + springClass + `","metadata":{}}}`
	require.NoError(t, server.Create("/services/orders/1", []byte(good)))
	require.NoError(t, server.Create("/services/orders/2", []byte(strings.Replace(good, `"port":1,`, "", 1))))
	require.NoError(t, server.Create("/services/orders/3", []byte(`{"address":"h","port":1}`)))
	for name, read := range map[string]func(d *discovery.Discovery[any]) []discovery.Instance[any]{
		"lookup": func(d *discovery.Discovery[any]) []discovery.Instance[any] { return lookup(t, d, "orders") },
		"watch":  func(d *discovery.Discovery[any]) []discovery.Instance[any] { return watch(t, d, "orders").Instances() },
	} {
		log := new(testbed.Output)
		logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		d := newDiscovery[any](t, newClient(t, server, framework.WithLogger(logger)))
		require.Len(t, read(d), 3, name)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 2, "%s: %q", name, lines)
		require.Contains(t, log.String(), "/services/orders/2 error=\"a Spring instance requires a port", name)
		require.Contains(t, log.String(), "service has instances of another profile", name)
	}
}
