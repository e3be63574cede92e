package zkconn_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

// TestEachMemberBehindOneNameIsTried: a member without a quorum accepts and hangs up. It was the
// only one that was tried. go-zookeeper resolves names itself, and its dialer is given addresses.
func TestEachMemberBehindOneNameIsTried(t *testing.T) {
	resolve(t, func() (net.Conn, error) {
		near, far := net.Pipe()
		go answerDNS(far, [4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}) // ends when near is closed
		return near, nil
	})
	server := zktest.NewServer(t, zktest.WithInMemory())
	for range 5 { // the order is random
		conn, _, err := zkconn.Connect([]string{"zk.test"}, 10*time.Second, zkconn.WithLogger(quiet{}),
			zkconn.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
				if address == "10.0.0.2:2181" {
					return server.Dial(network, server.Addr(), timeout)
				}
				near, far := net.Pipe()
				return near, far.Close()
			}))
		require.NoError(t, err)
		require.NoError(t, testbed.Err(conn.Exists("/")))
		require.Equal(t, "10.0.0.2:2181", conn.Server(), "as go-zookeeper says it")
		conn.Close()
	}
}

// TestConnect_UnresolvableName: Connect succeeds, and an operation fails.
func TestConnect_UnresolvableName(t *testing.T) {
	resolve(t, func() (net.Conn, error) { return nil, io.ErrClosedPipe })
	conn, _, err := zkconn.Connect([]string{"zk.test"}, 10*time.Second, zkconn.WithLogger(quiet{}))
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, zkconn.ErrNoServer, testbed.Err(conn.Exists("/")))
}

// resolve has names resolved over connections of dial.
func resolve(t *testing.T, dial func() (net.Conn, error)) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return dial()
	}}
}

// answerDNS answers all questions of a connection: every name has these addresses, and none of
// IPv6.
func answerDNS(nc net.Conn, addresses ...[4]byte) {
	defer nc.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(nc, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(nc, query); err != nil {
			return
		}
		end := 12 // of the header, and then of the question
		for query[end] != 0 {
			end += 1 + int(query[end])
		}
		end += 5
		found := addresses
		if kind := binary.BigEndian.Uint16(query[end-4:]); kind != 1 { // A
			found = nil
		}
		// the length, and the query's id
		answer := append([]byte{0, 0}, query[:2]...)
		// an answer to one question
		answer = append(answer, 0x81, 0x80, 0, 1, 0, byte(len(found)), 0, 0, 0, 0)
		answer = append(answer, query[12:end]...)
		for _, a := range found {
			// the name of the question has the address
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			answer = append(answer, a[:]...)
		}
		binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
		if _, err := nc.Write(answer); err != nil {
			return
		}
	}
}
