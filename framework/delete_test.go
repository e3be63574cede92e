package framework_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestGuaranteedDeleteWithAnyTwoFaults has the first and the second try fail, in every way.
func TestGuaranteedDeleteWithAnyTwoFaults(t *testing.T) { // CURATOR-202, -486
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		for _, first := range testbed.Faults {
			for _, second := range testbed.Faults {
				testbed.Create(t, client, "/n", nil)
				server.Inject(first, 0, zktest.OnOp("delete"))
				injected := server.Inject(second, 0, zktest.OnOp("delete"))
				err := client.Delete(testbed.Context(t), "/n", framework.Guaranteed())
				require.NoError(t, err, "whatever the retry policy says")
				require.True(t, injected.Met())
				require.Empty(t, server.Tree())
				require.NoError(t, client.WaitConnected(testbed.Context(t)))
			}
		}
	}, framework.WithRetryPolicy(retry.Never()))
}

// TestGuaranteedDeleteOutlastsAnOutage has the outage last longer than session and retries.
func TestGuaranteedDeleteOutlastsAnOutage(t *testing.T) { // CUR-CLI-28, CURATOR-106
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Create(t, client, "/n", nil)
		server.Stop()
		deleted := testbed.Go(func() error { return client.Delete(t.Context(), "/n", framework.IfExists(), framework.Guaranteed()) })
		time.Sleep(time.Hour) // virtual time: the outage, in which nothing may happen
		require.Empty(t, deleted, "it goes on trying")
		require.NoError(t, server.Restart())
		require.NoError(t, <-deleted)
		require.Empty(t, server.Tree())
	}, framework.WithRetryPolicy(retry.Never()))
}

func TestPlainDeleteThatFailedIsNotCarriedOutLater(t *testing.T) { // CUR-CLI-29
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Create(t, client, "/n", nil)
		server.Stop()
		synctest.Wait()
		require.ErrorIs(t, client.Delete(t.Context(), "/n"), zk.ErrNoServer)
		require.NoError(t, server.Restart())
		time.Sleep(time.Minute) // virtual time, in which nothing may happen
		require.NoError(t, testbed.Err(server.Get("/n")))
	}, framework.WithRetryPolicy(retry.Never()), framework.WithConnectionTimeout(time.Second))
}

// TestTwoDeletesOfOneNodeDoNotBothSucceed loses the reply to a delete, and has another client
// delete the recreated node: the outcome of the first delete is unknown, and must not be reported
// as a success.
func TestTwoDeletesOfOneNodeDoNotBothSucceed(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := newClient(t, server), newClient(t, server)
	testbed.Create(t, client, "/n", nil)
	server.Inject(zktest.FailBefore, 0, zktest.OnOp("delete"))
	gate := server.Block(zktest.OnOp("delete"), zktest.On(func(zktest.Request) bool { return len(server.Sessions()) == 2 }))
	defer gate.Open()
	result := testbed.Go(func() error { return client.Delete(testbed.Context(t), "/n") })
	testbed.Receive(t, gate.Arrived(), "a delete")
	gate.Open()
	ours, theirs := testbed.Receive(t, result, "our delete"), other.Delete(testbed.Context(t), "/n")
	require.NoError(t, ours, "nobody else was there")
	require.ErrorIs(t, theirs, zk.ErrNoNode)
	require.False(t, retry.Unknown(theirs))

	testbed.Create(t, client, "/n", nil)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("delete"))
	err := client.Delete(testbed.Context(t), "/n")
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.True(t, retry.Unknown(err), "it may have been us")
	require.EqualError(t, err, "delete /n: zk: node does not exist (the answer to an earlier attempt was lost)")
}

func TestDeleteThatLosesItsReplyHasDeleted(t *testing.T) { // CUR-CLI-38
	server, client := start(t)
	for _, fault := range testbed.Faults {
		testbed.Create(t, client, "/n", nil)
		injected := server.Inject(fault, 0, zktest.OnOp("delete"))
		require.NoError(t, client.Delete(testbed.Context(t), "/n", framework.IfVersion(0), framework.IfExists()), fault)
		require.True(t, injected.Met())
	}
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("delete"))
	testbed.Create(t, client, "/n", nil)
	require.ErrorIs(t, client.Delete(testbed.Context(t), "/n", framework.IfVersion(7)), zk.ErrBadVersion, "a wrong version stays wrong")
	require.ErrorIs(t, client.Delete(t.Context(), "/n", framework.IfVersion(7), framework.IfExists()), zk.ErrBadVersion)
}

