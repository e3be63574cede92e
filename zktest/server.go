package zktest

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed means that the server was closed.
var ErrClosed = errors.New("zktest: server closed")

// T is the part of *testing.T that a server needs.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// NewServer starts a server for a test, which ends with the test. If it cannot be started the
// test fails.
func NewServer(t T, opts ...Option) *Server {
	t.Helper()
	s, err := Start(opts...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	s.logf = t.Logf
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return s
}

// Server is a ZooKeeper server in this process. All methods are safe for concurrent use.
type Server struct {
	cfg    config
	member *member // nil: not of a cluster
	logf   func(format string, args ...any)
	done   chan struct{} // closed by Close
	wg     sync.WaitGroup

	made time.Time // heardAt of connections is counted from here

	// Locks are taken in this order: mu, then that of a queue. No user's code runs, and
	// nothing is waited for, with either.
	*shared     // with the other members of a cluster. Its mu guards what follows
	tree        *tree
	watching    watchIndex
	sessions    map[int64]*session
	lastSession int64
	challenges  int // of SASL that were sent
	tracker     *tracker
	conns       map[*conn]struct{}
	addr        string
	listener    net.Listener  // nil while stopped, and in memory
	listeners   []*Listener   // beside that
	ahead       time.Duration // see Advance
	stopped     bool
	closed      bool

	refuses   refusals
	frozenAll bool
	frozen    map[int64]bool // links, by session
	paused    time.Time      // since when; zero: not paused
	flow      chan struct{}  // closed and replaced when one of these ends

	injections []*Injection // in the order in which they were made, as all that follow
	gates      []*Gate
	asleep     asleep // has a lock of its own
	delays     []*delay
	traces     []*trace
	rewrites   []*rewrite
	counts     Counts
	traffic    traffic
	bytesIn    atomic.Int64 // counted without mu, as is received
	received   atomic.Int64
}

// shared is what the members of a cluster share. A server of its own has its own.
type shared struct {
	mu         sync.Mutex // guards what follows, and the servers' own
	outputs    []output
	delivering bool   // somebody is busy with outputs
	settle     func() // does what is due; nil for a server of its own
}

// Start starts a server. The caller must [Server.Close] it. Errors are those of bad options and of the network.
func Start(opts ...Option) (*Server, error) {
	cfg, err := configure(opts)
	if err != nil {
		return nil, err
	}
	s := newServer(cfg, 1, &shared{})
	if name := cfg.cluster.used; name != "" {
		return nil, fmt.Errorf("zktest: %s is for a cluster", name)
	}
	if err := s.listen(cfg.addr); err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	s.mu.Lock()
	s.keeperConfig()
	s.mu.Unlock()
	s.wg.Go(func() { s.repeat(s.untilTick, s.expireDue) })
	s.wg.Go(func() { s.repeat(func() time.Duration { return cfg.containerScan }, func() { s.reap() }) })
	return s, nil
}

// newServer makes a server that does not listen yet. Its number is in the ids of its sessions.
func newServer(cfg config, number int64, with *shared) *Server {
	now := time.Now()
	return &Server{
		shared:   with,
		cfg:      cfg,
		logf:     func(format string, args ...any) { slog.Warn(fmt.Sprintf(format, args...)) },
		made:     now.Add(-1), // so that no time since then is 0
		done:     make(chan struct{}),
		flow:     make(chan struct{}),
		tree:     newTree(cfg),
		watching: newWatchIndex(),
		sessions: make(map[int64]*session),
		tracker:  newTracker(cfg.tick, now),
		frozen:   make(map[int64]bool),
		// As real servers do: the time in the upper bytes makes ids that differ from
		// those of an earlier server.
		lastSession: number<<56 | int64(uint64(now.UnixMilli())<<24>>8),
		conns:       make(map[*conn]struct{}),
		addr:        "127.0.0.1:2181",
		stopped:     true,
	}
}

// repeat runs f, with s.mu held and unless the server stands still, again and again, until
// Close. pause says how long from now.
func (s *Server) repeat(pause func() time.Duration, f func()) {
	timer := time.NewTimer(pause())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.done:
			return
		}
		s.mu.Lock()
		if !s.stopped && s.paused.IsZero() {
			f()
		}
		s.unlock()
		timer.Reset(pause())
	}
}

// untilTick is the time until the next tick begins.
func (s *Server) untilTick() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tracker.untilTick(time.Now())
}

// Addr is the address of the server, as host:port. In memory nobody listens on it.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Servers is Addr as a list, as Go clients take it.
func (s *Server) Servers() []string { return []string{s.Addr()} }

// ConnectString is Addr, as Java clients take it.
func (s *Server) ConnectString() string { return s.Addr() }

// closeReport is how long Close waits before it says for what.
const closeReport = 5 * time.Second

// Close ends the server and waits for all that it started. If that takes more than five seconds
// it says what it waits for, to the test's log, or to [log/slog] where there is no test. It may be
// called again, from wherever but a [Server.Trace] or [Match]. The error is always nil.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.halt()
	}
	s.unlock()
	report := time.AfterFunc(closeReport, func() { s.logf("%s", s.waitsFor()) })
	defer report.Stop()
	s.wg.Wait()
	return nil
}

// waitsFor says who keeps Close from returning.
func (s *Server) waitsFor() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var who []string
	for c := range s.conns {
		who = append(who, c.String())
	}
	slices.Sort(who)
	if s.delivering {
		who = append(who, "a function given to Trace")
	}
	return fmt.Sprintf("zktest: Close waits for %d connections: %s", len(s.conns), strings.Join(who, "; "))
}

// Stop takes the server off the network, as the end of its process would. Data, sessions and address stay. The
// time of sessions stops, as in an ensemble without a quorum. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.unlock()
	s.halt()
}

// halt cuts all connections and listens no more. What they sent and was not carried out is
// lost. s.mu is held.
func (s *Server) halt() {
	s.stopped = true
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
	for _, l := range s.listeners {
		l.close()
	}
	s.hangUpAll()
	if s.member != nil {
		s.member.look()
	}
}

// hangUpAll cuts all connections, and leaves their sessions without one. s.mu is held.
func (s *Server) hangUpAll() {
	for c := range s.conns {
		if c.session != nil && c.session.conn == c {
			c.session.conn = nil
		}
		c.lost = true
		c.cut()
	}
}

// serves reports whether clients are served: the member of a cluster needs a leader. s.mu is held.
func (s *Server) serves() bool {
	return !s.closed && !s.stopped && (s.member == nil || s.member.term != nil)
}

// Restart starts the server again at the same address with the same data. Sessions get their whole timeout
// again, as from a new leader. A running server is stopped first. A pause ends, since this is a new process;
// faults of the network, such as [Server.Freeze] and [Server.RefuseConnections], remain. Errors are
// [ErrClosed], and those of the network.
func (s *Server) Restart() error {
	s.Stop()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.resume()
	for _, sess := range s.sessions {
		s.tracker.touch(sess.id, sess.began, time.Now())
	}
	addr := s.addr
	s.mu.Unlock()
	if err := s.listen(addr); err != nil {
		return err
	}
	if s.member != nil {
		s.mu.Lock()
		s.member.cluster.elect()
		s.unlock()
	}
	return s.reopen()
}

func (s *Server) listen(addr string) error {
	if s.cfg.inMemory {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopped = false
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(ErrClosed, l.Close())
	}
	s.listener, s.addr, s.stopped = l, l.Addr().String(), false
	s.wg.Go(func() { // ends when l is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if err := s.accept(c, nil); err != nil {
				continue // closed by accept: the client hears of it
			}
		}
	})
	return nil
}
