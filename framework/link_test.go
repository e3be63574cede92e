package framework_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestARequestFailsAfterHoldersWereNotifiedByAnotherGoroutine has another goroutine notify a slow
// holder of the suspension. The connection's goroutine must not fail requests before the holder
// returns.
func TestARequestFailsAfterHoldersWereNotifiedByAnotherGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		var notified atomic.Bool
		begun := make(chan struct{})
		testbed.Depend(t, session, connstate.SuspendedEndsHold, func(error) {
			close(begun)
			time.Sleep(time.Millisecond) // virtual time: a slow dependent, which later ones wait for
			notified.Store(true)
		})
		gate := server.Block(zktest.OnOp("create"))
		defer gate.Open()
		// The connection ends for its own goroutine when the function of Sent has returned, and for
		// others at once.
		slow := engine.Sent(client, func() { <-begun })
		failed := testbed.Go(func() error { return testbed.Err(slow.Create(t.Context(), "/a", nil)) })
		synctest.Wait()
		server.CutConnections()
		require.Error(t, <-failed)
		require.True(t, notified.Load())
	}, framework.WithRetryPolicy(retry.Never()))
}

// TestAnExpiredRequestFailsAfterHoldersWereNotifiedByAnotherGoroutine: the deadline ends the
// session just when a server says that it has expired.
func TestAnExpiredRequestFailsAfterHoldersWereNotifiedByAnotherGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		l := &scripted{welcome: welcome(7, timeout)}
		begun := make(chan struct{})
		l.answer = func(h proto.RequestHeader, _ []byte) []byte {
			switch h.Op {
			case proto.OpSetData:
				<-begun
				return packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.SessionExpired})
			case proto.OpPing:
				return packet(&proto.ReplyHeader{Xid: h.Xid})
			}
			// It confirms nothing.
			return packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.Throttled})
		}
		client := l.client(t)
		session := testbed.Session(t, client)
		var notified atomic.Bool
		testbed.Depend(t, session, connstate.LostEndsHold, func(error) {
			close(begun)
			time.Sleep(time.Millisecond) // virtual time: a slow dependent, which later ones wait for
			notified.Store(true)
		})
		// Virtual time: from now on nothing is answered, and the deadline passes before that is
		// noticed.
		time.Sleep(timeout / 2)
		require.ErrorIs(t, testbed.Err(client.Set(t.Context(), "/a", nil)), zk.ErrSessionExpired)
		require.True(t, notified.Load())
	})
}

// TestAMultiOfAMovedSessionEndsTheConnection: the leader heard late of a server that the client had
// tried before. ZooKeeper before 3.6 reports that among the results of a multi, and continues to
// answer reads.
func TestAMultiOfAMovedSessionEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{welcome: welcome(7, 10*time.Second)}
		l.answer = func(h proto.RequestHeader, _ []byte) []byte {
			reply := &proto.ReplyHeader{Xid: h.Xid, Zxid: 9}
			if h.Op != proto.OpMulti || l.accepted.Load() > 1 {
				return packet(reply)
			}
			return packet(reply, &proto.MultiResponse{Results: []proto.MultiResult{{Op: proto.OpError, Code: proto.SessionMoved}}})
		}
		client := l.client(t)
		session := testbed.Session(t, client)
		_, err := client.Multi(t.Context(), &zk.DeleteRequest{Path: "/a", Version: -1})
		require.ErrorIs(t, err, zk.ErrSessionMoved)
		require.False(t, retry.Unknown(err))
		time.Sleep(time.Second) // virtual time
		require.EqualValues(t, 2, l.accepted.Load())
		require.NoError(t, session.Err())
	})
}

