package zktest

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/tree"
	"github.com/gocurator/curator/zktest/internal/wire"
)

// ErrClosed is returned after the server was closed.
var ErrClosed = cluster.ErrClosed

// T is the part of *testing.T that a server needs.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// NewServer starts a server for a test, and closes it when the test completes. It fails the test if
// the server cannot start.
func NewServer(t T, opts ...Option) *Server {
	t.Helper()
	s, err := Start(opts...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	s.logf = t.Logf
	t.Cleanup(func() {
		explain(t, s.timeline)
		if err := s.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return s
}

// Server is a ZooKeeper server in this process. All methods are safe for concurrent use.
type Server struct {
	core     *wire.Server // its lock guards what follows, and the state of all packages below
	quorum   cluster.Quorum
	member   *cluster.Member // the quorum, if the server is a member of a cluster
	inMemory bool
	timeline *timeline.Recorder // nil without one
	logf     func(format string, args ...any)
	faults   faults

	listener  net.Listener // nil while stopped, and in memory
	listeners []*Listener  // listeners that Listen added
}

// Start starts a server. The caller must call [Server.Close]. It fails if an option is invalid, or
// if the server cannot listen.
func Start(opts ...Option) (*Server, error) {
	cfg, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if name := cfg.clusterOnly; name != "" {
		return nil, fmt.Errorf("zktest: %s applies only to a cluster", name)
	}
	alone := cluster.NewAlone(cfg.Rules, cfg.Tick)
	s := newServer(cfg, alone, "127.0.0.1:2181")
	if err := s.listen(cfg.addr); err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	s.core.Lock()
	s.keeperConfig()
	s.core.Unlock()
	s.core.Go(func() { alone.Run(s.core.Done()) })
	s.core.Go(func() { alone.Scan(cfg.cluster.ContainerScan, s.core.Done()) })
	return s, nil
}

// newServer returns a server that does not listen.
func newServer(cfg config, q cluster.Quorum, addr string) *Server {
	s := &Server{
		quorum:   q,
		inMemory: cfg.inMemory,
		timeline: cfg.Timeline,
		logf:     func(format string, args ...any) { slog.Warn(fmt.Sprintf(format, args...)) },
	}
	s.core = wire.New(cfg.Config, q, &s.faults, addr)
	s.faults.core, s.faults.timeline = s.core, cfg.Timeline
	s.faults.addresses = s.frozenAddresses
	return s
}

// keeperConfig writes a Keeper's configuration, which has the server's address.
func (s *Server) keeperConfig() {
	if s.core.Tree.Rules.Keeper > tree.KeeperOld {
		s.core.Tree.InitConfig("/keeper/config", cluster.KeeperLine(1, s.core.Address()))
	}
}

// Addr returns the server's address as host:port. A server with [WithInMemory] does not listen on
// it.
func (s *Server) Addr() string {
	s.core.Lock()
	defer s.core.Unlock()
	return s.core.Address()
}

// Servers returns a list that contains only [Server.Addr], as clients take it.
func (s *Server) Servers() []string { return []string{s.Addr()} }

// closeReport is how long Close waits before it reports the reason.
const closeReport = 5 * time.Second

// Close stops the server, and waits for its goroutines. The error is always nil. A function passed
// to [Server.Trace] or [On] must not call Close.
//
// If Close takes more than five seconds, it logs the reason to the test, or to [log/slog] without
// one.
func (s *Server) Close() error {
	s.core.Lock()
	s.hangUp()
	s.core.Close()
	s.core.Release()
	report := time.AfterFunc(closeReport, func() { s.logf("%s", s.waitsFor()) })
	defer report.Stop()
	s.core.Wait()
	return nil
}

// waitsFor describes what keeps Close from returning.
func (s *Server) waitsFor() string {
	s.core.Lock()
	defer s.core.Unlock()
	who := s.core.Connections()
	count := len(who)
	if s.core.Delivering() {
		who = append(who, "a function given to Trace")
	}
	return fmt.Sprintf("zktest: Close waits for %d connections: %s", count, strings.Join(who, "; "))
}

// Stop cuts all connections and refuses new ones, as if the server's process had exited. Data,
// sessions and the address remain. Sessions do not expire until the server restarts, as in an
// ensemble without a quorum.
func (s *Server) Stop() {
	s.core.Lock()
	defer s.core.Release()
	s.hangUp()
	s.core.Halt()
	s.faults.sample()
}

// hangUp closes all listeners. The lock is held.
func (s *Server) hangUp() {
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
	for _, l := range s.listeners {
		l.close()
	}
}

// Restart starts the server with the same address and data, and first stops it if it runs or is
// paused. Each session's timeout starts again, as with a new leader. Faults of the network, such as
// [Server.Freeze], remain.
//
// Restart returns [ErrClosed] if the server is closed, and another error if it cannot listen.
func (s *Server) Restart() error {
	s.Stop()
	s.core.Lock()
	if s.core.Closed() {
		s.core.Unlock()
		return ErrClosed
	}
	s.core.Resume()
	addr := s.core.Address()
	s.core.Unlock()
	if err := s.listen(addr); err != nil {
		return err
	}
	s.core.Lock()
	s.core.Restarted()
	s.faults.sample()
	s.core.Release()
	return s.reopen()
}

// listen starts the process, at a TCP address unless it is in memory.
func (s *Server) listen(addr string) error {
	if s.inMemory {
		s.core.Lock()
		defer s.core.Unlock()
		s.core.Start()
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.core.Lock()
	defer s.core.Unlock()
	if s.core.Closed() {
		return errors.Join(ErrClosed, l.Close())
	}
	s.listener = l
	s.core.SetAddress(l.Addr().String())
	s.core.Start()
	s.core.Go(func() { // ends when l is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = s.core.Accept(c, nil) // closed if refused: the client notices
		}
	})
	return nil
}
