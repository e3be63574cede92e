package engine

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWatchesThatWereNotSetAreNotKept(t *testing.T) { // CUR-CLI-61, -62
	var ws watches
	key := watchKey{"/a", WatchData}
	first, armed, _ := ws.begin(key)
	require.False(t, armed)
	second, armed, _ := ws.begin(key)
	require.False(t, armed, "not before the server has it")
	require.Same(t, first, second)
	ws.settle(key, first, false)
	require.Len(t, ws.byNode, 1, "another call is about to set it")
	ws.settle(key, second, false)
	require.Empty(t, ws.byNode)

	third, _, _ := ws.begin(key)
	require.NotSame(t, first, third)
	ws.settle(key, third, true)
	_, armed, _ = ws.begin(key)
	require.True(t, armed)
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/b"})
	require.Len(t, ws.byNode, 1, "somebody else's")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"})
	<-third.done
	require.Empty(t, ws.byNode)
}

// TestEventBetweenTheReplyAndItsNews has the event come before the call knows that it has
// set the watch: go-zookeeper's loop may be that much faster.
func TestEventBetweenTheReplyAndItsNews(t *testing.T) { // CURATOR-527, -641
	var ws watches
	key := watchKey{"/a", WatchChildren}
	w, _, _ := ws.begin(key)
	ws.notify(zk.Event{Type: zk.EventNodeDeleted, Path: "/a"})
	<-w.done
	ws.settle(key, w, true)
	require.Empty(t, ws.byNode)
	next, armed, _ := ws.begin(key)
	require.False(t, armed, "a new one has to be set")
	ws.end(zk.ErrConnectionClosed)
	<-next.done
	require.Equal(t, zk.EventNotWatching, next.event.Type)
	ws.settle(key, next, false)
	late, _, _ := ws.begin(key)
	<-late.done
}

// TestAWatchAfterARefusalIsAskedFor also while the caller of AddWatch does not know of the refusal yet.
func TestAWatchAfterARefusalIsAskedFor(t *testing.T) {
	var ws watches
	_, alive := ws.join(&PersistentWatch{path: "/a", done: make(chan struct{})})
	require.True(t, alive)
	key := watchKey{"/a", WatchData}
	before, _, request := ws.begin(key)
	require.False(t, request, "the persistent watch will tell")
	ws.joined("/a", Node, zk.ErrConnectionClosed)
	select {
	case <-before.done:
	default:
		t.Fatal("it relies on nothing")
	}
	ws.settle(key, before, true)
	after, _, request := ws.begin(key)
	require.True(t, request, "there is none")
	require.NotSame(t, before, after)
}

func TestEachEventEndsTheWatchesThatItConcerns(t *testing.T) {
	for event, ends := range map[zk.EventType][]WatchKind{
		zk.EventNodeCreated:         {watchGone},
		zk.EventNodeDataChanged:     {WatchData},
		zk.EventNodeChildrenChanged: {WatchChildren},
		zk.EventNodeDeleted:         {WatchData, WatchChildren},
		zk.EventNotWatching:         nil, // end does that
	} {
		for _, kind := range []WatchKind{WatchData, watchGone, WatchChildren} {
			if kind == watchGone && event != zk.EventNodeCreated {
				continue // cannot be: the node is not there
			}
			var ws watches
			key := watchKey{"/a", kind}
			w, _, _ := ws.begin(key)
			ws.settle(key, w, true)
			ws.notify(zk.Event{Type: event, Path: "/a"})
			ended := false
			select {
			case <-w.done:
				ended = true
			default:
			}
			concerns := false
			for _, k := range ends {
				concerns = concerns || k == kind
			}
			assert.Equal(t, concerns, ended, "%v, kind %d", event, kind)
		}
	}
}
