package wire

import (
	"encoding/binary"
	"maps"
	"net"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// TestClientIsHeardWhileTheServerWorks has a client ping while the server is busy with other work.
func TestClientIsHeardWhileTheServerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone()
		defer s.Wait()
		defer stop(s)
		client, server := net.Pipe()
		require.NoError(t, s.Accept(server, nil))
		defer client.Close()
		hello := proto.ConnectRequest{Timeout: 4000, Password: make([]byte, 16)}
		_, err := client.Write(proto.Seal(hello.Append(proto.Begin(0))))
		require.NoError(t, err)
		var size [4]byte
		_, err = client.Read(size[:])
		require.NoError(t, err)
		_, err = client.Read(make([]byte, binary.BigEndian.Uint32(size[:])))
		require.NoError(t, err)

		time.Sleep(3 * time.Second)
		s.Lock() // the server works
		ping := proto.RequestHeader{Xid: proto.XidPing, Op: proto.OpPing}
		_, err = client.Write(proto.Seal(ping.Append(proto.Begin(0))))
		require.NoError(t, err)
		for c := range s.conns {
			// the client's write has returned, the server's read is about to
			for c.heardAt.Load() == 0 {
				runtime.Gosched() // virtual time stands still while a goroutine waits for the mutex
			}
		}
		s.Unlock()
		time.Sleep(3 * time.Second)
		require.Len(t, sessions(s), 1, "heard at 3 s, so it lives at 6 s")
		time.Sleep(3 * time.Second)
		require.Empty(t, sessions(s))
	})
}

// noHooks are the hooks of a server without a test.
type noHooks struct{}

func (noHooks) Describe(Request) (string, string)      { return "", "" }
func (noHooks) Name(int) string                        { return "" }
func (noHooks) Received()                              {}
func (noHooks) Pass(Request) bool                      { return true }
func (noHooks) Plan(Request) func() Fate               { return nil }
func (noHooks) Answered(Request, Fate, func() string)  {}
func (noHooks) Notified(int64, tree.EventType, string) {}

// alone returns a running server without a cluster.
func alone() *Server {
	cfg := Config{
		Rules:  tree.Rules{Version: tree.Newest},
		Timing: Timing{Tick: 2 * time.Second, MinTimeout: 4 * time.Second, MaxTimeout: 40 * time.Second},
		Limits: Limits{Containers: true, MaxFrame: 1 << 20},
	}
	quorum := cluster.NewAlone(cfg.Rules, cfg.Tick)
	s := New(cfg, quorum, noHooks{}, "")
	s.Lock()
	s.Start()
	s.Unlock()
	s.Go(func() { quorum.Run(s.Done()) })
	return s
}

func stop(s *Server) {
	s.Lock()
	defer s.Release()
	s.Close()
}

// sessions lists the ids of the sessions.
func sessions(s *Server) []int64 {
	s.Lock()
	defer s.Unlock()
	return slices.Collect(maps.Keys(s.Sessions))
}