// TestAMultiOfAnExpiredSessionEndsIt: ZooKeeper reports that among the results of a multi, even of
// the multi that confirms a session. If the client reconnected at the moment of the end, the server
// continues to answer, so nothing else would end the session. A standalone server may have
// forgotten the session, and reports that for earlier requests.
func TestAMultiOfAnExpiredSessionEndsIt(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *framework.Client) error{
		"multi": func(ctx context.Context, client *framework.Client) error {
			_, err := client.Multi(ctx, &zk.CheckVersionRequest{Path: "/b", Version: -1}, &zk.DeleteRequest{Path: "/a", Version: -1})
			return err
		},
		"sync":                                  func(ctx context.Context, client *framework.Client) error { return client.Sync(ctx) },
		"nothing but what confirms the session": nil,
	} {
		for _, code := range []proto.Code{proto.SessionExpired, proto.UnknownSession} {
			testbed.RunVirtual(t, fmt.Sprintf("%s, %v", name, code), func(t *testing.T) { askInAnExpiredSession(t, code, ask) })
		}
	}
}

func askInAnExpiredSession(t *testing.T, code proto.Code, ask func(context.Context, *framework.Client) error) {
	const timeout = 10 * time.Second
	l := &scripted{welcome: welcome(7, timeout)}
	l.answer = func(h proto.RequestHeader, body []byte) []byte {
		reply := &proto.ReplyHeader{Xid: h.Xid, Zxid: 9}
		if h.Op != proto.OpMulti {
			return packet(reply)
		}
		var r proto.MultiRequest
		d := proto.NewDecoder(body)
		r.Decode(&d)
		results := make([]proto.MultiResult, len(r.Ops))
		for i := range results {
			results[i] = proto.MultiResult{Op: proto.OpError, Code: proto.RuntimeInconsistency}
		}
		results[0].Code = code
		return packet(reply, &proto.MultiResponse{Results: results})
	}
	client := l.client(t, framework.WithRetryPolicy(retry.Never()))
	session := testbed.Session(t, client)
	ended := make(chan error, 1)
	testbed.Depend(t, session, connstate.LostEndsHold, func(err error) { ended <- err })
	if ask != nil {
		// The error depends on whether the write that confirms the session was first.
		require.Error(t, ask(t.Context(), client))
	}
	require.ErrorIs(t, testbed.Receive(t, ended, "the end of the session"), zk.ErrSessionExpired)
}

// TestARequestOfAForgottenSessionEndsIt is the same for other requests.
func TestARequestOfAForgottenSessionEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
			return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: 9, Code: proto.UnknownSession})
		})}
		client := l.client(t)
		session := testbed.Session(t, client)
		require.ErrorIs(t, testbed.Err(client.Get(t.Context(), "/a")), zk.ErrSessionExpired)
		require.ErrorIs(t, session.Err(), zk.ErrSessionExpired)
	})
}

// TestAMalformedAnswerIsReportedAfterHolders: it ends the connection, and holders are notified
// before a request fails.
func TestAMalformedAnswerIsReportedAfterHolders(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *framework.Client) error{
		"set": func(ctx context.Context, client *framework.Client) error {
			return testbed.Err(client.Set(ctx, "/a", nil))
		},
		"multi": func(ctx context.Context, client *framework.Client) error {
			return testbed.Err(client.Multi(ctx, &zk.DeleteRequest{Path: "/a", Version: -1}))
		},
		"children with a watch": func(ctx context.Context, client *framework.Client) error {
			return testbed.Err(client.ChildrenW(ctx, "/a"))
		},
		"read": func(ctx context.Context, client *framework.Client) error {
			l, err := engine.Of(client).Link(ctx)
			if err != nil {
				return err
			}
			return engine.Ask(ctx, func(done func(error)) { l.Get("/a", func(_ []byte, _ *zk.Stat, err error) { done(err) }) })
		},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
				return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.NumberResponse{Number: -5})
			})}
			client := l.client(t)
			session := testbed.Session(t, client)
			var notified atomic.Bool
			testbed.Depend(t, session, connstate.SuspendedEndsHold, func(error) {
				time.Sleep(time.Millisecond) // virtual time: a slow dependent, which later ones wait for
				notified.Store(true)
			})
			err := ask(t.Context(), client)
			require.True(t, notified.Load())
			require.ErrorIs(t, err, zk.ErrConnectionClosed)
			require.ErrorIs(t, err, proto.ErrMalformed)
			require.True(t, retry.Unknown(err))
		})
	}
}
