package discovery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
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
		data, err := server.Get(path)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	require.Equal(t, map[string]string{"instance_status": "DOWN"},
		discovery.Spring("a", "h", 1, map[string]string{"instance_status": "DOWN"}).Payload.Metadata)
	require.Equal(t, "http://h:1", discovery.Spring("a", "h", 1, nil).URI(nil))
}

func TestTwoProfilesUnderOneNameAreRefused(t *testing.T) {
	ctx := testbed.Context(t)
	server := zktest.NewServer(t)
	d := newDiscovery[discovery.Metadata](t, newClient(t, server))
	register(t, d, discovery.Spring("orders", "h", 1, nil))
	register(t, d, discovery.Spring("orders", "h", 2, nil))
	_, err := d.Register(ctx, discovery.Dubbo("orders", "h", 3, nil))
	require.ErrorIs(t, err, discovery.ErrOtherProfile)
	register(t, d, discovery.Dubbo("other", "h", 3, nil))
	_, err = d.Register(ctx, discovery.Spring("other", "h", 0, nil))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	register(t, d, discovery.Instance[discovery.Metadata]{Name: "other", Address: "h"})

	r := register(t, d, discovery.Spring("third", "h", 1, nil)) // Spring's reader fails without a port
	i := r.Instance()
	i.Port = 0
	require.ErrorIs(t, r.Update(ctx, i), framework.ErrBadArgument)
}

// TestWhatSpringDoesNotCallIsDisabled: an operator takes an instance out of service, and programs in Go went on to call it.
func TestWhatSpringDoesNotCallIsDisabled(t *testing.T) {
	ctx := testbed.Context(t)
	client := newClient(t, zktest.NewServer(t))
	r := register(t, newDiscovery[discovery.Metadata](t, client), discovery.Spring("orders", "h", 1, nil))
	d := newDiscovery[map[string]any](t, client) // whatever a program reads payloads into
	w, err := d.Watch(ctx, "orders")
	require.NoError(t, err)
	defer w.Close()
	for status, disabled := range map[string]bool{"OUT_OF_SERVICE": true, "DOWN": true, "up": false, "UP": false, " ": false, "": false} {
		i := r.Instance()
		i.Payload.Metadata = map[string]string{"instance_status": status, "zone": "a"}
		require.NoError(t, r.Update(ctx, i))
		list, err := d.Lookup(ctx, "orders")
		require.NoError(t, err)
		require.Equal(t, disabled, list[0].Disabled, status)
		for list := range w.Changes(ctx) {
			if list[0].Payload["metadata"].(map[string]any)["instance_status"] == status {
				break
			}
		}
		if _, err = w.Pick(discovery.RoundRobin); disabled {
			require.ErrorIs(t, err, discovery.ErrNoInstance, status)
		} else {
			require.NoError(t, err, status)
		}
	}
	other := discovery.Instance[discovery.Metadata]{Name: "other", Address: "h", Port: 1}
	other.Payload.Metadata = map[string]string{"instance_status": "DOWN"} // of another class, it may mean anything
	register(t, newDiscovery[discovery.Metadata](t, client), other)
	list, err := d.Lookup(ctx, "other")
	require.NoError(t, err)
	require.False(t, list[0].Disabled)
}

// The field "enabled" is of Curator, the status of Spring: Java's Curator would leave the copy out for ever.
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
		data, err := server.Get(register(t, d, read).Path())
		require.NoError(t, err)
		require.Contains(t, string(data), want, "only what Disabled alone says")
	}
}
