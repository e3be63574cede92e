package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// blocking returns a cache of /r that blocks in WithOnChange at a deletion, until unblock is called
// or the test fails.
func blocking(t *testing.T, client *framework.Client, opts ...cache.Option) (c *cache.Cache, unblock func()) {
	blocked, unblock := context.WithCancel(t.Context())
	return load(t, client, "/r", append(opts, cache.WithOnChange(func(ch cache.Change) {
		if ch.Kind == cache.Deleted {
			<-blocked.Done()
		}
	}))...), unblock
}

// TestACacheIsNotCurrentWhileEventsWait blocks the cache in WithOnChange, with an event behind.
func TestACacheIsNotCurrentWhileEventsWait(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		client := w.Client()
		create(t, client, "/r", "/r/a", "/r/b")
		c, unblock := blocking(t, mode.of(client))
		require.NoError(t, w.Server.Delete("/r/a"))
		synctest.Wait()
		require.NoError(t, w.Server.Set("/r/b", []byte("new")))
		synctest.Wait()
		require.False(t, isCurrent(c), "the server has reported a change of /r/b")
		unblock()
		current(t, c)
		require.Equal(t, "new", data(c, "/r/b"))
	})
}

// current waits until the cache is current.
func current(t *testing.T, c *cache.Cache) {
	t.Helper()
	for ok, changed := c.Current(); !ok; ok, changed = c.Current() {
		testbed.Receive(t, changed, "a change")
	}
}

// TestACacheIsNotCurrentBetweenTwoEvents blocks the cache in WithOnChange, and then in the filter,
// with the second event behind the first. Nothing is to be read for the first.
func TestACacheIsNotCurrentBetweenTwoEvents(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		client := w.Client()
		create(t, client, "/r", "/r/a")
		second, unblock := context.WithCancel(t.Context())
		defer unblock() // in a test that fails, too
		c, goOn := blocking(t, mode.of(client), cache.WithFilter(func(path string) bool {
			if path == "/r/new" {
				<-second.Done()
			}
			return true
		}))
		require.NoError(t, w.Server.Delete("/r/a"))
		synctest.Wait()
		require.NoError(t, w.Server.Create("/r/new", nil))
		synctest.Wait()
		goOn()
		synctest.Wait()
		require.False(t, has(c, "/r/new"))
		require.False(t, isCurrent(c), "the server has reported /r/new")
		unblock()
		current(t, c)
		require.True(t, has(c, "/r/new"))
	})
}

// TestACacheIsNotCurrentFromAnEventOn looks on the connection's goroutine, directly after an event
// and before the next answer.
func TestACacheIsNotCurrentFromAnEventOn(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		require.NoError(t, w.Server.Create("/r", nil))
		reader := mode.of(w.Client())
		c := load(t, reader, "/r")
		for n := range 50 { // the cache's goroutine may be faster than the look
			watch := testbed.GetW(t, reader, "/r")
			now := make(chan bool, 1)
			(*engine.Watch)(watch).OnFire(func(zk.Event, *engine.Session) { now <- isCurrent(c) })
			require.NoError(t, w.Server.Set("/r", fmt.Append(nil, n)))
			require.False(t, <-now, "the server has reported a change")
			current(t, c)
			require.Equal(t, fmt.Sprint(n), data(c, "/r"))
		}
	})
}

// TestACacheIsNotCurrentDuringTheRestOfANode changes a node that has just been read. It is read
// again after a pause.
func TestACacheIsNotCurrentDuringTheRestOfANode(t *testing.T) {
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		require.NoError(t, w.Server.Create("/r", nil))
		c := load(t, mode.of(w.Client()), "/r")
		require.NoError(t, w.Server.Set("/r", []byte("first")))
		synctest.Wait()
		current(t, c)
		require.NoError(t, w.Server.Set("/r", []byte("second")))
		synctest.Wait()
		require.Equal(t, "first", data(c, "/r"))
		require.False(t, isCurrent(c), "the server has reported a change")
		current(t, c)
		require.Equal(t, "second", data(c, "/r"))
	})
}

// TestACacheIsNotCurrentAfterASyncWhileWhatCameThenIsRead blocks the cache in WithOnChange, with
// the end of a Sync behind, and behind that an event.
func TestACacheIsNotCurrentAfterASyncWhileWhatCameThenIsRead(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		create(t, client, "/r", "/r/a", "/r/b")
		c, unblock := blocking(t, client)
		require.NoError(t, w.Server.Delete("/r/a"))
		synced := testbed.Go(func() error { return c.Sync(t.Context()) })
		synctest.Wait()
		read := w.Server.Block(zktest.OnOp("getData"))
		require.NoError(t, w.Server.Set("/r/b", []byte("new")))
		synctest.Wait()
		unblock()
		testbed.Receive(t, read.Arrived(), "the read")
		require.NoError(t, testbed.Receive(t, synced, "the end of Sync"))
		synctest.Wait()
		require.False(t, isCurrent(c), "/r/b is not read yet")
		read.Open()
		current(t, c)
		require.Equal(t, "new", data(c, "/r/b"))
	})
}
