package discovery_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
)

// nodes.txt has nodes that Spring Cloud ZooKeeper, Dubbo and dubbo-go wrote, with their versions.
func TestNodesOfSpringAndDubbo(t *testing.T) {
	for writer, node := range testdata(t, "nodes.txt", "\t") {
		t.Run(writer, func(t *testing.T) {
			i, err := discovery.Decode[discovery.Metadata]([]byte(node))
			require.NoError(t, err)
			require.Contains(t, i.PayloadClass, "ZookeeperInstance")
			require.NotEmpty(t, i.Payload.ID)
			require.NotEmpty(t, i.Payload.Metadata)
			require.NotEmpty(t, i.Addr(i.Port))
			if strings.Contains(writer, "ubbo-3") {
				require.NotZero(t, i.PortOf("tri"))
			}
			again, err := discovery.Encode(i)
			switch {
			case strings.HasPrefix(writer, "uri-ssl"):
				require.ErrorContains(t, err, "java.net.URI rejects", "its URI has a '<'")
				require.True(t, i.Disabled, "its status is DOWN")
				require.True(t, i.Secure())
			case strings.HasPrefix(writer, "dubbo-go"): // leaves null fields out
				require.NoError(t, err)
			default:
				require.NoError(t, err)
				require.JSONEq(t, node, string(again))
			}
		})
	}
}
