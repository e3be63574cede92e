package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// TestACacheIsNotCurrentWhileEventsWait blocks the cache in WithOnChange, with an event behind.
func TestACacheIsNotCurrentWhileEventsWait(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			for _, path := range []string{"/r", "/r/a", "/r/b"} {
				require.NoError(t, w.Server.Create(path, nil))
			}
			block, unblock := context.WithCancel(t.Context()) // also if the test fails
			defer unblock()
			c := load(t, mode.of(w.Client()), "/r", cache.WithOnChange(func(ch cache.Change) {
				if ch.Kind == cache.Deleted {
					<-block.Done()
				}
			}))
			require.NoError(t, w.Server.Delete("/r/a"))
			synctest.Wait()
			require.NoError(t, w.Server.Set("/r/b", []byte("new")))
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
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			for _, path := range []string{"/r", "/r/a"} {
				require.NoError(t, w.Server.Create(path, nil))
			}
			first, goOn := context.WithCancel(t.Context()) // also if the test fails
			defer goOn()
			second, unblock := context.WithCancel(t.Context())
			defer unblock()
			c := load(t, mode.of(w.Client()), "/r", cache.WithOnChange(func(ch cache.Change) {
				if ch.Kind == cache.Deleted {
					<-first.Done()
				}
			}), cache.WithFilter(func(path string) bool {
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
			_, found := c.Get("/r/new")
			require.False(t, found)
			ok, _ := c.Current()
			require.False(t, ok, "the server has reported /r/new")
			unblock()
			current(t, c)
			_, found = c.Get("/r/new")
			require.True(t, found)
		})
	})
}

// TestACacheIsNotCurrentFromAnEventOn looks on the connection's goroutine, directly after an event
// and before the next answer.
func TestACacheIsNotCurrentFromAnEventOn(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			require.NoError(t, w.Server.Create("/r", nil))
			reader := mode.of(w.Client())
			c := load(t, reader, "/r")
			for n := range 50 { // the cache's goroutine may be faster than the look
				watch := testbed.GetW(t, reader, "/r")
				now := make(chan bool, 1)
				(*engine.Watch)(watch).OnFire(func(zk.Event, *engine.Session) {
					ok, _ := c.Current()
					now <- ok
				})
				require.NoError(t, w.Server.Set("/r", fmt.Append(nil, n)))
				require.False(t, <-now, "the server has reported a change")
				current(t, c)
				got, _ := c.Get("/r")
				require.Equal(t, fmt.Sprint(n), string(got.Data))
			}
		})
	})
}

// TestACacheIsNotCurrentDuringTheRestOfANode changes a node that has just been read. It is read
// again after a pause.
func TestACacheIsNotCurrentDuringTheRestOfANode(t *testing.T) {
	eachMode(t, func(t *testing.T, mode watchMode) {
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			require.NoError(t, w.Server.Create("/r", nil))
			c := load(t, mode.of(w.Client()), "/r")
			require.NoError(t, w.Server.Set("/r", []byte("first")))
			synctest.Wait()
			current(t, c)
			require.NoError(t, w.Server.Set("/r", []byte("second")))
			synctest.Wait()
			n, _ := c.Get("/r")
			require.Equal(t, "first", string(n.Data))
			ok, _ := c.Current()
			require.False(t, ok, "the server has reported a change")
			current(t, c)
			n, _ = c.Get("/r")
			require.Equal(t, "second", string(n.Data))
		})
	})
}

// TestACacheIsNotCurrentAfterASyncWhileWhatCameThenIsRead blocks the cache in WithOnChange, with
// the end of a Sync behind, and behind that an event.
func TestACacheIsNotCurrentAfterASyncWhileWhatCameThenIsRead(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		for _, path := range []string{"/r", "/r/a", "/r/b"} {
			require.NoError(t, w.Server.Create(path, nil))
		}
		block, unblock := context.WithCancel(t.Context()) // also if the test fails
		defer unblock()
		c := load(t, w.Client(), "/r", cache.WithOnChange(func(ch cache.Change) {
			if ch.Kind == cache.Deleted {
				<-block.Done()
			}
		}))
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
		ok, _ := c.Current()
		require.False(t, ok, "/r/b is not read yet")
		read.Open()
		current(t, c)
		n, _ := c.Get("/r/b")
		require.Equal(t, "new", string(n.Data))
	})
}
