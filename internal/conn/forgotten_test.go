package conn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed/ensemble"
)

// TestAServerThatRunsAloneForgetsASession ends a session over one connection, when it has just come back over another one. The requests of
// a busy client before and behind that let the server take in what the second connection sends, and forget the session before it
// comes to that. Then ZooKeeper 3.8.0 and 3.9.6 answer with the code -12, or with that of an expired session, or not at all. The server must
// have read the end of the session before the other connection comes, for which it closes the first one.
func TestAServerThatRunsAloneForgetsASession(t *testing.T) {
	e := ensemble.Start(t, ensemble.WithServers(1))
	open := func(hello Hello) (*Conn, *bytes.Buffer, error) {
		nc, err := net.Dial("tcp", e.Servers()[0])
		require.NoError(t, err)
		hello.Timeout = 10 * time.Second
		said := &recorded{Conn: nc}
		c, err := Open(t.Context(), said, hello)
		if err == nil {
			c.Start(Handlers{Answered: func(Answer) error { return nil }, Ended: func() {}})
		}
		return c, &said.said, err
	}
	checks := func(n int) []byte {
		var r proto.MultiRequest
		for range n {
			r.Ops = append(r.Ops, proto.MultiOp{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: "/", Version: -1}})
		}
		return r.Append(Begin(64))
	}
	send := func(c *Conn, op proto.Op, frame []byte) outcome {
		answered := make(outcome, 1)
		c.Send(&Request{Op: op, Frame: frame, Handler: answered})
		return answered
	}
	busy, _, err := open(Hello{})
	require.NoError(t, err)
	keepBusy := func() (last outcome) {
		for range 6 {
			last = send(busy, proto.OpMulti, checks(20_000))
		}
		return last
	}
	// forgotten ends a session, and reports whether the server has answered that it does not know it.
	forgotten := func() (unknown bool) {
		first, _, err := open(Hello{})
		require.NoError(t, err)
		n := received(t, e.Servers()[0], busy)
		keepBusy()
		await(t, e.Servers()[0], busy, n+6)
		send(first, proto.OpCloseSession, Begin(0))
		await(t, e.Servers()[0], first, 2) // with the connect request
		done := keepBusy()
		second, said, err := open(Hello{Session: first.Grant.Session, Password: first.Grant.Password})
		if err == nil {
			answered := send(second, proto.OpMulti, checks(1))
			require.NoError(t, <-done)
			second.Close(nil)
			<-second.Done()
			unknown = bytes.Contains(said.Bytes(), []byte{0xff, 0xff, 0xff, 0xf4}) // -12
			answer := <-answered
			require.Contains(t, []error{zk.ErrSessionExpired, zk.ErrConnectionClosed}, answer)
			require.True(t, !unknown || answer == zk.ErrSessionExpired, answer)
		}
		first.Close(nil)
		<-first.Done()
		return unknown
	}
	for n := 0; !forgotten(); n++ { // of two, it does so once
		require.Less(t, n, 30, "the server has always come to it too early or too late")
	}
	busy.CloseSession(context.Background())
}

// recorded is a connection that records what is read.
type recorded struct {
	net.Conn
	said bytes.Buffer
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.said.Write(p[:n])
	return n, err
}

// await waits until a server has read n packets of a connection, or has closed it.
func await(t *testing.T, server string, c *Conn, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return received(t, server, c) >= n }, 30*time.Second, time.Millisecond)
}

// received returns how many packets a server has read of a connection; of one that it has closed, more than any.
func received(t *testing.T, server string, c *Conn) int {
	t.Helper()
	nc, err := net.Dial("tcp", server)
	require.NoError(t, err)
	defer nc.Close()
	_, err = io.WriteString(nc, "cons")
	require.NoError(t, err)
	text, err := io.ReadAll(nc)
	require.NoError(t, err)
	line := regexp.MustCompile(fmt.Sprintf(`recved=(\d+),.*sid=%#x,`, uint64(c.Grant.Session))).FindSubmatch(text)
	if line == nil {
		return math.MaxInt
	}
	n, err := strconv.Atoi(string(line[1]))
	require.NoError(t, err)
	return n
}
