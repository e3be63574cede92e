package zkconn_test

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

// reconnect cuts the connection and calls between before the Conn reconnects.
func (b *bench) reconnect(events <-chan zk.Event, between func()) {
	b.t.Helper()
	b.RefuseConnections(true)
	b.CutConnections()
	steps(b.t, events, zk.StateDisconnected)
	between()
	b.RefuseConnections(false)
	for len(events) > 0 { // they would leave no room for later ones
		<-events
	}
	steps(b.t, events, zk.StateHasSession)
	synctest.Wait()
}

// Watches of existing and missing nodes.
var watches = map[string]watch{
	"get":      watchOf((*zkconn.Conn).GetW),
	"exists":   watchOf((*zkconn.Conn).ExistsW),
	"children": watchOf((*zkconn.Conn).ChildrenW),
}

// watch watches a node.
type watch func(t *testing.T, c *zkconn.Conn, path string) <-chan zk.Event

func watchOf[V any](read func(*zkconn.Conn, string) (V, *zk.Stat, <-chan zk.Event, error)) watch {
	return func(t *testing.T, c *zkconn.Conn, path string) <-chan zk.Event {
		t.Helper()
		_, _, ch, err := read(c, path)
		require.NoError(t, err)
		return ch
	}
}

func TestAWatchSurvivesAReconnect(t *testing.T) {
	for _, test := range []struct {
		name, watch, path string
		change            func(b *bench) error
		event             zk.EventType // none: the change is none of the watch's
	}{
		{"data", "get", "/a", func(b *bench) error { return b.Set("/a", []byte("x")) }, zk.EventNodeDataChanged},
		{"data by exists", "exists", "/a", func(b *bench) error { return b.Set("/a", []byte("x")) }, zk.EventNodeDataChanged},
		{"creation", "exists", "/none", func(b *bench) error { return b.Create("/none", nil) }, zk.EventNodeCreated},
		{"deletion", "get", "/a", func(b *bench) error { return b.Delete("/a") }, zk.EventNodeDeleted},
		{"deletion by children", "children", "/a", func(b *bench) error { return b.Delete("/a") }, zk.EventNodeDeleted},
		{"children", "children", "/a", func(b *bench) error { return b.Create("/a/c", nil) }, zk.EventNodeChildrenChanged},
		{"another's", "children", "/a", func(b *bench) error { return b.Set("/a", []byte("x")) }, 0},
		{"another's", "get", "/a", func(b *bench) error { return b.Create("/a/c", nil) }, 0},
		{"nothing", "exists", "/none", func(*bench) error { return nil }, 0},
	} {
		for _, when := range []string{"before", "during", "after"} {
			virtualRun(t, test.name+" "+when, func(t *testing.T, b *bench) {
				require.NoError(t, b.Create("/a", nil))
				conn, events := b.connect()
				ch := watches[test.watch](t, conn, test.path)
				second := watches[test.watch](t, conn, test.path)
				change := func(now string) {
					if when == now {
						require.NoError(t, test.change(b))
					}
				}
				change("before")
				if when == "before" {
					synctest.Wait()
				}
				steps(t, events, zk.StateHasSession)
				b.reconnect(events, func() { change("during") })
				if when == "after" {
					require.Empty(t, ch)
				}
				change("after")
				synctest.Wait()
				if test.event == 0 {
					require.Empty(t, ch)
					require.NoError(t, b.Create("/a/x", nil)) // the Conn continues
					return
				}
				want := zk.Event{Type: test.event, State: zk.StateSyncConnected, Path: test.path}
				for _, ch := range []<-chan zk.Event{ch, second} {
					require.Equal(t, want, testbed.Receive(t, ch, "the event"))
					_, open := <-ch
					require.False(t, open)
				}
				count := 0
				for len(events) > 0 {
					if e := <-events; e == want {
						count++
					}
				}
				if when != "before" { // that one was read to reconnect
					require.Equal(t, 1, count, "events for all watches of the node")
				}
			})
		}
	}
}

