package wire

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/wait"
)

func TestWatchesThatWereNotSetAreNotKept(t *testing.T) { // CUR-CLI-61, -62
	var ws watches
	first, _, _ := ws.begin("/a", WatchData, user{})
	second, _, request := ws.begin("/a", WatchData, user{})
	require.Same(t, first, second)
	require.True(t, request, "not before the server has it")
	ws.settle("/a", first, false)
	require.Len(t, ws.rows, 1, "another call is about to set it")
	ws.settle("/a", second, false)
	require.Empty(t, ws.rows)

	third, waits, _ := ws.begin("/a", WatchData, user{})
	require.NotSame(t, first, third)
	ws.settle("/a", third, true)
	again, _, _ := ws.begin("/a", WatchData, user{})
	require.Same(t, third, again)
	ws.settle("/a", again, false)
	require.Len(t, ws.rows, 1, "the third has set it")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/b"})
	require.Len(t, ws.rows, 1, "somebody else's")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"})
	<-waits.done
	require.Empty(t, ws.rows)
}

// TestEventBetweenTheReplyAndItsNews delivers the event before the call knows that it has set the
// watch: the connection's loop may be that much faster.
func TestEventBetweenTheReplyAndItsNews(t *testing.T) { // CURATOR-527, -641
	var ws watches
	w, waits, _ := ws.begin("/a", WatchChildren, user{})
	ws.notify(zk.Event{Type: zk.EventNodeDeleted, Path: "/a"})
	<-waits.done
	ws.settle("/a", w, true)
	require.Empty(t, ws.rows)
	next, waits, _ := ws.begin("/a", WatchChildren, user{})
	require.NotSame(t, w, next, "a new one has to be set")
	ws.end(zk.ErrConnectionClosed)
	<-waits.done
	require.Equal(t, zk.EventNotWatching, waits.event.Type)
	ws.settle("/a", next, false)
	require.Empty(t, ws.rows)
}

// TestAWatchAfterARefusalIsAskedFor also while the caller of AddWatch does not know of the refusal
// yet.
func TestAWatchAfterARefusalIsAskedFor(t *testing.T) {
	var ws watches
	standing := &PersistentWatch{path: "/a", done: make(chan struct{})}
	mode := ws.subscribe(standing)
	before, waits, request := ws.begin("/a", WatchData, user{})
	require.False(t, request, "the persistent watch has its events")
	ws.subscribed(standing, mode, zk.ErrConnectionClosed)
	require.True(t, wait.Closed(waits.done), "it relies on nothing")
	ws.settle("/a", before, true)
	after, _, request := ws.begin("/a", WatchData, user{})
	require.True(t, request, "there is none")
	require.NotSame(t, before, after)
}

// TestListen_SetsItsWatchBehindAnEarlierEvent delivers an event of an earlier watch, and
// requires the next event as well.
func TestListen_SetsItsWatchBehindAnEarlierEvent(t *testing.T) {
	var ws watches
	var seen []zk.EventType
	v := &Listener{f: func(e zk.Event) { seen = append(seen, e.Type) }}
	changed := zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"}
	w, _, _ := ws.begin("/a", WatchData, user{listener: v})
	ws.settle("/a", w, true)
	again, _, _ := ws.begin("/a", WatchData, user{listener: v})
	ws.notify(changed)
	ws.settle("/a", again, true)
	ws.notify(changed)
	require.Len(t, seen, 2)
	require.Empty(t, ws.rows)
	ws.notify(changed)
	require.Len(t, seen, 2)
}

// TestAReadThatFailsLeavesTheWatchOfAnother that was sent before, and is answered later.
func TestAReadThatFailsLeavesTheWatchOfAnother(t *testing.T) {
	var ws watches
	v := &Listener{removed: true}
	first, _, _ := ws.begin("/a", WatchData, user{listener: v})
	second, _, _ := ws.begin("/a", WatchData, user{listener: v})
	ws.settle("/a", first, false)
	require.Len(t, ws.rows, 1, "the second is about to set it")
	ws.settle("/a", second, true)
	ws.notify(zk.Event{Type: zk.EventNodeChildrenChanged, Path: "/a"})
	require.Len(t, ws.rows, 1, "it is of another kind")
	third, _, _ := ws.begin("/a", WatchData, user{listener: v})
	ws.settle("/a", third, false)
	require.Len(t, ws.rows, 1, "the second has set it")
	require.Empty(t, ws.dropAll(&Listener{}))
	require.Equal(t, []string{"/a"}, ws.dropAll(v))
	require.Empty(t, ws.rows)
}

// TestAPersistentWatchEndsWhoseConnectionEndsBeforeItsRequest is sent.
func TestAPersistentWatchEndsWhoseConnectionEndsBeforeItsRequest(t *testing.T) {
	var ws watches
	w := &PersistentWatch{path: "/a", done: make(chan struct{})}
	mode := ws.subscribe(w)
	ws.end(zk.ErrConnectionClosed)
	require.Equal(t, zk.ErrConnectionClosed, w.Err())
	ws.subscribed(w, mode, zk.ErrConnectionClosed)
	require.Empty(t, ws.rows)
}
