package conn_test

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

type replied chan struct{}

func (r replied) Reply(*proto.Decoder, error) { r <- struct{}{} }

// TestALongRequestIsNotCopied before it is written.
func TestALongRequestIsNotCopied(t *testing.T) {
	client, server := net.Pipe()
	go func() { // a server that grants a session, and answers one request that has the number 1
		defer server.Close()
		if _, err := proto.ReadFrame(server, 1<<10); err != nil {
			return
		}
		grant := proto.ConnectResponse{Timeout: 60_000, Session: 1, Password: make([]byte, 16)}
		_, _ = server.Write(proto.Seal(grant.Append(proto.Begin(64))))
		_, _ = io.CopyN(io.Discard, server, 4+8+1<<20)
		header := proto.ReplyHeader{Xid: 1, Zxid: 1}
		_, _ = server.Write(proto.Seal(header.Append(proto.Begin(64))))
		_, _ = io.Copy(io.Discard, server)
	}()
	c, err := conn.Open(t.Context(), client, conn.Hello{Timeout: time.Minute})
	require.NoError(t, err)
	c.Start(conn.Handlers{Answered: func(conn.Answer) error { return nil }, Ended: func() {}})
	frame := append(conn.Begin(1<<20), make([]byte, 1<<20)...)
	done := make(replied, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.Send(&conn.Request{Op: proto.OpSetData, Frame: frame, Handler: done})
	<-done
	runtime.ReadMemStats(&after)
	require.Less(t, int(after.TotalAlloc-before.TotalAlloc), 1<<19)
	c.Close(nil)
	<-c.Done()
}
