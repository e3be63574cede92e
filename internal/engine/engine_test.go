package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/zktest"
)

func TestAnswersAndEventsOfALinkComeInOneOrder(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := engine.Of(w.Client(framework.WithNamespace("ns")))
		require.Equal(t, "/ns/a", c.Real("/a"))
		l := testbed.Must(c.Link(t.Context()))
		again, err := c.Link(t.Context())
		require.NoError(t, err)
		require.True(t, l == again, "the same connection")
		require.NoError(t, w.Server.Create("/ns", nil))
		require.NoError(t, w.Server.Create("/ns/a", []byte("a")))
		order := make(chan string, 20)
		note := func(what string, err error) {
			require.NoError(t, err)
			order <- what
		}
		remove := l.Watch("/a", wire.Tree, func(e zk.Event) { order <- e.Type.String() + " " + e.Path },
			func(err error) { note("watched", err) })
		l.Get("/a", func(data []byte, _ *zk.Stat, err error) { note("get "+string(data), err) })
		l.Children("/a", func(names []string, _ *zk.Stat, err error) { note(fmt.Sprint("children ", names), err) })
		l.Exists("/b", func(_ *zk.Stat, err error) {
			require.ErrorIs(t, err, zk.ErrNoNode)
			order <- "no b"
		})
		l.Delete("/a", -1, func(err error) { note("deleted", err) })
		l.CatchUp(func(err error) { note("caught up", err) })
		for _, want := range []string{"watched", "get a", "children []", "no b", "EventNodeDeleted /a", "deleted", "caught up"} {
			require.Equal(t, want, <-order)
		}
		remove()
		require.NoError(t, w.Server.Create("/ns/a", nil))
		synctest.Wait()
		require.Empty(t, order)

		w.Server.CutConnections()
		<-l.Down()
		require.ErrorIs(t, engine.Ask(t.Context(), l.CatchUp), zk.ErrNoServer)
		next := testbed.Must(c.Link(t.Context()))
		require.False(t, l == next)
	})
}

// TestWhoeverCatchesUpMeanwhileSharesTheNextWrite has three callers arrive while the write of a
// first one is in flight. That write proves nothing about later commits, so the three need one
// more.
func TestWhoeverCatchesUpMeanwhileSharesTheNextWrite(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		l, err := engine.Of(w.Client()).Link(t.Context())
		require.NoError(t, err)
		w.Server.ResetCounts()
		gate := w.Server.BlockReplies(zktest.OnOp("multi"))
		order := make(chan string, 5)
		catchUp := func(name string) {
			l.CatchUp(func(err error) {
				require.NoError(t, err)
				order <- name
			})
		}
		catchUp("first")
		<-gate.Arrived()
		catchUp("a")
		catchUp("b")
		catchUp("c")
		gate.Open()
		for _, want := range []string{"first", "a", "b", "c"} {
			require.Equal(t, want, <-order)
		}
		require.Equal(t, 2, w.Server.Requests().Requests["multi"])
		catchUp("later")
		require.Equal(t, "later", <-order)
		require.Equal(t, 3, w.Server.Requests().Requests["multi"])
	})
}

func TestFollowReadsAgain(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := engine.Of(w.Client())
		changed := make(chan struct{})
		var links []engine.Link
		reads := make(chan int, 10)
		failed := errors.New("failed")
		ended := testbed.Go(func() error {
			return engine.Follow(t.Context(), c, func(_ context.Context, l engine.Link) (<-chan struct{}, error) {
				links = append(links, l)
				reads <- len(links)
				switch len(links) {
				case 1:
					return changed, nil
				case 2:
					return nil, zk.ErrConnectionClosed // it may pass
				case 3:
					return make(chan struct{}), nil // until the connection ends
				}
				return nil, failed
			})
		})
		require.Equal(t, 1, <-reads)
		close(changed)
		require.Equal(t, 2, <-reads)
		require.Equal(t, 3, <-reads)
		w.Server.ResetCounts()
		w.Server.CutConnections()
		require.Equal(t, 4, <-reads)
		require.Equal(t, 1, w.Server.Requests().Requests["multi"], "the next connection catches up first")
		require.ErrorIs(t, <-ended, failed)
		require.True(t, links[0] == links[2] && links[2] != links[3])
		require.NoError(t, engine.Follow(t.Context(), c, func(context.Context, engine.Link) (<-chan struct{}, error) { return nil, nil }))
	})
}

