package framework_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

// zombie is a connection whose server has forgotten the session: once it is told to, it answers
// writes with "session expired", and everything else as ever.
type zombie struct {
	net.Conn
	in      *bufio.Reader
	pending []byte
	dead    *atomic.Int64 // the session that has ended
	session int64
	writes  chan int32 // xids
}

func (z *zombie) Write(frames []byte) (int, error) {
	for rest := frames; len(rest) >= 12; { // requests that were waiting are written together
		frame := rest[:4+binary.BigEndian.Uint32(rest)]
		rest = rest[len(frame):]
		switch op := zktest.Op(binary.BigEndian.Uint32(frame[8:])); op {
		case zktest.OpCreate, zktest.OpDelete, zktest.OpSetData:
			z.writes <- int32(binary.BigEndian.Uint32(frame[4:]))
		}
	}
	return z.Conn.Write(frames)
}

func (z *zombie) Read(p []byte) (int, error) {
	if len(z.pending) == 0 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(z.in, head); err != nil {
			return 0, err
		}
		frame := append(head, make([]byte, binary.BigEndian.Uint32(head))...)
		if _, err := io.ReadFull(z.in, frame[4:]); err != nil {
			return 0, err
		}
		if z.session == 0 { // the answer to the handshake
			z.session = int64(binary.BigEndian.Uint64(frame[12:]))
		} else if xid := int32(binary.BigEndian.Uint32(frame[4:])); xid > 0 && z.dead.Load() == z.session {
			select {
			case write := <-z.writes:
				if write == xid {
					expired := int32(-112)
					binary.BigEndian.PutUint32(frame[16:], uint32(expired))
					binary.BigEndian.PutUint32(frame, 16)
					frame = frame[:20]
				}
			default:
			}
		}
		z.pending = frame
	}
	n := copy(p, z.pending)
	z.pending = z.pending[n:]
	return n, nil
}

// TestServerThatSaysExpiredEndsTheSession is about a server that goes on answering pings for a
// session that has ended. Seen on an ensemble, after a session was ended while its client came back.
func TestServerThatSaysExpiredEndsTheSession(t *testing.T) {
	server := zktest.NewServer(t)
	var dead atomic.Int64
	client, err := framework.New(server.Servers(), framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &zombie{Conn: conn, in: bufio.NewReader(conn), dead: &dead, writes: make(chan int32, 100)}, err
	}))
	require.NoError(t, err)
	defer client.Close()
	ctx := testbed.Context(t)
	session, err := client.Session(ctx)
	require.NoError(t, err)
	told := make(chan error, 1)
	_, err = session.Depend(connstate.Session, func(err error) { told <- err })
	require.NoError(t, err)

	dead.Store(session.ID())
	_, err = client.DeleteGuaranteed(ctx, "/a") // of whichever session
	require.NoError(t, err, "it is done in the next one")
	require.ErrorIs(t, testbed.Receive(t, told, "word of the end"), framework.ErrSessionLost)
	require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
	next, err := client.Session(ctx)
	require.NoError(t, err)
	require.NotEqual(t, session.ID(), next.ID())
}