// TestGuaranteedDeleteOfACallerWhoGoesAway cancels while the server is busy with the delete.
func TestGuaranteedDeleteOfACallerWhoGoesAway(t *testing.T) { // CUR-CLI-28, CURATOR-106, -205, -264
	for name, fault := range map[string]func(server *zktest.Server) error{
		"and nothing else happens":          func(*zktest.Server) error { return nil },
		"and the connection is lost":        func(s *zktest.Server) error { s.CutConnections(); return nil },
		"and the server bounces":            func(s *zktest.Server) error { return s.Restart() },
		"and the request's session is over": func(s *zktest.Server) error { return s.ExpireSession(s.Sessions()[0].ID) },
	} {
		t.Run(name, func(t *testing.T) {
			server, client := start(t, framework.WithNamespace("ns"))
			testbed.Create(t, client, "/n", nil)
			gate := server.Block(zktest.OnOp("delete"))
			defer gate.Open()
			ctx, cancel := context.WithCancel(testbed.Context(t))
			result := testbed.Go(func() error { return client.Delete(ctx, "/n", framework.IfExists(), framework.Guaranteed()) })
			testbed.Receive(t, gate.Arrived(), "the delete")
			cancel()
			require.ErrorIs(t, testbed.Receive(t, result, "the cancelled call"), context.Canceled)
			require.NoError(t, fault(server))
			gate.Open()
			testbed.Eventually(t, func() bool { return !server.Exists("/ns/n") }, "the node goes")
		})
	}
}

// TestGuaranteedDeleteOutlastsAServerThatRefusesCredentials: another server, or the same later,
// takes them, in the same session.
func TestGuaranteedDeleteOutlastsAServerThatRefusesCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		refuses := testbed.RefuseCredentials(server)
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithAuth("digest", []byte("user:password")))
		for _, path := range []string{"/waits", "/gives-up"} {
			testbed.Create(t, client, path, nil, framework.As(framework.Ephemeral))
		}
		session := testbed.Session(t, client)
		refuses.Store(true)
		server.CutConnections()
		require.Eventually(t, func() bool { return errors.Is(client.WaitConnected(t.Context()), zk.ErrAuthFailed) }, time.Second, time.Millisecond)
		result := testbed.Go(func() error {
			return client.Delete(t.Context(), "/waits", framework.IfExists(), framework.Guaranteed())
		})
		err := client.Delete(testbed.Timeout(t, time.Second), "/gives-up", framework.IfExists(), framework.Guaranteed())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrAuthFailed, "the reason of the wait")
		time.Sleep(time.Second) // virtual time, in which both must not give up
		refuses.Store(false)
		require.NoError(t, <-result)
		synctest.Wait()
		require.Empty(t, server.Tree())
		require.NoError(t, session.Err())
	})
}

func TestGuaranteedDeleteEndsWithTheClient(t *testing.T) {
	for name, bound := range map[string]bool{"in any session": false, "in one session": true} {
		runInBubble(t, name, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			in := client
			if bound {
				in = client.In(testbed.Session(t, client))
			}
			gate := server.Block(zktest.OnOp("delete"))
			defer gate.Open()
			result := testbed.Go(func() error {
				return in.Delete(context.Background(), "/n", framework.IfExists(), framework.Guaranteed())
			})
			testbed.Receive(t, gate.Arrived(), "the delete")
			require.NoError(t, client.Close())
			err := testbed.Receive(t, result, "the delete")
			require.ErrorIs(t, err, framework.ErrClosed)
			require.True(t, retry.Unknown(err), "it was sent")
			err = in.Delete(t.Context(), "/n", framework.IfExists(), framework.Guaranteed())
			require.ErrorIs(t, err, framework.ErrClosed)
			require.False(t, retry.Unknown(err), "it was not")
		})
	}
}

// TestGuaranteedDeleteThatWasSentMayHaveDeletedInASessionThatIsLost: the loss is not what became of
// the request.
func TestGuaranteedDeleteThatWasSentMayHaveDeletedInASessionThatIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		testbed.Create(t, client, "/n", nil)
		server.Inject(zktest.ExpireAfter, 0, zktest.OnOp("delete"))
		err := client.In(session).Delete(t.Context(), "/n", framework.IfExists(), framework.Guaranteed())
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.False(t, server.Exists("/n"))
		require.True(t, retry.Unknown(err))
	})
}

func TestGuaranteedDeleteGivesUpWhatTheServerRefuses(t *testing.T) {
	_, client := start(t)
	testbed.Create(t, client, "/dir", nil, framework.ACL(zk.WorldACL(zk.PermAll&^zk.PermDelete)))
	testbed.Create(t, client, "/dir/n", nil)
	err := client.Delete(t.Context(), "/dir/n", framework.IfExists(), framework.Guaranteed())
	assert.ErrorIs(t, err, zk.ErrNoAuth)
	assert.EqualError(t, err, "delete /dir/n: zk: not authenticated")
	assert.ErrorIs(t, client.Delete(t.Context(), "/dir", framework.IfExists(), framework.Guaranteed()), zk.ErrNotEmpty)
}

// discard discards the node at path in the present session.
func discard(t *testing.T, client *framework.Client, path string) *framework.Session {
	session := testbed.Session(t, client)
	engine.Of(client.In(session)).Discard(path, (*engine.Session)(session))
	return session
}

