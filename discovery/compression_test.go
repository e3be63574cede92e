package discovery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
)

// A node that a compressing client cannot read is skipped, as any unreadable one, and a node
// without data is no instance.
func TestPlainNodesOnACompressingClient(t *testing.T) {
	for _, data := range []string{"x", `{"address":"h","port":1}`, ""} {
		testbed.RunWorld(t, data, func(t *testing.T, w *testbed.World) {
			require.NoError(t, w.Server.Create("/services/orders/other", []byte(data)))
			var skipped []string
			d := newDiscovery[string](t, w.Client(framework.WithCompression()), discovery.WithUnreadable(func(path string, err error) {
				require.ErrorIs(t, err, framework.ErrNotCompressed)
				skipped = append(skipped, path)
			}))
			ctx := testbed.Timeout(t, time.Minute)
			r := register(t, d, at("orders", "1"))
			defer r.Close()
			list := lookup(t, d, "orders")
			require.Equal(t, []string{"1"}, ids(list))
			if data == "" {
				require.Empty(t, skipped)
			} else {
				require.Equal(t, []string{"/services/orders/other"}, skipped)
			}
			_, found, err := d.Get(ctx, "orders", "other")
			require.False(t, found)
			require.Equal(t, data != "", err != nil)
			watch := watch(t, d, "orders")
			require.Equal(t, []string{"1"}, ids(watch.Instances()))
			require.NoError(t, r.Drain(ctx, 0))
			synctest.Wait() // the watch has the deletion and the goodbye
			require.ErrorIs(t, testbed.Err(watch.Pick(discovery.RoundRobin)), discovery.ErrNoInstance)
		})
	}
}
