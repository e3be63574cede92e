package cache_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// Paths with millions of elements cost neither a stack frame nor a search for each of them.
func TestCache_LongPaths(t *testing.T) {
	paths := []string{strings.Repeat("/", 12<<20), strings.Repeat("/a", 6<<20)}
	server, events := zktest.NewServer(t), paths
	server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		for _, path := range events { // behind the answer to the first read
			header, event := proto.ReplyHeader{Xid: -1, Zxid: 2}, proto.WatcherEvent{Type: 1, State: 3, Path: path}
			answer = append(answer, proto.Seal(event.Append(header.Append(proto.Begin(64))))...)
		}
		events = nil
		return answer
	}, zktest.OnOp("getData"))
	c := load(t, testbed.NewClient(t, server.Servers()), "/")
	require.Empty(t, events)
	require.EqualValues(t, 1, c.Stats().Resyncs, "they do not end the connection")
	for _, path := range paths {
		require.False(t, has(c, path))
	}
	require.True(t, has(c, "/"))
}
