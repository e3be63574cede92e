package zktest

import (
	"encoding/binary"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
)

// TestClientIsHeardWhileTheServerWorks has a client ping while the server is busy with other work.
func TestClientIsHeardWhileTheServerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, WithInMemory())
		client, err := s.Dial("", "", 0)
		require.NoError(t, err)
		defer client.Close()
		hello := proto.ConnectRequest{Timeout: 4000, Password: make([]byte, 16)}
		_, err = client.Write(proto.Seal(hello.Append(proto.Begin(0))))
		require.NoError(t, err)
		var size [4]byte
		_, err = client.Read(size[:])
		require.NoError(t, err)
		_, err = client.Read(make([]byte, binary.BigEndian.Uint32(size[:])))
		require.NoError(t, err)

		time.Sleep(3 * time.Second)
		s.mu.Lock() // the server works
		ping := proto.RequestHeader{Xid: proto.XidPing, Op: proto.OpPing}
		_, err = client.Write(proto.Seal(ping.Append(proto.Begin(0))))
		require.NoError(t, err)
		for c := range s.conns {
			for c.heardAt.Load() == 0 { // the client's write has returned, the server's read is about to
				runtime.Gosched() // virtual time stands still while somebody waits for the mutex
			}
		}
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		require.Len(t, s.Sessions(), 1, "heard at 3 s, so it lives at 6 s")
		time.Sleep(3 * time.Second)
		require.Empty(t, s.Sessions())
	})
}
