package discovery_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// The nodes are like the ones of Finagle's serversets, of nerve's reporter for ZooKeeper and of the
// registrar of go-kit's sd/zk. go-kit also creates an empty node with the name of the service.
var foreign = map[discovery.Format]map[string]string{
	discovery.Serverset: {
		"member_0000000001": `{"serviceEndpoint":{"host":"10.0.0.1","port":31001},"additionalEndpoints":{"admin":{"host":"10.0.0.1","port":31002}},"status":"ALIVE","shard":1}`,
		"member_0000000002": `{"status":"STOPPING","additionalEndpoints":{},"serviceEndpoint":{"host":"10.0.0.2","port":31001}}`,
		"member_0000000003": `{"additionalEndpoints":{},"status":"ALIVE"}`,
		"member_0000000004": `{"serviceEndpoint":{"host":"10.0.0.4","port":0},"status":"ALIVE"}`,
		"member_0000000005": `10.0.0.5:80`,
	},
	discovery.Nerve: {
		"i-1_0000000001": `{"host":"10.0.0.1","port":31001,"name":"i-1","weight":2}`,
		"i-2_0000000002": `{"host":"10.0.0.2","port":"31001"}`,
		"i-3_0000000003": `["10.0.0.3",31001]`,
		"i-4_0000000004": `{"host":"http://10.0.0.4","port":31001,"name":"i-4"}`,
		"i-5_0000000005": `{"host":"10.0.0.5","port":70000,"name":"i-5"}`,
	},
	discovery.HostPort: {
		"_c_5a-orders0000000001": "10.0.0.1:31001\n",
		"_c_5b-orders0000000002": "[::1]:31001",
		"_c_5c-orders0000000003": "http://10.0.0.3:31001",
		"_c_5d-orders0000000004": "10.0.0.4",
		"_c_5e-orders0000000005": `{"host":"10.0.0.5","port":31001}`,
		"_c_5f-orders0000000006": ":31001",
		"_c_60-orders0000000007": "10.0.0.7:http",
		"orders":                 "",
	},
}

func TestWithFormat(t *testing.T) {
	want := map[discovery.Format]map[string]string{ // what can be called, by id
		discovery.Serverset: {"member_0000000001": "10.0.0.1:31001", "member_0000000002": "10.0.0.2:31001"},
		discovery.Nerve:     {"i-1": "10.0.0.1:31001", "i-2_0000000002": "10.0.0.2:31001"},
		discovery.HostPort:  {"_c_5a-orders0000000001": "10.0.0.1:31001", "_c_5b-orders0000000002": "[::1]:31001"},
	}
	for format, nodes := range foreign {
		t.Run(format.String(), func(t *testing.T) {
			server := zktest.NewServer(t)
			for name, data := range nodes {
				require.NoError(t, server.Create("/services/a/b/orders/"+name, []byte(data)))
			}
			skipped := map[string]bool{}
			d := newDiscovery[map[string]any](t, newClient(t, server), discovery.WithFormat(format),
				discovery.WithUnreadable(func(path string, err error) {
					require.ErrorContains(t, err, format.String())
					skipped[path] = true
				}))
			list := lookup(t, d, "a/b/orders")
			require.Len(t, skipped, len(nodes)-2-map[bool]int{true: 1}[format == discovery.HostPort])
			w := watch(t, d, "a/b/orders")
			require.Equal(t, list, w.Instances())
			got := map[string]string{}
			for _, i := range list {
				got[i.ID] = i.Addr(i.Port)
				require.Equal(t, i.ID == "member_0000000002", i.Disabled)
				require.Equal(t, format == discovery.HostPort, i.Payload == nil)
				require.Equal(t, "a/b/orders", i.Name)
			}
			require.Equal(t, want[format], got)

			_, err := d.Register(testbed.Context(t), discovery.Instance[map[string]any]{Name: "orders", Address: "h", Port: 1})
			require.ErrorIs(t, err, framework.ErrBadArgument)
			_, err = d.Write(testbed.Context(t), discovery.Instance[map[string]any]{Name: "orders", Address: "h", Port: 1})
			require.ErrorIs(t, err, framework.ErrBadArgument)
			require.False(t, server.Exists("/services/orders"))
			again, err := discovery.ParseFormat(format.String())
			require.NoError(t, err)
			require.Equal(t, format, again)
		})
	}
	require.ErrorIs(t, testbed.Err(discovery.ParseFormat("consul")), framework.ErrBadArgument)
	_, err := discovery.New[string](newClient(t, zktest.NewServer(t)), "/services", discovery.WithFormat(17))
	require.ErrorIs(t, err, framework.ErrBadArgument)
}
