package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
)

// TestAServerThatRunsAloneForgetsASession ends a session over one connection, when it was just
// resumed over another one. The requests of a busy client before and after that keep the server
// busy: it reads a request of the second connection, and forgets the session before it processes
// it. Then ZooKeeper 3.8.0 and 3.9.6 answer with the code -12, or with the code of an expired
// session, or not at all. The server must have read the end of the session before the second
// connection arrives, since it closes the first one then.
func TestAServerThatRunsAloneForgetsASession(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly) // a busy machine needs many tries, of half a minute each
	// The requests of the busy client take more than the usual 256 MB on a slow machine.
	e := ensemble.New(t, ensemble.WithServers(1), ensemble.WithEnv("SERVER_JVMFLAGS", "-Xmx1g"))
	open := func(hello Hello) (*Conn, *bytes.Buffer, error) {
		nc, err := net.Dial("tcp", e.Servers()[0])
		require.NoError(t, err)
		hello.Timeout = 40 * time.Second // the longest that the server grants
		said := &recorded{Conn: nc}
		c, err := Open(t.Context(), said, hello)
		if err == nil {
			c.Start(Handlers{Answered: func(Answer) error { return nil }, Ended: func() {}})
		}
		return c, &said.said, err
	}
	// begin begins a session. A server that is slower than the session may hang up. The proxy before
	// a server that has exited for lack of memory hangs up until the server is started.
	begin := func() *Conn {
		for {
			c, _, err := open(Hello{})
			if err == nil {
				return c
			}
			require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), err)
			_ = e.StartServer(0) // an error if it runs
		}
	}
	checks := func(n int) *proto.MultiRequest {
		check := proto.MultiOp{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: "/", Version: -1}}
		return &proto.MultiRequest{Ops: slices.Repeat([]proto.MultiOp{check}, n)}
	}
	keepBusy := func(busy *Conn, requests int) (last outcome) {
		for range requests {
			last = send(busy, proto.OpMulti, checks(20_000))
		}
		return last
	}
	// forgotten ends a session with so many requests of the busy client behind that, and reports
	// whether the server has answered that it does not know the session. How many are right depends
	// on the machine.
	forgotten := func(behind int) (unknown bool) {
		busy := begin()
		defer busy.CloseSession(context.Background())
		first := begin()
		n := received(t, e.Servers()[0], busy)
		keepBusy(busy, 6)
		await(t, e.Servers()[0], busy, n+6)
		first.Send(&Request{Op: proto.OpCloseSession, Frame: Begin(0), Handler: make(outcome, 1)})
		await(t, e.Servers()[0], first, 2) // with the connect request
		done := keepBusy(busy, behind)
		second, said, err := open(Hello{Session: first.Grant.Session, Password: first.Grant.Password})
		if err == nil {
			answered := send(second, proto.OpMulti, checks(1))
			<-done // an error if the machine was slower than the session
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
	// an idle machine needs two tries with 6
	for behind := 6; !forgotten(behind); behind = 2 + behind%12 {
	}
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
	require.Eventually(t, func() bool { return received(t, server, c) >= n }, 10*time.Minute, time.Millisecond)
}

// received returns how many packets a server has read of a connection; of one that it has closed,
// more than any.
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
