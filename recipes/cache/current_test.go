package cache_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// TestACacheIsNotCurrentWhileEventsWait blocks the cache in OnChange, with an event behind.
func TestACacheIsNotCurrentWhileEventsWait(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
			for _, path := range []string{"/r", "/r/a", "/r/b"} {
				require.NoError(t, server.Create(path, nil))
			}
			block, unblock := context.WithCancel(t.Context()) // also if the test fails
			defer unblock()
			c := load(t, mode.of(client()), "/r", cache.OnChange(func(ch cache.Change) {
				if ch.Kind == cache.Deleted {
					<-block.Done()
				}
			}))
			require.NoError(t, server.Delete("/r/a"))
			synctest.Wait()
			require.NoError(t, server.Set("/r/b", []byte("new")))
			synctest.Wait()
			ok, changed := c.Current()
			require.False(t, ok, "the server has reported a change of /r/b")
			unblock()
			for !ok {
				testbed.Receive(t, changed, "a change")
				ok, changed = c.Current()
			}
			n, _ := c.Get("/r/b")
			require.Equal(t, "new", string(n.Data))
		})
	})
}