// TestDiscard_HasItsPlaceAtOnce reads behind a deletion that no caller waits for.
func TestDiscard_HasItsPlaceAtOnce(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	for range 100 {
		testbed.Create(t, client, "/a", nil, framework.As(framework.Ephemeral))
		discard(t, client, "/a")
		require.False(t, testbed.Exists(t, client, "/a"))
	}
}

// TestDiscard_DoesNotGiveUp has the deletion not be carried out, not be answered, or be refused for
// now.
func TestDiscard_DoesNotGiveUp(t *testing.T) {
	for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
		runInBubble(t, fault.String(), func(t *testing.T, server *zktest.Server, client *framework.Client) {
			testbed.Create(t, client, "/a", nil, framework.As(framework.Ephemeral))
			injected := server.Inject(fault, 0, zktest.OnOp("delete"))
			discard(t, client, "/a")
			time.Sleep(time.Second) // virtual time, in which it must be deleted
			require.True(t, injected.Met())
			require.False(t, server.Exists("/a"))
		})
	}
}

// TestDiscard_EndsWithTheSession sends nothing in the next session.
func TestDiscard_EndsWithTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Create(t, client, "/a", nil, framework.As(framework.Ephemeral))
		gate := server.Block(zktest.OnOp("delete"))
		session := discard(t, client, "/a")
		<-gate.Arrived()
		require.NoError(t, server.ExpireSession(session.ID()))
		gate.Open()
		<-session.Done()
		// Virtual time: the server might not have been notified, and then expires the session.
		time.Sleep(session.Timeout())
		require.False(t, server.Exists("/a"))
		require.NoError(t, server.Create("/a", nil))
		time.Sleep(time.Hour) // virtual time, in which nothing may happen
		require.True(t, server.Exists("/a"), "it was deleted in the next session")
	})
}

// TestDiscard_LogsARefusal at once and after a lost connection.
func TestDiscard_LogsARefusal(t *testing.T) {
	for name, faults := range map[string]int{"at once": 0, "later": 1} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			log := &logged{}
			server, client := virtual(t, log.keep(slog.LevelWarn))
			require.NoError(t, server.Create("/a", nil))
			require.NoError(t, server.Create("/a/b", nil))
			for range faults {
				server.Inject(zktest.FailBefore, 0, zktest.OnOp("delete"))
			}
			discard(t, client, "/a")
			time.Sleep(time.Second) // virtual time, in which the refusal is logged
			require.Len(t, log.lines(`msg="node was not deleted" path=/a reason="zk: node has children"`), 1)
		})
	}
}

// ops notes the operations that a client sends, in order.
type ops struct {
	mu   sync.Mutex
	sent []proto.Op // guarded by mu
}

// noting is a connection that records the bytes written to it.
type noting struct {
	net.Conn
	ops *ops
}

func (n noting) Write(frames []byte) (int, error) {
	n.ops.mu.Lock()
	for b := frames; len(b) >= 12; b = b[4+binary.BigEndian.Uint32(b):] {
		n.ops.sent = append(n.ops.sent, proto.Op(binary.BigEndian.Uint32(b[8:])))
	}
	n.ops.mu.Unlock()
	return n.Conn.Write(frames)
}

// before returns how many operations were sent before the first of one kind.
func (o *ops) before(op proto.Op) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Index(o.sent, op)
}

// count returns how many operations of one kind were sent.
func (o *ops) count(op proto.Op) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, sent := range o.sent {
		if sent == op {
			n++
		}
	}
	return n
}

// TestDiscard_ManyDoNotDelayAHeartbeat has thousands of deletions wait for a connection.
func TestDiscard_ManyDoNotDelayAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, sent := zktest.NewServer(t, zktest.WithInMemory()), &ops{}
		client := testbed.On(server).Client(t, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := server.DialContext(ctx, network, address)
			return noting{c, sent}, err
		}))
		session := testbed.Session(t, client)
		server.RefuseConnections(true)
		server.CutConnections()
		synctest.Wait()
		const n = 5000
		for i := range n {
			engine.Of(client).Discard(fmt.Sprint("/", i), (*engine.Session)(session))
		}
		deletions := server.Block(zktest.OnOp("delete"))
		server.ResetCounts()
		server.RefuseConnections(false)
		require.NoError(t, client.WaitConnected(t.Context()))
		<-deletions.Arrived()
		synced := testbed.Go(func() error { return client.Sync(t.Context()) })
		synctest.Wait()
		require.Less(t, sent.count(proto.OpDelete), n/10, "in flight")
		deletions.Open()
		require.NoError(t, <-synced)
		require.Less(t, sent.before(proto.OpMulti), n/10, "ahead of the heartbeat")
		time.Sleep(time.Second) // virtual time
		require.Equal(t, n, server.Requests().Requests["delete"])
	})
}
