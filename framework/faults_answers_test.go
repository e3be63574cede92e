package framework_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// scripted is a server in memory whose answers a test determines.
type scripted struct {
	welcome  func(r proto.ConnectRequest) []byte // nil hangs up
	answer   func(h proto.RequestHeader, body []byte) []byte
	accepted atomic.Int32
	wg       sync.WaitGroup
}

// packet is a frame that holds these records.
func packet(records ...proto.Record) []byte {
	b := proto.Begin(64)
	for _, r := range records {
		b = r.Append(b)
	}
	return proto.Seal(b)
}

func welcome(id int64, timeout time.Duration) func(proto.ConnectRequest) []byte {
	return func(proto.ConnectRequest) []byte {
		return packet(&proto.ConnectResponse{Timeout: int32(timeout.Milliseconds()), Session: id, Password: []byte("sixteen of these")})
	}
}

// beats reports whether a request is a heartbeat, a multi with one check of the root.
func beats(h proto.RequestHeader, body []byte) bool {
	d := proto.NewDecoder(body)
	var r proto.MultiRequest
	r.Decode(&d)
	if h.Op != proto.OpMulti || d.Err() != nil || len(r.Ops) != 1 {
		return false
	}
	check, ok := r.Ops[0].Body.(*proto.VersionRequest)
	return ok && check.Path == "/"
}

// fine answers pings, syncs and heartbeats, and hands the rest to other.
func fine(other func(h proto.RequestHeader, body []byte) []byte) func(h proto.RequestHeader, body []byte) []byte {
	return func(h proto.RequestHeader, body []byte) []byte {
		switch {
		case h.Op == proto.OpSync:
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.PathResponse{Path: "/"})
		case h.Op == proto.OpPing || h.Op == proto.OpCloseSession || beats(h, body) || other == nil:
			return packet(&proto.ReplyHeader{Xid: h.Xid})
		}
		return other(h, body)
	}
}

func (l *scripted) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if l.accepted.Add(1) > 1000 {
		<-ctx.Done() // or a client without pauses would never let virtual time go on
		return nil, ctx.Err()
	}
	near, far := net.Pipe()
	l.wg.Go(func() { // ends when either end is closed
		defer far.Close()
		f, err := proto.ReadFrame(far, 1<<20)
		if err != nil {
			return
		}
		var r proto.ConnectRequest
		d := proto.NewDecoder(f)
		r.Decode(&d)
		said := l.welcome(r)
		if _, err := far.Write(said); err != nil || said == nil {
			return
		}
		for {
			f, err := proto.ReadFrame(far, 1<<20)
			if err != nil {
				return
			}
			var h proto.RequestHeader
			d := proto.NewDecoder(f)
			h.Decode(&d)
			if said = l.answer(h, f[8:]); said == nil {
				return
			}
			if _, err := far.Write(said); err != nil {
				return
			}
		}
	})
	return near, nil
}

func (l *scripted) client(t *testing.T, opts ...framework.Option) *framework.Client {
	t.Helper()
	t.Cleanup(l.wg.Wait)
	return testbed.NewClient(t, []string{"server:1"}, append([]framework.Option{
		framework.WithDialer(l.dial), framework.WithSessionTimeout(10 * time.Second), framework.WithRetryPolicy(retry.Never()),
	}, opts...)...)
}

// TestNothingThatAServerSaysCrashesUs: each of these is a reconnect with a pause, and no more.
func TestNothingThatAServerSaysCrashesUs(t *testing.T) {
	hangUp := func(proto.RequestHeader, []byte) []byte { return nil }
	for name, l := range map[string]*scripted{
		"a session of no time":    {welcome: welcome(7, 0), answer: fine(nil)},
		"a session of minus time": {welcome: welcome(7, -time.Second), answer: fine(nil)},
		"a session of 1 ms":       {welcome: welcome(7, time.Millisecond), answer: fine(nil)},
		"Keeper without a leader": {welcome: func(proto.ConnectRequest) []byte {
			return packet(&proto.ConnectResponse{Version: 1, Session: -1, Timeout: 1000})
		}, answer: hangUp},
		"it hangs up at once": {welcome: func(proto.ConnectRequest) []byte { return nil }, answer: hangUp},
		"it hangs up when granted": {welcome: func(r proto.ConnectRequest) []byte {
			return append(welcome(7, time.Second)(r), 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff)
		}, answer: hangUp},
		"four bytes that begin like an event": {welcome: welcome(7, 10*time.Second), answer: func(proto.RequestHeader, []byte) []byte {
			return []byte{0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff}
		}},
		"an endless ACL": {welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.NumberResponse{Number: 1 << 30}, &proto.NumberResponse{})
		})},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			client := l.client(t, framework.WithConnectionTimeout(time.Second))
			require.Error(t, testbed.Err(client.GetACL(t.Context(), "/a")))
			time.Sleep(time.Second) // virtual time: connections are counted in it
			require.LessOrEqual(t, l.accepted.Load(), int32(25), "connections in 2 s")
		})
	}
}

// TestAMissingAnswerEndsTheConnection: the call does not wait for ever.
func TestAMissingAnswerEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, body []byte) []byte {
			if strings.Contains(string(body), "/lost") {
				return []byte{}
			}
			return packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.NoNode})
		})}
		client := l.client(t)
		require.NoError(t, client.WaitConnected(t.Context()))
		lost := testbed.Go(func() error { return testbed.Err(client.Get(context.Background(), "/lost")) })
		synctest.Wait()
		require.ErrorIs(t, testbed.Err(client.Get(t.Context(), "/other")), zk.ErrConnectionClosed)
		require.ErrorIs(t, <-lost, zk.ErrConnectionClosed)
	})
}

