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
	first, _ := ws.begin("/a", WatchData)
	second, request := ws.begin("/a", WatchData)
	require.Same(t, first, second)
	require.True(t, request, "not before the server has it")
	ws.settle("/a", WatchData, first, false)
	require.Len(t, ws.rows, 1, "another call is about to set it")
	ws.settle("/a", WatchData, second, false)
	require.Empty(t, ws.rows)

	third, _ := ws.begin("/a", WatchData)
	require.NotSame(t, first, third)
	ws.settle("/a", WatchData, third, true)
	again, _ := ws.begin("/a", WatchData)
	require.Same(t, third, again)
	ws.settle("/a", WatchData, again, false)
	require.Len(t, ws.rows, 1, "the third has set it")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/b"})
	require.Len(t, ws.rows, 1, "somebody else's")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"})
	<-third.done
	require.Empty(t, ws.rows)
}

// TestEventBetweenTheReplyAndItsNews has the event come before the call knows that it has
// set the watch: go-zookeeper's loop may be that much faster.
func TestEventBetweenTheReplyAndItsNews(t *testing.T) { // CURATOR-527, -641
	var ws watches
	w, _ := ws.begin("/a", WatchChildren)
	ws.notify(zk.Event{Type: zk.EventNodeDeleted, Path: "/a"})
	<-w.done
	ws.settle("/a", WatchChildren, w, true)
	require.Empty(t, ws.rows)
	next, _ := ws.begin("/a", WatchChildren)
	require.NotSame(t, w, next, "a new one has to be set")
	ws.end(zk.ErrConnectionClosed)
	<-next.done
	require.Equal(t, zk.EventNotWatching, next.event.Type)
	ws.settle("/a", WatchChildren, next, false)
	require.Empty(t, ws.rows)
}

// TestAWatchAfterARefusalIsAskedFor also while the caller of AddWatch does not know of the refusal yet.
func TestAWatchAfterARefusalIsAskedFor(t *testing.T) {
	var ws watches
	standing := &PersistentWatch{path: "/a", done: make(chan struct{})}
	mode := ws.join(standing)
	before, request := ws.begin("/a", WatchData)
	require.False(t, request, "the persistent watch has its events")
	ws.joined(standing, mode, zk.ErrConnectionClosed)
	require.True(t, wait.Closed(before.done), "it relies on nothing")
	ws.settle("/a", WatchData, before, true)
	after, request := ws.begin("/a", WatchData)
	require.True(t, request, "there is none")
	require.NotSame(t, before, after)
}

func TestEachEventEndsTheWatchesThatItConcerns(t *testing.T) {
	for event, ends := range map[zk.EventType][2]bool{
		zk.EventNodeCreated:         {WatchData: true}, // of an exists that found no node
		zk.EventNodeDataChanged:     {WatchData: true},
		zk.EventNodeChildrenChanged: {WatchChildren: true},
		zk.EventNodeDeleted:         {WatchData: true, WatchChildren: true},
		zk.EventNotWatching:         {}, // end does that
	} {
		for kind, want := range ends {
			var ws watches
			w, _ := ws.begin("/a", WatchKind(kind))
			ws.settle("/a", WatchKind(kind), w, true)
			ws.notify(zk.Event{Type: event, Path: "/a"})
			assert.Equal(t, want, wait.Closed(w.done), "%v, kind %d", event, kind)
		}
	}
}
