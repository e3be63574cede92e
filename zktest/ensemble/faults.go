package ensemble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/ory/dockertest/v3/docker"
)

// StartServer starts server i, with its data, if it is stopped or killed. To wait until it serves,
// call [Ensemble.WaitForQuorum].
func (e *Ensemble) StartServer(i int) error {
	return e.on(i, "start", func(s *server) error { return e.docker.StartContainer(s.container, nil) })
}

// StopServer stops the container of server i gracefully, with 10 s for the process to exit.
func (e *Ensemble) StopServer(i int) error {
	return e.on(i, "stop", func(s *server) error { return e.docker.StopContainer(s.container, 10) })
}

// KillServer kills the process of server i with SIGKILL.
func (e *Ensemble) KillServer(i int) error {
	return e.on(i, "kill", func(s *server) error {
		return e.docker.KillContainer(docker.KillContainerOptions{ID: s.container, Signal: docker.SIGKILL})
	})
}

// PauseServer suspends the process of server i. Its connections stay open.
func (e *Ensemble) PauseServer(i int) error {
	return e.on(i, "pause", func(s *server) (err error) {
		for range pauseTries {
			if err = e.docker.PauseContainer(s.container); err == nil || !strings.Contains(err.Error(), "unable to freeze") {
				break
			}
		}
		return err
	})
}

// pauseTries is how often a server is tried to be paused. The kernel may not stop all of its
// threads in time on a busy machine, and then the engine lets them run again.
const pauseTries = 10

// ResumeServer continues server i after [Ensemble.PauseServer].
func (e *Ensemble) ResumeServer(i int) error {
	return e.on(i, "resume", func(s *server) error { return e.docker.UnpauseContainer(s.container) })
}

// Partition disconnects server i from its peers until [Ensemble.Heal]. Clients can still reach it.
func (e *Ensemble) Partition(i int) error {
	return e.on(i, "partition", func(s *server) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cut {
			return nil
		}
		err := e.docker.DisconnectNetwork(e.peers.ID, docker.NetworkConnectionOptions{Container: s.container, Force: true})
		s.cut = err == nil
		return err
	})
}

// Freeze drops all packets between clients and server i until [Ensemble.Heal]. No connection is
// closed.
func (e *Ensemble) Freeze(i int) error {
	return e.on(i, "freeze", func(s *server) error {
		s.proxy.freeze()
		return nil
	})
}

// CutConnections closes all client connections of server i. The clients may reconnect at once.
func (e *Ensemble) CutConnections(i int) error {
	return e.on(i, "cut the connections of", func(s *server) error {
		s.proxy.cut()
		return nil
	})
}

// RefuseConnections makes server i refuse new client connections until [Ensemble.Heal]. Existing
// connections continue.
func (e *Ensemble) RefuseConnections(i int) error {
	return e.on(i, "refuse connections to", func(s *server) error {
		s.proxy.refuse(true)
		return nil
	})
}

// Heal removes all partitions, freezes and refusals of connections. Paused and stopped servers
// remain paused and stopped.
func (e *Ensemble) Heal() error {
	var errs []error
	for i, s := range e.servers {
		s.proxy.thaw()
		s.proxy.refuse(false)
		errs = append(errs, e.on(i, "heal", func(s *server) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.cut {
				return nil
			}
			err := e.joinPeers(s)
			s.cut = err != nil
			return err
		}))
	}
	return errors.Join(errs...)
}

func (e *Ensemble) on(i int, what string, f func(*server) error) error {
	if i < 0 || i >= len(e.servers) {
		return fmt.Errorf("ensemble: %s server %d: number must be 0 to %d", what, i, len(e.servers)-1)
	}
	if err := f(e.servers[i]); err != nil {
		return fmt.Errorf("ensemble: %s server %d: %w", what, i, err)
	}
	return nil
}

// word asks a server a four-letter word.
func (e *Ensemble) word(ctx context.Context, i int, word string) (string, error) {
	conn, err := e.dial(ctx, i)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	if err == nil && len(text) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return string(text), err
}

// dial connects to a server past its proxy, which may be frozen.
func (e *Ensemble) dial(ctx context.Context, i int) (net.Conn, error) {
	address, err := e.published(e.servers[i])
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// A paused server accepts, and does not answer.
	return conn, conn.SetDeadline(time.Now().Add(2 * time.Second))
}

// ExpireSession expires the session of any client on any server, and returns when it has expired.
// The client notices when it reconnects. An expired session is not an error.
//
// ExpireSession takes the session over, with the password that servers derive from the id, and
// closes it.
func (e *Ensemble) ExpireSession(ctx context.Context, id int64) error {
	if id == 0 {
		return errors.New("ensemble: invalid session id 0")
	}
	// Its owner reconnects at once, and may take the session back before it is closed.
	return poll(ctx, fmt.Sprintf("session %#x to expire", id), func() error {
		var errs []error
		for i := range e.servers {
			gone, err := e.closeSession(ctx, i, id)
			if gone {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// closeSession takes a session over and closes it. gone reports that the server no longer knew it;
// the next attempt shows whether it is closed now.
func (e *Ensemble) closeSession(ctx context.Context, i int, id int64) (gone bool, err error) {
	conn, err := e.dial(ctx, i)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	// Both requests are sent at once, which leaves the owner little time to interfere.
	req := binary.BigEndian.AppendUint32(nil, 44)    // length of the connect request
	req = binary.BigEndian.AppendUint32(req, 0)      // protocol version
	req = binary.BigEndian.AppendUint64(req, 0)      // last zxid seen
	req = binary.BigEndian.AppendUint32(req, 10_000) // timeout, ms
	req = binary.BigEndian.AppendUint64(req, uint64(id))
	req = binary.BigEndian.AppendUint32(req, 16)
	req = append(req, password(id)...)
	req = binary.BigEndian.AppendUint32(req, 8)           // length of the close request
	req = binary.BigEndian.AppendUint32(req, 1)           // xid
	req = binary.BigEndian.AppendUint32(req, ^uint32(10)) // closeSession, -11
	if _, err := conn.Write(req); err != nil {
		return false, err
	}
	var reply [20]byte // length, version, timeout, id
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return false, err
	}
	if binary.BigEndian.Uint64(reply[12:]) == 0 {
		return true, nil
	}
	_, _ = io.Copy(io.Discard, conn) // until the server hangs up, when it is done
	return false, fmt.Errorf("session %#x was still alive", id)
}

// password returns a session's password as servers derive it: the first 16 bytes of
// java.util.Random with a seed from the id.
func password(id int64) []byte {
	const mask = 1<<48 - 1
	seed := (uint64(id) ^ 0xB3415C00 ^ 0x5DEECE66D) & mask
	p := make([]byte, 16)
	for i := 0; i < len(p); i += 4 {
		seed = (seed*0x5DEECE66D + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(seed>>16))
	}
	return p
}
