package discovery_test

import (
	"context"
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
		t.Run(data, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				require.NoError(t, w.Server.Create("/services/orders/other", []byte(data)))
				var skipped []string
				d := newDiscovery[string](t, w.Client(framework.WithCompression()), discovery.WithUnreadable(func(path string, err error) {
					require.ErrorIs(t, err, framework.ErrNotCompressed)
					skipped = append(skipped, path)
				}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, err := d.Register(ctx, at("orders", "1"))
				require.NoError(t, err)
				defer r.Close()
				list, err := d.Lookup(ctx, "orders")
				require.NoError(t, err)
				require.Equal(t, []string{"1"}, ids(list))
				if data == "" {
					require.Empty(t, skipped)
				} else {
					require.Equal(t, []string{"/services/orders/other"}, skipped)
				}
				_, found, err := d.Get(ctx, "orders", "other")
				require.False(t, found)
				require.Equal(t, data != "", err != nil)
				watch, err := d.Watch(ctx, "orders")
				require.NoError(t, err)
				defer watch.Close()
				require.Equal(t, []string{"1"}, ids(watch.Instances()))
				require.NoError(t, r.Drain(ctx, 0))
				synctest.Wait() // the watch has the deletion and the goodbye
				_, err = watch.Pick(discovery.RoundRobin)
				require.ErrorIs(t, err, discovery.ErrNoInstance)
			})
		})
	}
}