func TestFollowSaysWhyItGaveUp(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		one := w.Client()
		c := engine.Of(one)
		read := func(context.Context, engine.Link) (<-chan struct{}, error) { return nil, zk.ErrConnectionClosed }
		err := engine.Follow(testbed.Timeout(t, time.Minute), c, read)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrConnectionClosed, "the last reason")
		require.NotErrorIs(t, err, zk.ErrNoServer)
		w.Server.Stop()
		require.ErrorIs(t, engine.Follow(testbed.Timeout(t, time.Minute), c, read), zk.ErrNoServer)
		require.NoError(t, one.Close())
		require.True(t, wait.Closed(c.Done()))
		require.ErrorIs(t, engine.Follow(t.Context(), c, read), framework.ErrClosed)
	})
}

// TestAnObserverDoesNotHoldUpALink: it hears of each request, in their order, on a goroutine of its
// own.
func TestAnObserverDoesNotHoldUpALink(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		gate, seen := make(chan struct{}), make(chan framework.OperationEvent, 3)
		one := w.Client(framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
			<-gate
			seen <- e
		}}))
		c := engine.Of(one)
		l, err := c.Link(t.Context())
		require.NoError(t, err)
		l.Get("/a", func([]byte, *zk.Stat, error) {})
		require.ErrorIs(t, engine.Ask(t.Context(), func(done func(error)) { l.Exists("/b", func(_ *zk.Stat, err error) { done(err) }) }), zk.ErrNoNode)
		close(gate)
		e := <-seen
		require.Equal(t, "get", e.Op)
		require.Equal(t, "/a", e.Path)
		require.Equal(t, zk.ErrNoNode, e.Err, "as for operations: without Op and Path")
		require.Equal(t, "exists", (<-seen).Op)
		require.NoError(t, one.Sync(t.Context()))
		require.Equal(t, "sync", (<-seen).Op)
	})
}

// TestWatched has reads set standard watches, each for one event, and takes them back.
func TestWatched(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := engine.Of(w.Client())
		plain, err := c.Link(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.Server.Create("/a", nil))
		events := make(chan zk.Event, 10)
		l, remove := plain.Watched(func(e zk.Event) { events <- e })
		require.True(t, l.Session() == plain.Session())
		get := func(l engine.Link, path string) error {
			return engine.Ask(t.Context(), func(done func(error)) { l.Get(path, func(_ []byte, _ *zk.Stat, err error) { done(err) }) })
		}
		before := w.Server.WatchCount()
		require.NoError(t, get(plain, "/a"))
		require.ErrorIs(t, get(l, "/none"), zk.ErrNoNode)
		require.Equal(t, before, w.Server.WatchCount())
		require.NoError(t, get(l, "/a"))
		require.NoError(t, w.Server.Set("/a", []byte("1")))
		require.NoError(t, w.Server.Set("/a", []byte("2")))
		synctest.Wait()
		require.Equal(t, zk.EventNodeDataChanged, (<-events).Type)
		require.Empty(t, events, "one event for each read")

		l.Children("/a", func([]string, *zk.Stat, error) {})
		require.ErrorIs(t, engine.Ask(t.Context(), func(done func(error)) { l.Exists("/b", func(_ *zk.Stat, err error) { done(err) }) }), zk.ErrNoNode)
		require.ErrorIs(t, get(l, "/b"), zk.ErrNoNode, "it leaves the watch of the exists")
		require.NoError(t, w.Server.Create("/a/x", nil))
		require.NoError(t, w.Server.Create("/b", nil))
		synctest.Wait()
		require.Len(t, events, 2)
		require.Equal(t, zk.EventNodeChildrenChanged, (<-events).Type)
		require.Equal(t, zk.EventNodeCreated, (<-events).Type)

		require.NoError(t, get(l, "/a"))
		remove()
		remove()
		synctest.Wait()
		require.Equal(t, before, w.Server.WatchCount())
		require.NoError(t, w.Server.Set("/a", nil))
		synctest.Wait()
		require.Empty(t, events)
	})
}
