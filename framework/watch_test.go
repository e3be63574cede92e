package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
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
	bed := testbed.InProcess(t)
	client := bed.Client(t, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	var seen events
	w, err := client.AddWatch(ctx, "/a", framework.WatchRecursive, seen.add)
	require.NoError(t, err)
	testbed.Create(t, client, "/a/b", nil, framework.PersistentParents())
	require.Equal(t, []string{"EventNodeCreated /a", "EventNodeCreated /a/b"}, seen.list())
	testbed.Set(t, client, "/a/b", []byte("x"))
	require.NoError(t, client.Delete(ctx, "/a/b"))
	require.Equal(t, []string{"EventNodeDataChanged /a/b", "EventNodeDeleted /a/b"}, seen.list()[2:])
	require.NoError(t, w.Err())
	w.Remove()
	testbed.Receive(t, w.Done(), "the end of the watch")
	require.NoError(t, w.Err())
}

func TestPersistentWatchStaysAfterAnEvent(t *testing.T) { // CUR-WCH-01, -04
	bed := testbed.InProcess(t)
	client := bed.Client(t)
	ctx := testbed.Context(t)
	var one, two events
	w, err := client.AddWatch(ctx, "/a", framework.WatchPersistent, one.add)
	require.NoError(t, err)
	testbed.AddWatch(t, client, "/a", framework.WatchPersistent, two.add)
	testbed.Create(t, client, "/a", nil)
	w.Remove() // the other watch continues
	testbed.Create(t, client, "/a/b", nil)
	testbed.Set(t, client, "/a", nil)
	require.Equal(t, []string{"EventNodeCreated /a"}, one.list())
	require.Equal(t, []string{"EventNodeCreated /a", "EventNodeChildrenChanged /a", "EventNodeDataChanged /a"}, two.list())
}

func TestLastRemoveTakesTheWatchFromTheServer(t *testing.T) { // CUR-CLI-59
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	before := server.WatchCount()
	w, err := client.AddWatch(testbed.Context(t), "/a", framework.WatchRecursive, func(zk.Event) {})
	require.NoError(t, err)
	require.Greater(t, server.WatchCount(), before)
	w.Remove()
	testbed.Eventually(t, func() bool { return server.WatchCount() == before }, "the watch goes")
}

// TestAnAddWatchThatIsGivenUpLeavesNoWatch has its caller leave before the server has answered.
func TestAnAddWatchThatIsGivenUpLeavesNoWatch(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	before := server.WatchCount()
	gate := server.BlockReplies(zktest.OnOp("addWatch"))
	ctx, cancel := context.WithCancel(testbed.Context(t))
	result := testbed.Go(func() error {
		_, err := client.AddWatch(ctx, "/a", framework.WatchRecursive, func(zk.Event) {})
		return err
	})
	testbed.Receive(t, gate.Arrived(), "the request")
	cancel()
	require.ErrorIs(t, testbed.Receive(t, result, "the error"), context.Canceled)
	require.Greater(t, server.WatchCount(), before)
	gate.Open()
	testbed.Eventually(t, func() bool { return server.WatchCount() == before }, "the watch goes")
}

func TestPersistentWatchEndsWithItsConnection(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	session := testbed.Session(t, client)
	w, err := client.AddWatch(testbed.Context(t), "/a", framework.WatchRecursive, func(zk.Event) {})
	require.NoError(t, err)
	server.CutConnections()
	testbed.Receive(t, w.Done(), "the end of the watch")
	require.ErrorIs(t, w.Err(), zk.ErrConnectionClosed)
	require.NoError(t, session.Err())
}

func TestAddWatchRefusesBadArguments(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	ctx := testbed.Context(t)
	_, err := client.AddWatch(ctx, "a", framework.WatchRecursive, func(zk.Event) {})
	require.ErrorIs(t, err, framework.ErrBadPath)
	_, err = client.AddWatch(ctx, "/a", 7, func(zk.Event) {})
	require.ErrorIs(t, err, framework.ErrBadArgument)
	_, err = client.AddWatch(ctx, "/a", framework.WatchRecursive, nil)
	require.ErrorIs(t, err, framework.ErrBadArgument)
}

// TestAPanicInAWatchFunctionIsLogged: no other watch misses an event, and the connection stays.
func TestAPanicInAWatchFunctionIsLogged(t *testing.T) {
	var log strings.Builder // written by the connection's goroutine, and read when it has ended
	server := zktest.NewServer(t)
	client := newClient(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	ctx := testbed.Context(t)
	testbed.AddWatch(t, client, "/a", framework.WatchPersistent, func(e zk.Event) { panic("of " + e.Path) })
	var events []zk.EventType
	testbed.AddWatch(t, client, "/a", framework.WatchPersistent, func(e zk.Event) { events = append(events, e.Type) })
	states := heard(t, client)
	testbed.Create(t, client, "/a", nil)
	require.NoError(t, client.Delete(ctx, "/a"))
	require.Equal(t, []zk.EventType{zk.EventNodeCreated, zk.EventNodeDeleted}, events)
	require.Empty(t, states())
	require.NoError(t, client.Close())
	require.Equal(t, 2, strings.Count(log.String(), "watch function panicked"))
}

// TestTheOptimizedWatchManagerHasNoPersistentWatches: a ZooKeeper of 3.8.0 that has it answers
// addWatch with a marshalling error.
func TestTheOptimizedWatchManagerHasNoPersistentWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
			copy(answer[16:], []byte{0xff, 0xff, 0xff, 0xfb}) // -5
			return answer
		}, zktest.OnOp("addWatch"))
		for _, mode := range []framework.WatchMode{framework.WatchPersistent, framework.WatchRecursive} {
			_, err := client.AddWatch(t.Context(), "/a", mode, func(zk.Event) {})
			require.ErrorIs(t, err, framework.ErrWatchUnsupported)
		}
	})
}

// TestAWatchFunctionThatEndsItsGoroutine, as t.FailNow does, ends the connection: requests and
// Close waited for ever.
func TestAWatchFunctionThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client, err := framework.New([]string{server.Addr()}, framework.WithDialer(server.DialContext))
		require.NoError(t, err)
		w, err := client.AddWatch(t.Context(), "/a", framework.WatchPersistent, func(zk.Event) { runtime.Goexit() })
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, server.Create("/a", nil))
		<-w.Done()
		require.Zero(t, time.Since(began), "at once, and not when the server seems to be silent")
		testbed.Create(t, client, "/a", nil, framework.OrSet())
		require.ErrorIs(t, w.Err(), zk.ErrConnectionClosed)
		require.NoError(t, client.Close())
	})
}
