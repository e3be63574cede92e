package framework_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// scripted is a server of which a test decides what it says. It exists in memory only.
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
		return packet(&proto.ConnectResponse{Timeout: int32(timeout.Milliseconds()), Session: id, Password: make([]byte, 16)})
	}
}

// fine answers pings and syncs, and hands the rest to other.
func fine(other func(h proto.RequestHeader, body []byte) []byte) func(h proto.RequestHeader, body []byte) []byte {
	return func(h proto.RequestHeader, body []byte) []byte {
		switch {
		case h.Op == proto.OpSync:
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.PathResponse{Path: "/"})
		case h.Op == proto.OpPing || h.Op == proto.OpCloseSession || other == nil:
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
	client, err := framework.New([]string{"server:1"}, append([]framework.Option{
		framework.WithDialer(l.dial), framework.WithSessionTimeout(10 * time.Second), framework.WithRetryPolicy(retry.Never()),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		l.wg.Wait()
	})
	return client
}

// TestNothingThatAServerSaysCrashesUs is issue 10, B2. Each of these is a reconnect with a pause, and no more.
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := l.client(t, framework.WithConnectionTimeout(time.Second))
				_, _, err := client.GetACL(t.Context(), "/a")
				require.Error(t, err)
				time.Sleep(time.Second) // virtual time: what is counted is the connections of these seconds
				require.LessOrEqual(t, l.accepted.Load(), int32(25), "connections in 2 s")
			})
		})
	}
}

// TestAMissingAnswerEndsTheConnection is issue 10, B5: the call waited for ever.
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
		lost := make(chan error, 1)
		go func() {
			_, _, err := client.Get(context.Background(), "/lost")
			lost <- err
		}()
		synctest.Wait()
		_, _, err := client.Get(t.Context(), "/other")
		require.ErrorIs(t, err, zk.ErrConnectionClosed)
		require.ErrorIs(t, <-lost, zk.ErrConnectionClosed)
	})
}

// TestAKeeperThatNeverRestoresSessionsIsUsed has each connection get a session of its own.
func TestAKeeperThatNeverRestoresSessionsIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var id atomic.Int64
		l := &scripted{answer: fine(func(h proto.RequestHeader, _ []byte) []byte { return nil })}
		l.welcome = func(r proto.ConnectRequest) []byte { return welcome(id.Add(1), 10*time.Second)(r) }
		client := l.client(t)
		first, err := client.Session(t.Context())
		require.NoError(t, err)
		_, _, err = client.Get(t.Context(), "/a") // hangs up
		require.Error(t, err)
		second, err := client.Session(t.Context())
		require.NoError(t, err)
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

// TestOneOfFiveServersIsEnough is issue 10, B6: with 1 s for each server, 2 of 6 sessions of 4 s were lost.
func TestOneOfFiveServersIsEnough(t *testing.T) {
	for range 6 {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			client, err := framework.New([]string{"good:1", "b:1", "c:1", "d:1", "e:1"}, framework.WithSessionTimeout(4*time.Second),
				framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					if address == "good:1" {
						return server.DialContext(ctx, network, address)
					}
					return silent(t), nil
				}))
			require.NoError(t, err)
			defer client.Close()
			require.NoError(t, client.WaitConnected(t.Context()))
			session, err := client.Session(t.Context())
			require.NoError(t, err)
			for range 5 {
				time.Sleep(31 * time.Second) // until nobody remembers who failed
				server.Freeze()
				time.Sleep(2700 * time.Millisecond) // the link is dead
				server.Thaw()
				time.Sleep(2 * time.Second) // virtual time, in which it must connect again
				require.NoError(t, session.Err())
			}
		})
	}
}

// TestUnknownOperationsThatAreCutAreLearned is issue 10, B3: Keeper hangs up, and the session is lost each time.
func TestUnknownOperationsThatAreCutAreLearned(t *testing.T) {
	server := zktest.NewServer(t)
	var cuts atomic.Int32
	client, err := framework.New(server.Servers(), framework.WithRetryPolicy(retry.NTimes(5, time.Millisecond)),
		framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return &cutter{Conn: nc, cuts: &cuts, ops: []proto.Op{proto.OpCreateContainer, proto.OpAddWatch}}, err
		}))
	require.NoError(t, err)
	defer client.Close()
	ctx := testbed.Context(t)
	_, err = client.Create(ctx, "/a/b/c", []byte{}, framework.ContainerParents())
	require.NoError(t, err)
	require.EqualValues(t, 2, cuts.Load())
	require.Equal(t, "/a \"\"\n/a/b \"\"\n/a/b/c \"\"\n", server.Tree(), "persistent parents")
	_, err = client.Create(ctx, "/x/y", []byte{}, framework.ContainerParents())
	require.NoError(t, err)
	require.EqualValues(t, 2, cuts.Load(), "it is remembered")
	_, err = client.Create(ctx, "/box", nil, framework.As(framework.Container))
	require.ErrorContains(t, err, "unknown error: -6")

	_, err = client.AddWatch(ctx, "/a", framework.WatchRecursive, func(zk.Event) {})
	require.ErrorIs(t, err, framework.ErrWatchUnsupported)
	require.EqualValues(t, 4, cuts.Load())
	_, err = client.AddWatch(ctx, "/a", framework.WatchRecursive, func(zk.Event) {})
	require.ErrorIs(t, err, framework.ErrWatchUnsupported)
	require.EqualValues(t, 4, cuts.Load())
	_, _, w, err := client.GetW(ctx, "/a")
	require.NoError(t, err)
	_, err = client.Set(ctx, "/a", nil, -1)
	require.NoError(t, err)
	testbed.Receive(t, w.Done(), "the change")
}

