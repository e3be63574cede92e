package framework

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

// replyTo is a server's answer.
func replyTo(xid int32, code int32, body []byte) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(xid))
	frame = binary.BigEndian.AppendUint64(frame, 7) // zxid
	frame = binary.BigEndian.AppendUint32(frame, uint32(code))
	return sealed(append(frame, body...))
}

func TestMalformedRepliesAreErrors(t *testing.T) {
	stat := make([]byte, 68)
	data := append(appendBytes(nil, []byte("data")), stat...)
	list := append(appendBytes(appendBytes([]byte{0, 0, 0, 2}, []byte("a")), []byte("b")), stat...)
	for n := range len(data) {
		_, err := parseReply(replyTo(1, 0, data[:n]), askGet("/a", false).parse)
		require.ErrorIs(t, err, errShortReply, "data cut to %d bytes", n)
	}
	for n := range len(list) {
		_, err := parseReply(replyTo(1, 0, list[:n]), askChildren("/a", false).parse)
		require.ErrorIs(t, err, errShortReply, "list cut to %d bytes", n)
	}
	for name, body := range map[string][]byte{
		"endless list":     {0x7f, 0xff, 0xff, 0xff},
		"negative list":    {0x80, 0, 0, 0},
		"endless element":  {0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff},
		"negative element": {0, 0, 0, 1, 0x80, 0, 0, 0},
	} {
		_, err := parseReply(replyTo(1, 0, body), askChildren("/a", false).parse)
		require.ErrorIs(t, err, errShortReply, name)
	}
	_, err := parseReply(replyTo(1, 0, nil)[:12], askDelete("/a", -1).parse)
	require.ErrorIs(t, err, errShortReply, "half a header")
	got, err := parseReply(replyTo(1, 0, data), askGet("/a", false).parse)
	require.NoError(t, err)
	require.Equal(t, "data", string(got.value))
}

func FuzzParseReply(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 'a'})
	f.Fuzz(func(_ *testing.T, body []byte) {
		_, _ = parseReply(replyTo(1, 0, body), askChildren("/a", false).parse)
		_, _ = parseReply(replyTo(1, 0, body), askGet("/a", false).parse)
		_, _ = parseReply(replyTo(1, 0, body), askCreate("/a", nil, nil, Persistent, 0).parse)
	})
}

// TestErrorsAreGoZookeepers compares what we make of an error code with what go-zookeeper makes
// of it, by an operation that goes through its Conn.
func TestErrorsAreGoZookeepers(t *testing.T) {
	require.Equal(t, zk.ErrNoNode, codeError(-101))
	require.EqualError(t, codeError(-4), "unknown error: -4", "package retry knows this text")
	server := zktest.NewServer(t)
	client, err := New(server.Servers())
	require.NoError(t, err)
	defer client.Close()
	_, _, ours := client.Get(t.Context(), "/missing")
	_, theirs := client.Set(t.Context(), "/missing", nil, -1)
	require.ErrorIs(t, ours, zk.ErrNoNode)
	require.ErrorIs(t, theirs, zk.ErrNoNode)
}

// wireTo returns a wire to a peer that the test plays, with its writeLoop running.
func wireTo(t *testing.T, conn net.Conn) *wire {
	t.Helper()
	w := newWire(conn, bufio.NewReader(conn), grant{}, func(answer) {})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.writeLoop()
	}()
	t.Cleanup(func() {
		w.Close()
		<-done
	})
	return w
}

func ownDelete(reply func([]byte, error)) *ownRequest {
	return &ownRequest{op: opDelete, frame: append(header(0, opDelete), askDelete("/a", -1).body...), reply: reply}
}

func TestSendingDoesNotWaitForAPeerThatDoesNotRead(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	w := wireTo(t, near)
	errs := make(chan error, 2)
	for range 2 {
		w.send(ownDelete(func(_ []byte, err error) { errs <- err })) // returns at once, or the test hangs
	}
	w.Close()
	for range 2 {
		require.Error(t, <-errs, "whoever waits hears of the end")
	}
	w.send(ownDelete(func(_ []byte, err error) { errs <- err }))
	require.ErrorIs(t, <-errs, zk.ErrNoServer, "nothing is sent any more")
}

func TestAWriteThatCouldWaitIsLeftToTheLoop(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	far, err := listener.Accept()
	require.NoError(t, err)
	defer far.Close()
	w := wireTo(t, near)
	const n = 100_000 // more than any buffer on the way has room for
	answered := make(chan error, n)
	for range n {
		w.send(ownDelete(func(_ []byte, err error) { answered <- err }))
	}
	go func() { // the peer wakes up, reads all and answers in order
		in := bufio.NewReader(far)
		for {
			frame, err := readFrame(in)
			if err != nil {
				return
			}
			xid, _, _ := requestHeader(frame)
			if _, err := far.Write(replyTo(xid, -101, nil)); err != nil {
				return
			}
		}
	}()
	var b [1]byte
	w.greeted, w.pending = true, nil
	go func() { _, _ = w.Read(b[:]) }() // as the Conn does; it gets none of these answers
	for range n {
		require.NoError(t, <-answered)
	}
}

func TestCancelledWhileTheServerDoesNotRead(t *testing.T) {
	server := zktest.NewServer(t)
	client, err := New(server.Servers())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.WaitConnected(t.Context()))
	server.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	for range 1000 {
		_, _, err := client.Get(ctx, "/a")
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Less(t, time.Since(began), 10*time.Second)
	server.Thaw()
}