// A node that was deleted and created again has the same version.
func TestANodeThatWasReplacedIsSeen(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		require.NoError(t, b.Create("/a", nil))
		conn, events := b.connect()
		data, list := watches["get"](t, conn, "/a"), watches["children"](t, conn, "/a")
		steps(t, events, zk.StateHasSession)
		b.reconnect(events, func() {
			require.NoError(t, b.Delete("/a"))
			require.NoError(t, b.Create("/a", nil))
		})
		require.Equal(t, zk.EventNodeDataChanged, testbed.Receive(t, data, "the event").Type)
		require.Equal(t, zk.EventNodeChildrenChanged, testbed.Receive(t, list, "the event").Type)
	})
}

func TestWatchesSurviveManyReconnects(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, events := b.connect()
		var all []<-chan zk.Event
		for i := range 100 {
			path := fmt.Sprintf("/%d", i)
			b.create(conn, path)
			all = append(all, watches["get"](t, conn, path))
		}
		steps(t, events, zk.StateHasSession)
		for i := range 10 {
			b.reconnect(events, func() { require.NoError(t, b.Delete(fmt.Sprintf("/%d", i))) })
		}
		for i, ch := range all {
			if i < 10 {
				require.Equal(t, zk.EventNodeDeleted, testbed.Receive(t, ch, "the event").Type)
			} else {
				require.Empty(t, ch)
			}
		}
	})
}

// Requests that set watches again fail, too: the watch waits for the next connection.
func TestAWatchSurvivesFaultsWhileItIsSetAgain(t *testing.T) {
	for name, watch := range watches {
		virtualRun(t, name, func(t *testing.T, b *bench) {
			require.NoError(t, b.Create("/a", nil))
			conn, events := b.connect()
			ch := watch(t, conn, "/a")
			steps(t, events, zk.StateHasSession)
			b.CutConnections()
			for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
				<-b.Inject(fault, 0, zktest.OnOp("exists", "getChildren2")).Done()
			}
			synctest.Wait()
			require.Empty(t, ch)
			require.NoError(t, b.Delete("/a"))
			require.Equal(t, zk.EventNodeDeleted, testbed.Receive(t, ch, "the event").Type)
		})
	}
}

// unreadable watches /a, whose owner then denies all others the permission to read it.
func (b *bench) unreadable(conn *zkconn.Conn, events <-chan zk.Event, watch watch) (<-chan zk.Event, *zkconn.Conn) {
	b.create(conn, "/a")
	ch := watch(b.t, conn, "/a")
	steps(b.t, events, zk.StateHasSession)
	owner, _ := b.connect()
	require.NoError(b.t, owner.AddAuth("digest", []byte("user:password")))
	require.NoError(b.t, testbed.Err(owner.SetACL("/a", zk.DigestACL(zk.PermAll, "user", "password"), -1)))
	return ch, owner
}

// TestAWatchOfANodeThatCannotBeReadAfterAReconnect: a server keeps such a watch, and so does the
// Conn, also over a second reconnect.
func TestAWatchOfANodeThatCannotBeReadAfterAReconnect(t *testing.T) {
	for name, watch := range watches {
		virtualRun(t, name, func(t *testing.T, b *bench) {
			conn, events := b.connect()
			ch, owner := b.unreadable(conn, events, watch)
			for range 2 {
				b.reconnect(events, func() {})
				time.Sleep(time.Minute) // virtual time, in which the watch must not end
				require.Empty(t, ch)
			}
			require.NoError(t, testbed.Err(owner.SetACL("/a", world, -1)))
			time.Sleep(time.Minute) // virtual time, in which the Conn reads the node again
			require.Empty(t, ch)
			require.NoError(t, b.Delete("/a"))
			require.Equal(t, zk.EventNodeDeleted, testbed.Receive(t, ch, "the event").Type)
		})
	}
}