// cutter cuts the connection when certain requests are sent, as Keeper does.
type cutter struct {
	net.Conn
	cuts *atomic.Int32
	ops  []proto.Op
	cut  atomic.Bool
}

func (k *cutter) Write(frame []byte) (int, error) {
	if len(frame) >= 12 && slices.Contains(k.ops, proto.Op(frame[11])) {
		k.cuts.Add(1)
		k.cut.Store(true)
		return len(frame), k.Conn.Close()
	}
	return k.Conn.Write(frame)
}

func (k *cutter) Read(p []byte) (int, error) {
	n, err := k.Conn.Read(p)
	if err != nil && k.cut.Load() {
		err = io.EOF // as if the server had done it
	}
	return n, err
}

// TestARemovalThatIsCutIsNotRepeated has a server that knows persistent watches, but not their removal.
func TestARemovalThatIsCutIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		var cuts atomic.Int32
		client, err := framework.New([]string{server.Addr()}, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := server.DialContext(ctx, network, address)
			return &cutter{Conn: nc, cuts: &cuts, ops: []proto.Op{proto.OpRemoveWatches}}, err
		}))
		require.NoError(t, err)
		defer client.Close()
		for i := range 5 {
			w, err := client.AddWatch(t.Context(), "/a", framework.WatchRecursive, func(zk.Event) {})
			require.NoError(t, err)
			w.Remove()
			synctest.Wait()
			require.EqualValues(t, min(i+1, 2), cuts.Load(), "it is asked for twice")
		}
	})
}

// TestOneFaultDoesNotMakeAnOperationUnknown has a connection be cut once, for another reason.
func TestOneFaultDoesNotMakeAnOperationUnknown(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	for range 3 {
		server.Inject(zktest.FailBefore, 0, zktest.OnOp(zktest.OpCreateContainer))
		_, err := client.Create(ctx, "/a/b", []byte{}, framework.ContainerParents())
		require.NoError(t, err)
		require.Equal(t, "/a \"\" container\n/a/b \"\"\n", server.Tree())
		require.NoError(t, client.Delete(ctx, "/a/b", -1))
		_, err = client.DeleteGuaranteed(ctx, "/a")
		require.NoError(t, err)
	}
}

// TestOneFaultOfManyRequestsDoesNotMakeAnOperationUnknown has one connection end with several requests of a kind on it, as
// when a server stops just after all caches of a client have set their watches again.
func TestOneFaultOfManyRequestsDoesNotMakeAnOperationUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		gate := server.Block(zktest.OnOp(zktest.OpAddWatch))
		results := make(chan error, 3)
		for range cap(results) {
			go func() {
				_, err := client.AddWatch(t.Context(), "/a", framework.WatchRecursive, func(zk.Event) {})
				results <- err
			}()
		}
		synctest.Wait() // all are sent
		server.CutConnections()
		gate.Open()
		for range cap(results) {
			require.NoError(t, <-results)
		}
	})
}

// TestAServerThatSaysItDoesNotKnowWatches answers as ZooKeeper 3.5 does, and as newer Keepers do.
func TestAServerThatSaysItDoesNotKnowWatches(t *testing.T) {
	for _, code := range []proto.Code{proto.Unimplemented, proto.BadArguments} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
				asked.Add(1)
				return packet(&proto.ReplyHeader{Xid: h.Xid, Code: code})
			})}
			client := l.client(t)
			for range 3 {
				_, err := client.AddWatch(t.Context(), "/a", framework.WatchPersistent, func(zk.Event) {})
				require.ErrorIs(t, err, framework.ErrWatchUnsupported)
			}
			assert.EqualValues(t, 1, asked.Load())
		})
	}
}

// TestAnswersOfAFollowerAloneDoNotProlong has a follower that is cut off from its leader answer what it can by
// itself: pings, and syncs with a code of its own. Nobody who depends on the session may believe it.
func TestAnswersOfAFollowerAloneDoNotProlong(t *testing.T) { // issue 10, A6
	for _, code := range []proto.Code{proto.Throttled, proto.NoAuth} {
		synctest.Test(t, func(t *testing.T) {
			var off atomic.Bool
			honest := fine(nil)
			l := &scripted{welcome: welcome(7, 10*time.Second), answer: func(h proto.RequestHeader, body []byte) []byte {
				if h.Op == proto.OpSync && off.Load() {
					return packet(&proto.ReplyHeader{Xid: h.Xid, Code: code})
				}
				return honest(h, body)
			}}
			client := l.client(t)
			session, err := client.Session(t.Context())
			require.NoError(t, err)
			_, err = session.Depend(connstate.Session, func(error) {})
			require.NoError(t, err)
			time.Sleep(time.Minute) // virtual time, in which the session must live on
			require.NoError(t, session.Err(), "the leader answers")
			off.Store(true)
			began := time.Now()
			select {
			case <-session.Done():
			case <-time.After(time.Minute):
			}
			require.Less(t, time.Since(began), 10*time.Second, "before the leader ends it")
		})
	}
}

// TestAMultiWithTooFewResultsMayHaveBeenCarriedOut: the server has answered, but not that it refused.
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
