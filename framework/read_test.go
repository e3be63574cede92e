package framework_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

// answer is what a read without a waiting goroutine is told.
type answer struct {
	data []byte
	stat *zk.Stat
	err  error
}

// beginRead has answers go to a channel with room for a second one, which must not come.
func beginRead(ctx context.Context, client *framework.Client, path string) <-chan answer {
	answers := make(chan answer, 2)
	clientapi.Read(ctx, client, path, func(data []byte, stat *zk.Stat, err error) { answers <- answer{data, stat, err} })
	return answers
}

func TestReadIsLikeGet(t *testing.T) {
	seen := &record{}
	for name, opts := range map[string][]framework.Option{"": nil, "observed": {framework.WithObserver(seen.observer())}} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client, ctx := newClient(t, server, append(opts, framework.WithNamespace("ns"))...), testbed.Context(t)
			_, err := client.Create(ctx, "/a", []byte("data"), framework.ContainerParents())
			require.NoError(t, err)
			_, want, err := client.Get(ctx, "/a")
			require.NoError(t, err)
			before := 0
			if name != "" {
				before = seen.count()
			}
			got := testbed.Receive(t, beginRead(ctx, client, "/a"), "the answer")
			require.Equal(t, answer{[]byte("data"), want, nil}, got)
			got = testbed.Receive(t, beginRead(ctx, client, "/x"), "the answer that there is none")
			require.ErrorIs(t, got.err, zk.ErrNoNode)
			var op *framework.OpError
			require.ErrorAs(t, got.err, &op)
			require.Equal(t, "/x", op.Path)
			if name != "" {
				require.Equal(t, before+2, seen.count())
				require.Equal(t, "get", seen.last().Op)
			}
		})
	}
}

// TestReadIsAskedOnce: the answer to a read that the connection did not outlive is that, and no other attempt follows.
func TestReadIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		gate := server.BlockReplies(zktest.OnOp(zktest.OpGetData))
		answers := beginRead(t.Context(), client, "/")
		testbed.Receive(t, gate.Arrived(), "the request")
		server.CutConnections()
		require.ErrorIs(t, testbed.Receive(t, answers, "the error").err, zk.ErrConnectionClosed)
		gate.Open()
		require.NoError(t, client.WaitConnected(t.Context()))
		time.Sleep(time.Second) // virtual time, in which no second answer may come
		require.Empty(t, answers)
		require.Equal(t, 1, server.Requests().Requests[zktest.OpGetData])
	})
}

// TestReadTakesNoGoroutine while it waits for its answer.
func TestReadTakesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		gate := server.BlockReplies(zktest.OnOp(zktest.OpGetData))
		before := runtime.NumGoroutine()
		var all []<-chan answer
		for range 100 {
			all = append(all, beginRead(t.Context(), client, "/"))
		}
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine(), before+50)
		gate.Open()
		for _, answers := range all {
			require.NoError(t, testbed.Receive(t, answers, "an answer").err)
		}
	})
}

// TestReadWaitsForAConnection, and ends with the client.
func TestReadWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		disconnect := func() {
			server.RefuseConnections(true)
			server.CutConnections()
			synctest.Wait()
		}
		disconnect()
		answers := beginRead(t.Context(), client, "/")
		synctest.Wait()
		require.Empty(t, answers)
		server.RefuseConnections(false)
		require.NoError(t, testbed.Receive(t, answers, "the answer").err)

		disconnect()
		answers = beginRead(t.Context(), client, "/")
		synctest.Wait()
		client.Close()
		require.ErrorIs(t, testbed.Receive(t, answers, "the end").err, framework.ErrClosed)
		require.ErrorIs(t, testbed.Receive(t, beginRead(t.Context(), client, "/"), "the end").err, framework.ErrClosed)
	})
}

// TestReadComesInTheOrderOfTheConnection: an event that the server sent before an answer is told before it.
func TestReadComesInTheOrderOfTheConnection(t *testing.T) {
	server := zktest.NewServer(t)
	client, other, ctx := newClient(t, server), newClient(t, server), testbed.Context(t)
	_, err := other.Create(ctx, "/a", nil)
	require.NoError(t, err)
	told := make(chan string, 300)
	_, err = client.AddWatch(ctx, "/a", framework.WatchPersistent, func(zk.Event) { told <- "event" })
	require.NoError(t, err)
	for range 100 {
		_, err := other.Set(ctx, "/a", nil, -1)
		require.NoError(t, err)
		clientapi.Read(ctx, client, "/a", func(_ []byte, _ *zk.Stat, err error) {
			if err == nil {
				told <- "answer"
			}
		})
		require.Equal(t, "event", testbed.Receive(t, told, "the first"))
		require.Equal(t, "answer", testbed.Receive(t, told, "the second"))
	}
}

// TestReadOfAnswerThatIsTooShort: it is an error, not half a stat, and the connection ends.
func TestReadOfAnswerThatIsTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
			return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.NumberResponse{})
		})}
		client := l.client(t)
		require.NoError(t, client.WaitConnected(t.Context()))
		got := testbed.Receive(t, beginRead(t.Context(), client, "/a"), "the error")
		require.ErrorIs(t, got.err, zk.ErrConnectionClosed)
		require.ErrorIs(t, got.err, proto.ErrMalformed)
		require.Nil(t, got.stat)
	})
}
