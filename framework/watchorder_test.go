package framework_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest"
)

// A waiter of a lock that has two watches, and is told by the one that the node ahead was deleted, takes the silence of the other for
// word that its own node was there: see "The only one ahead" in docs/PROTOCOL.md. These tests have what it relies on.

// TestWatchesFireInTheOrderOfTheServer also if persistent watches stand for them, and before a later answer.
func TestWatchesFireInTheOrderOfTheServer(t *testing.T) {
	nodes := []string{"/own", "/ahead"}
	stays := []framework.WatchMode{-1, framework.WatchPersistent, framework.WatchRecursive} // -1: none
	for _, onOwn := range stays {
		for _, onAhead := range stays {
			for _, order := range [][]string{{"/own", "/ahead"}, {"/ahead", "/own"}} {
				synctest.Test(t, func(t *testing.T) { deleteInOrder(t, nodes, []framework.WatchMode{onOwn, onAhead}, order) })
			}
		}
	}
}

// fired reports whether a watch has fired.
func fired(w *framework.Watch) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// deleteInOrder has a client watch nodes, of which the server says at once that they are deleted, in order. modes are those of
// persistent watches on them.
func deleteInOrder(t *testing.T, nodes []string, modes []framework.WatchMode, order []string) {
	l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) (said []byte) {
		switch h.Op {
		case proto.OpGetData:
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.DataResponse{})
		case proto.OpExists:
			for _, node := range order {
				event := proto.WatcherEvent{Type: proto.EventDeleted, State: proto.StateConnected, Path: node}
				said = append(said, packet(&proto.ReplyHeader{Xid: proto.XidEvent, Zxid: -1}, &event)...)
			}
			return append(said, packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.NoNode})...)
		}
		return packet(&proto.ReplyHeader{Xid: h.Xid})
	})}
	client := l.client(t)
	watches := make(map[string]*framework.Watch) // complete before the first event
	var told []string
	_, err := client.AddWatch(t.Context(), "/", framework.WatchRecursive, func(e zk.Event) { // it is called before the others are told
		for i, node := range order {
			assert.Equal(t, i < len(told), fired(watches[node]), "%s, when %s is told", node, e.Path)
		}
		told = append(told, e.Path)
	})
	require.NoError(t, err)
	for i, mode := range modes {
		if mode >= 0 {
			_, err := client.AddWatch(t.Context(), nodes[i], mode, func(zk.Event) {})
			require.NoError(t, err)
		}
		_, _, watches[nodes[i]], err = client.GetW(t.Context(), nodes[i])
		require.NoError(t, err)
	}
	_, _, err = client.Exists(t.Context(), "/")
	require.NoError(t, err)
	require.True(t, fired(watches[order[0]]) && fired(watches[order[1]]), "before the answer")
	require.Equal(t, order, told)
}

// TestAWatchFiresBeforeALaterAnswer that says that the node ahead is gone.
func TestAWatchFiresBeforeALaterAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		for range 100 {
			for _, node := range []string{"/own", "/ahead"} {
				require.NoError(t, server.Create(node, nil))
			}
			_, _, own, err := client.GetW(t.Context(), "/own")
			require.NoError(t, err)
			gate := server.Block(zktest.OnOp(zktest.OpGetData))
			go func() {
				<-gate.Arrived()
				assert.NoError(t, server.Delete("/own"))
				assert.NoError(t, server.Delete("/ahead"))
				gate.Open()
			}()
			_, _, _, err = client.GetW(t.Context(), "/ahead")
			require.ErrorIs(t, err, zk.ErrNoNode)
			require.True(t, fired(own), "its node went before")
		}
	})
}

// TestWatchesEndBeforeTheNextConnectionBegins, so that no two watches that are set belong to different connections.
func TestWatchesEndBeforeTheNextConnectionBegins(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, server *zktest.Server, session int64){
		"cut": func(_ *testing.T, server *zktest.Server, _ int64) { server.CutConnections() },
		"expired": func(t *testing.T, server *zktest.Server, session int64) {
			assert.NoError(t, server.ExpireSession(session))
		},
		"frozen": func(_ *testing.T, server *zktest.Server, session int64) { server.Freeze(session) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zktest.WithInMemory())
				require.NoError(t, server.Create("/a", nil))
				require.NoError(t, server.Create("/b", nil))
				var set atomic.Pointer[[]<-chan struct{}]
				var again atomic.Int32
				client, err := framework.New([]string{server.Addr()}, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					if watches := set.Load(); watches != nil {
						again.Add(1)
						for i, done := range *watches {
							select {
							case <-done:
							default:
								assert.Fail(t, "a watch of the last connection is left", "%d", i)
							}
						}
					}
					return server.DialContext(ctx, network, address)
				}))
				require.NoError(t, err)
				defer client.Close()
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				var watches []<-chan struct{}
				add := func(w interface{ Done() <-chan struct{} }, err error) {
					require.NoError(t, err)
					watches = append(watches, w.Done())
				}
				stays, err := client.AddWatch(t.Context(), "/b", framework.WatchRecursive, func(zk.Event) {})
				add(stays, err)
				for _, path := range []string{"/a", "/b"} { // the second is served by the persistent watch
					_, _, w, err := client.GetW(t.Context(), path)
					add(w, err)
					_, _, w, err = client.ChildrenW(t.Context(), path)
					add(w, err)
					_, _, w, err = client.ExistsW(t.Context(), path+"/c")
					add(w, err)
				}
				set.Store(&watches)
				fault(t, server, session.ID())
				for _, done := range watches {
					<-done
				}
				server.Thaw()
				require.NoError(t, client.WaitConnected(t.Context()))
				require.NoError(t, client.Sync(t.Context(), "/"))
				require.Positive(t, again.Load())
			})
		})
	}
}
