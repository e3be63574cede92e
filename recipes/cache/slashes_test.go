package cache_test

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
)

// Paths with millions of elements cost neither a stack frame nor a search for each of them.
func TestCache_LongPaths(t *testing.T) {
	slashes, names := strings.Repeat("/", 12<<20), strings.Repeat("/a", 6<<20)
	client := testbed.NewClient(t, []string{serveEvents(t, slashes, names)})
	c, err := cache.New(client, "/")
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Sync(testbed.Context(t)), "the events come before the reply")
	for _, path := range []string{slashes, names} {
		_, found := c.Get(path)
		require.False(t, found)
	}
	_, found := c.Get("/")
	require.True(t, found)
}

// serveEvents starts a server of an empty tree. It sends an event for each of paths after the first
// read.
func serveEvents(t *testing.T, paths ...string) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() { // ends with the test
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serveEmpty(conn, paths)
			}()
		}
	}()
	return listener.Addr().String()
}

// serveEmpty answers the requests of a cache until the connection ends.
func serveEmpty(conn net.Conn, paths []string) {
	send := func(xid int32, body []byte) {
		header := proto.ReplyHeader{Xid: xid, Zxid: 2}
		_, _ = conn.Write(proto.Seal(append(header.Append(proto.Begin(64)), body...)))
	}
	if _, err := proto.ReadFrame(conn, 1<<20); err != nil {
		return
	}
	welcome := proto.ConnectResponse{Timeout: 20000, Session: 1, Password: []byte("0123456789abcdef"), HasReadOnly: true}
	_, _ = conn.Write(proto.Seal(welcome.Append(proto.Begin(64))))
	for {
		request, err := proto.ReadFrame(conn, 1<<20)
		if err != nil {
			return
		}
		var body []byte
		op := proto.Op(binary.BigEndian.Uint32(request[4:]))
		switch op {
		case proto.OpGetData:
			body = (&proto.Stat{Czxid: 1, Mzxid: 1}).Append(proto.AppendBytes(nil, []byte("x")))
		case proto.OpMulti:
			body = (&proto.MultiResponse{Results: []proto.MultiResult{{Op: proto.OpCheck}}}).Append(nil)
		case proto.OpAddWatch:
			body = make([]byte, 4)
		}
		send(int32(binary.BigEndian.Uint32(request)), body)
		if op == proto.OpGetData {
			for _, path := range paths {
				event := proto.WatcherEvent{Type: 1, State: 3, Path: path}
				send(-1, event.Append(nil))
			}
			paths = nil
		}
	}
}
