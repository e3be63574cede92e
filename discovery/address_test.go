package discovery_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
)

func TestAddr(t *testing.T) {
	for address, want := range map[string]string{
		"h": "h:80", "10.0.0.1": "10.0.0.1:80", "::1": "[::1]:80", "[::1]": "[::1]:80", "fe80::1%eth0": "[fe80::1%eth0]:80", "": "", "[h": "[h:80",
	} {
		require.Equal(t, want, discovery.Instance[any]{Address: address}.Addr(80), address)
	}
	require.Empty(t, discovery.Instance[any]{Address: "h"}.Addr(0))
}

func TestURI_HasBracketsAroundAnIPv6Address(t *testing.T) {
	spec, err := discovery.ParseURISpec("{scheme}://{address}:{port}")
	require.NoError(t, err)
	for address, want := range map[string]string{
		"h": "http://h:80", "::1": "http://[::1]:80", "[::1]": "http://[::1]:80", "fe80::1%eth0": "http://[fe80::1%25eth0]:80",
	} {
		require.Equal(t, want, discovery.Instance[any]{Address: address, Port: 80, URISpec: spec}.URI(nil))
	}
	require.Equal(t, "http://::2:80", discovery.Instance[any]{Address: "::1", Port: 80, URISpec: spec}.URI(map[string]string{"address": "::2"}),
		"a value of the caller's")
}

func TestSecure_AsSpringDoes(t *testing.T) {
	spring := discovery.Spring("a", "h", 80, nil)
	require.False(t, spring.Secure())
	spring.SSLPort = 443
	require.True(t, spring.Secure())
	plain := discovery.Instance[any]{Port: 80, SSLPort: 443}
	require.False(t, plain.Secure())
	plain.Port = 0
	require.True(t, plain.Secure())
}

func TestPortOf(t *testing.T) {
	node := func(class, endpoints string) string {
		return `{"port":1,"payload":{"@class":"` + class + `","metadata":{"n":1,"dubbo.endpoints":` + endpoints + `}}}`
	}
	const dubbo = "org.apache.dubbo.registry.zookeeper.ZookeeperInstance"
	for data, want := range map[string]int{
		node(dubbo, `"[{\"port\":1,\"protocol\":\"dubbo\"},{\"port\":2,\"protocol\":\"tri\"}]"`): 2,
		node(dubbo, `"[{\"port\":\"2\",\"protocol\":\"tri\"}]"`):                                 2,
		node(dubbo, `"[{\"port\":1,\"protocol\":\"dubbo\"}]"`):                                   0,
		node(dubbo, `"[{\"port\":-1,\"protocol\":\"tri\"}]"`):                                    0,
		node(dubbo, `"not JSON"`):                                                                1,
		node(dubbo, `null`):                                                                      1,
		node("com.example.C", `"[{\"port\":2,\"protocol\":\"tri\"}]"`):                           1,
		`{"port":1}`: 1,
	} {
		i, err := discovery.Decode[any]([]byte(data))
		require.NoError(t, err, data)
		require.Equal(t, want, i.PortOf("tri"), data)
	}
}