// TestAKeeperThatNeverRestoresSessionsIsUsed gives each connection a separate session.
func TestAKeeperThatNeverRestoresSessionsIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var id atomic.Int64
		l := &scripted{answer: fine(func(h proto.RequestHeader, _ []byte) []byte { return nil })}
		l.welcome = func(r proto.ConnectRequest) []byte { return welcome(id.Add(1), 10*time.Second)(r) }
		client := l.client(t)
		first := testbed.Session(t, client)
		_, _, err := client.Get(t.Context(), "/a") // hangs up
		require.Error(t, err)
		second := testbed.Session(t, client)
		require.ErrorIs(t, first.Err(), framework.ErrSessionLost, "at once")
		require.EqualValues(t, 2, second.ID(), "the one that came with the connection")
		require.EqualValues(t, 2, l.accepted.Load())
	})
}

// silent is a server that accepts and says nothing.
func silent(t *testing.T) net.Conn {
	near, far := net.Pipe()
	t.Cleanup(func() { far.Close() })
	return near
}

// TestOneOfFiveServersIsEnough: a session of 4 s outlasts servers that do not answer.
func TestOneOfFiveServersIsEnough(t *testing.T) {
	for range 6 {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			client := testbed.NewClient(t, []string{"good:1", "b:1", "c:1", "d:1", "e:1"}, framework.WithSessionTimeout(4*time.Second),
				framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					if address == "good:1" {
						return server.DialContext(ctx, network, address)
					}
					return silent(t), nil
				}))
			require.NoError(t, client.WaitConnected(t.Context()))
			session := testbed.Session(t, client)
			for range 5 {
				time.Sleep(31 * time.Second) // virtual time, until failures are forgotten
				server.Freeze()
				time.Sleep(2700 * time.Millisecond) // virtual time, after which the link is dead
				server.Thaw()
				time.Sleep(2 * time.Second) // virtual time, in which it must connect again
				require.NoError(t, session.Err())
			}
		})
	}
}

// TestAServerThatSaysItDoesNotKnowAnOperation answers as ZooKeeper 3.4 does. It is asked once;
// whether it has TTL nodes is a matter of its configuration.
func TestAServerThatSaysItDoesNotKnowAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(map[proto.Op]int)
		l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
			asked[h.Op]++
			return packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.Unimplemented})
		})}
		client := l.client(t)
		for range 3 {
			_, err := client.AddWatch(t.Context(), "/a", framework.WatchPersistent, func(zk.Event) {})
			require.ErrorIs(t, err, framework.ErrWatchUnsupported)
			_, err = client.Create(t.Context(), "/a", nil, framework.As(framework.Container))
			require.ErrorIs(t, err, framework.ErrUnimplemented)
			_, err = client.Create(t.Context(), "/a", nil, framework.TTL(time.Minute))
			require.ErrorIs(t, err, framework.ErrUnimplemented)
			require.False(t, retry.Unknown(err))
			for name, try := range optionalOps(client) {
				require.ErrorIs(t, try(t.Context()), framework.ErrUnimplemented, name)
			}
		}
		require.Equal(t, map[proto.Op]int{
			proto.OpAddWatch: 1, proto.OpCreateContainer: 1, proto.OpCreateTTL: 3,
			proto.OpCreate2: 1, proto.OpMultiRead: 1, proto.OpGetEphemerals: 1, proto.OpGetChildrenNumber: 1, proto.OpWhoAmI: 1,
		}, asked)
	})
}

// TestAnswersOfOneServerAloneDoNotProlong has a server without a majority answer the requests that
// it can answer alone: pings, syncs, and writes with a separate code. These answers must not
// prolong the session for its dependents.
func TestAnswersOfOneServerAloneDoNotProlong(t *testing.T) {
	for _, code := range []proto.Code{proto.Throttled, proto.RequestTimeout} {
		synctest.Test(t, func(t *testing.T) {
			var off atomic.Bool
			honest := fine(nil)
			l := &scripted{welcome: welcome(7, 10*time.Second), answer: func(h proto.RequestHeader, body []byte) []byte {
				if beats(h, body) && off.Load() {
					return packet(&proto.ReplyHeader{Xid: h.Xid, Code: code})
				}
				return honest(h, body)
			}}
			client := l.client(t)
			session := testbed.Session(t, client)
			testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})
			time.Sleep(time.Minute) // virtual time, in which the session must live on
			require.NoError(t, session.Err(), "writes are committed")
			off.Store(true)
			began := time.Now()
			testbed.Receive(t, session.Done(), "the end of the session")
			require.Less(t, time.Since(began), 10*time.Second, "before the leader ends it")
		})
	}
}

// TestAMultiWithTooFewResultsMayHaveBeenCarriedOut: the server has answered, but not that it
// refused.
func TestAMultiWithTooFewResultsMayHaveBeenCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.MultiResponse{Results: []proto.MultiResult{{Op: proto.OpDelete}}})
		})}
		client := l.client(t)
		_, err := client.Multi(t.Context(), &zk.DeleteRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/b"})
		require.ErrorIs(t, err, proto.ErrMalformed)
		require.True(t, retry.Unknown(err))
	})
}
