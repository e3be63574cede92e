package zktest

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientIsHeardWhileTheServerWorks has a client ping while the server is busy with other work.
func TestClientIsHeardWhileTheServerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, WithInMemory())
		client, err := s.Dial("", "", 0)
		require.NoError(t, err)
		defer client.Close()
		var hello writer
		hello.int32(0)
		hello.int64(0)
		hello.int32(4000)
		hello.int64(0)
		hello.bytes(make([]byte, 16))
		_, err = client.Write(frame(hello.buf))
		require.NoError(t, err)
		var size [4]byte
		_, err = client.Read(size[:])
		require.NoError(t, err)
		_, err = client.Read(make([]byte, binary.BigEndian.Uint32(size[:])))
		require.NoError(t, err)

		time.Sleep(3 * time.Second)
		s.mu.Lock() // the server works
		var ping writer
		ping.int32(-2)
		ping.int32(int32(OpPing))
		_, err = client.Write(frame(ping.buf))
		require.NoError(t, err)
		for c := range s.conns {
			for c.heardAt.Load() == 0 { // the client's write has returned, the server's read is about to
				time.Sleep(time.Microsecond)
			}
		}
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		require.Len(t, s.Sessions(), 1, "heard at 3 s, so it lives at 6 s")
		time.Sleep(3 * time.Second)
		require.Empty(t, s.Sessions())
	})
}