// TestAWatchOfANodeThatCannotBeReadEndsWithItsSession: the Conn reads the node again after pauses
// of up to 10 s, which the end of the session ends.
func TestAWatchOfANodeThatCannotBeReadEndsWithItsSession(t *testing.T) {
	for name, watch := range watches {
		virtualRun(t, name, func(t *testing.T, b *bench) {
			conn, events := b.connect()
			ch, _ := b.unreadable(conn, events, watch)
			b.reconnect(events, func() {})
			time.Sleep(time.Minute) // virtual time, after which the pauses are long
			require.NoError(t, b.ExpireSession(conn.SessionID()))
			began := time.Now()
			require.Equal(t, zkconn.ErrSessionExpired, testbed.Receive(t, ch, "the end").Err)
			require.Less(t, time.Since(began), time.Second)
		})
	}
}

func TestAWatchEndsWithTheSessionAndTheConn(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(b *bench, conn *zkconn.Conn)
		want error
	}{
		"session": {func(b *bench, conn *zkconn.Conn) {
			require.NoError(b.t, b.ExpireSession(conn.SessionID()))
		}, zkconn.ErrSessionExpired},
		"Conn": {func(_ *bench, conn *zkconn.Conn) { conn.Close() }, zkconn.ErrClosing},
		"Conn without a server": {func(b *bench, conn *zkconn.Conn) {
			b.RefuseConnections(true)
			b.CutConnections()
			synctest.Wait()
			conn.Close()
		}, zkconn.ErrClosing},
	} {
		for kind, watch := range watches {
			virtualRun(t, name+" "+kind, func(t *testing.T, b *bench) {
				conn, _ := b.connect()
				b.create(conn, "/a")
				ch := watch(t, conn, "/a")
				test.end(b, conn)
				want := zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: "/a", Err: test.want}
				require.Equal(t, want, testbed.Receive(t, ch, "the end"))
				_, open := <-ch
				require.False(t, open)
			})
		}
	}
}

// A client sees the event of a change before it sees the new data.
func TestTheEventIsThereBeforeALaterAnswer(t *testing.T) {
	conn, _ := ours(t, zktest.NewServer(t).Servers(), net.DialTimeout)
	require.NoError(t, testbed.Err(conn.Create("/a", nil, 0, world)))
	for range 1000 {
		_, _, ch, err := conn.GetW("/a")
		require.NoError(t, err)
		require.NoError(t, testbed.Err(conn.Set("/a", nil, -1)))
		require.Len(t, ch, 1)
	}
}

func TestTheEventChannelHasOneEventForAllWatchesOfANode(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		require.NoError(t, b.Create("/a", nil))
		conn, events := b.connect()
		for _, watch := range watches {
			for range 2 {
				watch(t, conn, "/a")
			}
		}
		steps(t, events, zk.StateHasSession)
		require.NoError(t, b.Delete("/a"))
		synctest.Wait()
		var got []zk.Event
		for len(events) > 0 {
			got = append(got, <-events)
		}
		assert.Equal(t, []zk.Event{{Type: zk.EventNodeDeleted, State: zk.StateSyncConnected, Path: "/a"}}, got)
	})
}

// As in go-zookeeper, the event that the session has expired precedes the ends of its watches.
func TestTheSessionIsOverBeforeItsWatchesAre(t *testing.T) {
	for name, connected := range map[string]bool{"said by a server": true, "by the clock": false} {
		virtualRun(t, name, func(t *testing.T, b *bench) {
			conn, events := b.connect()
			b.create(conn, "/a")
			ch := watches["get"](t, conn, "/a")
			session := testbed.Session(t, conn.Client())
			testbed.Depend(t, session, connstate.LostEndsHold, func(error) {
				time.Sleep(5 * time.Second) // virtual time: the end of the session is published later
			})
			if connected {
				require.NoError(t, b.ExpireSession(conn.SessionID()))
			} else {
				b.RefuseConnections(true)
				b.CutConnections()
			}
			var states []zk.State
			for e := range events {
				if e.Type == zk.EventNotWatching {
					break
				}
				states = append(states, e.State)
			}
			require.Contains(t, states, zk.StateExpired)
			require.Equal(t, zkconn.ErrSessionExpired, testbed.Receive(t, ch, "the end").Err)
		})
	}
}
