package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// events collects what a watch reports.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(event zk.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprint(event.Type, " ", event.Path))
}

func (e *events) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.all...)
}

func TestRecursiveWatchReportsAllNodesBelowBeforeTheReply(t *testing.T) { // CUR-WCH-02, -05
	_, client := start(t, framework.WithNamespace("ns"))
	var seen events
	w := testbed.AddWatch(t, client, "/a", framework.WatchRecursive, seen.add)
	testbed.Create(t, client, "/a/b", nil, framework.PersistentParents())
	require.Equal(t, []string{"EventNodeCreated /a", "EventNodeCreated /a/b"}, seen.list())
	testbed.Set(t, client, "/a/b", []byte("x"))
	require.NoError(t, client.Delete(testbed.Context(t), "/a/b"))
	require.Equal(t, []string{"EventNodeDataChanged /a/b", "EventNodeDeleted /a/b"}, seen.list()[2:])
	require.NoError(t, w.Err())
	w.Remove()
	testbed.Receive(t, w.Done(), "the end of the watch")
	require.NoError(t, w.Err())
}

func TestPersistentWatchStaysAfterAnEvent(t *testing.T) { // CUR-WCH-01, -04
	_, client := start(t)
	var one, two events
	w := testbed.AddWatch(t, client, "/a", framework.WatchPersistent, one.add)
	testbed.AddWatch(t, client, "/a", framework.WatchPersistent, two.add)
	testbed.Create(t, client, "/a", nil)
	w.Remove() // the other watch continues
	testbed.Create(t, client, "/a/b", nil)
	testbed.Set(t, client, "/a", nil)
	require.Equal(t, []string{"EventNodeCreated /a"}, one.list())
	require.Equal(t, []string{"EventNodeCreated /a", "EventNodeChildrenChanged /a", "EventNodeDataChanged /a"}, two.list())
}

func TestLastRemoveTakesTheWatchFromTheServer(t *testing.T) { // CUR-CLI-59
	server, client := start(t)
	before := server.WatchCount()
	w := testbed.AddWatch(t, client, "/a", framework.WatchRecursive, func(zk.Event) {})
	require.Greater(t, server.WatchCount(), before)
	w.Remove()
	testbed.Eventually(t, func() bool { return server.WatchCount() == before }, "the watch goes")
}

// TestAnAddWatchThatIsGivenUpLeavesNoWatch has its caller leave before the server has answered.
func TestAnAddWatchThatIsGivenUpLeavesNoWatch(t *testing.T) {
	server, client := start(t)
	before := server.WatchCount()
	gate := server.BlockReplies(zktest.OnOp("addWatch"))
	ctx, cancel := context.WithCancel(testbed.Context(t))
	result := testbed.Go(func() error {
		return testbed.Err(client.AddWatch(ctx, "/a", framework.WatchRecursive, func(zk.Event) {}))
	})
	testbed.Receive(t, gate.Arrived(), "the request")
	cancel()
	require.ErrorIs(t, testbed.Receive(t, result, "the error"), context.Canceled)
	require.Greater(t, server.WatchCount(), before)
	gate.Open()
	testbed.Eventually(t, func() bool { return server.WatchCount() == before }, "the watch goes")
}

// TestAPanicInAWatchFunctionIsLogged: no other watch misses an event, and the connection stays.
func TestAPanicInAWatchFunctionIsLogged(t *testing.T) {
	var log logged
	_, client := start(t, log.keep(slog.LevelInfo))
	testbed.AddWatch(t, client, "/a", framework.WatchPersistent, func(e zk.Event) { panic("of " + e.Path) })
	var events []zk.EventType
	testbed.AddWatch(t, client, "/a", framework.WatchPersistent, func(e zk.Event) { events = append(events, e.Type) })
	states := heard(t, client)
	testbed.Create(t, client, "/a", nil)
	require.NoError(t, client.Delete(testbed.Context(t), "/a"))
	require.Equal(t, []zk.EventType{zk.EventNodeCreated, zk.EventNodeDeleted}, events)
	require.Empty(t, states())
	require.NoError(t, client.Close())
	require.Len(t, log.lines("watch function panicked"), 2)
}

// TestTheOptimizedWatchManagerHasNoPersistentWatches: a ZooKeeper of 3.8.0 that has it answers
// addWatch with a marshalling error.
func TestTheOptimizedWatchManagerHasNoPersistentWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Answer(server, proto.MarshallingError, nil, zktest.OnOp("addWatch"))
		for _, mode := range []framework.WatchMode{framework.WatchPersistent, framework.WatchRecursive} {
			_, err := client.AddWatch(t.Context(), "/a", mode, func(zk.Event) {})
			require.ErrorIs(t, err, framework.ErrWatchUnsupported)
		}
	})
}

// TestAWatchFunctionThatEndsItsGoroutine, as t.FailNow does, ends the connection: requests and
// Close waited for ever.
func TestAWatchFunctionThatEndsItsGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		w := testbed.AddWatch(t, client, "/a", framework.WatchPersistent, func(zk.Event) { runtime.Goexit() })
		began := time.Now()
		require.NoError(t, server.Create("/a", nil))
		<-w.Done()
		require.Zero(t, time.Since(began), "at once, and not when the server seems to be silent")
		testbed.Create(t, client, "/a", nil, framework.OrSet())
		require.ErrorIs(t, w.Err(), zk.ErrConnectionClosed)
		require.NoError(t, client.Close())
	})
}
