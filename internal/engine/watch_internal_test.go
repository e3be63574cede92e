package engine

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/wait"
)

func TestWatchesThatWereNotSetAreNotKept(t *testing.T) { // CUR-CLI-61, -62
	var ws watches
	first, _ := ws.begin("/a", WatchData, nil)
	second, request := ws.begin("/a", WatchData, nil)
	require.Same(t, first, second)
	require.True(t, request, "not before the server has it")
	ws.settle("/a", first, false)
	require.Len(t, ws.rows, 1, "another call is about to set it")
	ws.settle("/a", second, false)
	require.Empty(t, ws.rows)

	third, _ := ws.begin("/a", WatchData, nil)
	require.NotSame(t, first, third)
	ws.settle("/a", third, true)
	again, _ := ws.begin("/a", WatchData, nil)
	require.Same(t, third, again)
	ws.settle("/a", again, false)
	require.Len(t, ws.rows, 1, "the third has set it")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/b"})
	require.Len(t, ws.rows, 1, "somebody else's")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"})
	<-third.shared.done
	require.Empty(t, ws.rows)
}

// TestEventBetweenTheReplyAndItsNews has the event come before the call knows that it has
// set the watch: go-zookeeper's loop may be that much faster.
func TestEventBetweenTheReplyAndItsNews(t *testing.T) { // CURATOR-527, -641
	var ws watches
	w, _ := ws.begin("/a", WatchChildren, nil)
	ws.notify(zk.Event{Type: zk.EventNodeDeleted, Path: "/a"})
	<-w.shared.done
	ws.settle("/a", w, true)
	require.Empty(t, ws.rows)
	next, _ := ws.begin("/a", WatchChildren, nil)
	require.NotSame(t, w, next, "a new one has to be set")
	ws.end(zk.ErrConnectionClosed)
	<-next.shared.done
	require.Equal(t, zk.EventNotWatching, next.shared.event.Type)
	ws.settle("/a", next, false)
	require.Empty(t, ws.rows)
}

// TestAWatchAfterARefusalIsAskedFor also while the caller of AddWatch does not know of the refusal yet.
func TestAWatchAfterARefusalIsAskedFor(t *testing.T) {
	var ws watches
	standing := &PersistentWatch{path: "/a", done: make(chan struct{})}
	mode := ws.join(standing)
	before, request := ws.begin("/a", WatchData, nil)
	require.False(t, request, "the persistent watch has its events")
	ws.joined(standing, mode, zk.ErrConnectionClosed)
	require.True(t, wait.Closed(before.shared.done), "it relies on nothing")
	ws.settle("/a", before, true)
	after, request := ws.begin("/a", WatchData, nil)
	require.True(t, request, "there is none")
	require.NotSame(t, before, after)
}

func TestEachEventEndsTheWatchesThatItConcerns(t *testing.T) {
	for event, ends := range map[zk.EventType]WatchKind{
		zk.EventNodeCreated:         WatchData, // of an exists that found no node
		zk.EventNodeDataChanged:     WatchData,
		zk.EventNodeChildrenChanged: WatchChildren,
		zk.EventNodeDeleted:         WatchData | WatchChildren,
		zk.EventNotWatching:         0, // end does that
	} {
		for _, kind := range []WatchKind{WatchData, WatchChildren} {
			var ws watches
			w, _ := ws.begin("/a", kind, nil)
			ws.settle("/a", w, true)
			ws.notify(zk.Event{Type: event, Path: "/a"})
			assert.Equal(t, ends&kind != 0, wait.Closed(w.shared.done), "%v, kind %d", event, kind)
		}
	}
}

// TestAReadOfAViewSetsItsWatchBehindAnEarlierEvent: the event is that of an earlier watch, and the next one is passed on as well.
func TestAReadOfAViewSetsItsWatchBehindAnEarlierEvent(t *testing.T) {
	var ws watches
	var seen []zk.EventType
	v := &view{link: Link{client: Client{core: &core{}}}, f: func(e zk.Event) { seen = append(seen, e.Type) }}
	changed := zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"}
	w, _ := ws.begin("/a", WatchData, v)
	ws.settle("/a", w, true)
	again, _ := ws.begin("/a", WatchData, v)
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
	v := &view{removed: true}
	first, _ := ws.begin("/a", WatchData, v)
	second, _ := ws.begin("/a", WatchData, v)
	ws.settle("/a", first, false)
	require.Len(t, ws.rows, 1, "the second is about to set it")
	ws.settle("/a", second, true)
	ws.notify(zk.Event{Type: zk.EventNodeChildrenChanged, Path: "/a"})
	require.Len(t, ws.rows, 1, "it is of another kind")
	third, _ := ws.begin("/a", WatchData, v)
	ws.settle("/a", third, false)
	require.Len(t, ws.rows, 1, "the second has set it")
	require.Empty(t, ws.drop(&view{}))
	require.Equal(t, []string{"/a"}, ws.drop(v))
	require.Empty(t, ws.rows)
}

// TestAPersistentWatchEndsWhoseConnectionEndsBeforeItsRequest is sent.
func TestAPersistentWatchEndsWhoseConnectionEndsBeforeItsRequest(t *testing.T) {
	var ws watches
	w := &PersistentWatch{path: "/a", done: make(chan struct{})}
	mode := ws.join(w)
	ws.end(zk.ErrConnectionClosed)
	require.Equal(t, zk.ErrConnectionClosed, w.Err())
	ws.joined(w, mode, zk.ErrConnectionClosed)
	require.Empty(t, ws.rows)
}
