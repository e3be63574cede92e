package wire

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// Server serves the clients of a replica, as the replica's host.
type Server struct {
	*cluster.Replica
	cfg    Config
	quorum cluster.Quorum
	hooks  Hooks
	name   string    // the server's name in a timeline
	made   time.Time // heardAt of connections is counted from here
	wg     sync.WaitGroup

	// Guarded by the replica's lock.
	process
	conns      map[*Conn]struct{}
	watches    watchIndex
	challenges int // the number of SASL challenges that were sent
	links
	meters
}

// process is the server's life as a process.
type process struct {
	addr    string
	started time.Time // the last time
	stopped bool
	closed  bool
	done    chan struct{} // closed by Close
}

// meters holds the counters of a server.
type meters struct {
	requests map[proto.Op]int
	events   int
	bytesIn  atomic.Int64 // counted as requests arrive
	bytesOut int64
	received atomic.Int64 // four-letter words report it, like sent
	sent     int64
}

// New returns a server whose process is stopped.
func New(cfg Config, q cluster.Quorum, hooks Hooks, addr string) *Server {
	s := &Server{
		Replica: q.State(),
		cfg:     cfg,
		quorum:  q,
		hooks:   hooks,
		made:    time.Now().Add(-1), // so that no time since then is 0
		process: process{addr: addr, stopped: true, done: make(chan struct{})},
		conns:   make(map[*Conn]struct{}),
		links:   links{frozen: make(map[int64]bool), flow: make(chan struct{})},
	}
	s.watches = newWatchIndex(&s.cfg.Rules)
	if _, alone := q.(*cluster.Alone); alone {
		s.name = "server"
	} else {
		s.name = "server " + strconv.Itoa(s.Number)
	}
	s.Attach(s)
	return s
}

// Go starts f in a goroutine that Wait waits for.
func (s *Server) Go(f func()) { s.wg.Go(f) }

// Wait waits for all goroutines of the server. The lock must not be held.
func (s *Server) Wait() { s.wg.Wait() }

// Done returns a channel that is closed when the server is closed.
func (s *Server) Done() <-chan struct{} { return s.done }

// Runs reports whether the process is started and not paused.
func (s *Server) Runs() bool { return !s.stopped && s.paused.IsZero() }

// Stopped reports whether the process is stopped.
func (s *Server) Stopped() bool { return s.stopped }

// Closed reports whether the server was closed.
func (s *Server) Closed() bool { return s.closed }

// Address returns the address that clients use.
func (s *Server) Address() string { return s.addr }

// SetAddress sets the address that clients use.
func (s *Server) SetAddress(addr string) { s.addr = addr }

// Start starts the server's process.
func (s *Server) Start() { s.stopped, s.started = false, time.Now() }

// Halt stops the process and cuts all connections. Requests that were not applied are lost.
func (s *Server) Halt() {
	s.stopped = true
	s.HangUp()
	s.quorum.Halted()
}

// Restarted tells the quorum that the process was started again. It is called after Halt and Start.
func (s *Server) Restarted() { s.quorum.Started() }

// Close stops the process, and makes all goroutines of the server exit. It reports false if the
// server was closed before.
func (s *Server) Close() bool {
	if s.closed {
		return false
	}
	s.closed = true
	close(s.done)
	s.Halt()
	return true
}

// serves reports whether clients are served.
func (s *Server) serves() bool { return !s.closed && !s.stopped && s.quorum.Serves() }

// HangUp cuts all connections and detaches their sessions. Requests that were not applied are lost.
func (s *Server) HangUp() {
	for c := range s.conns {
		if c.session != nil && c.session.Conn == c {
			c.session.Conn = nil
			s.cfg.Timeline.Disconnected(c.session.ID, "connection lost")
		}
		c.lost = true
		c.Cut()
	}
}

// CutConnections cuts all connections. Requests that have arrived are still applied.
func (s *Server) CutConnections() {
	for c := range s.conns {
		c.Cut()
	}
}

// ErrRefused is returned if the server does not accept a connection.
var ErrRefused = errors.New("zktest: connection refused")

// Accept serves a connection that has arrived at route. It closes the connection and returns
// [ErrRefused] if the server refuses it. The lock must not be held.
func (s *Server) Accept(n net.Conn, route *Route) error {
	host, _, err := net.SplitHostPort(n.RemoteAddr().String())
	if err != nil {
		host = "127.0.0.1" // a pipe
	}
	s.Lock()
	defer s.Unlock()
	if !s.serves() || s.refuses&Connections != 0 || s.full(host) {
		return errors.Join(ErrRefused, n.Close())
	}
	c := newConn(s, n, route, host)
	s.conns[c] = struct{}{}
	c.hold(s.blocked(c))
	s.wg.Go(c.hangUp)
	s.wg.Go(c.read)
	s.wg.Go(c.write)
	s.wg.Go(func() {
		c.serve()
		s.Lock()
		c.hear()
		c.over = true
		c.unwatchAll()
		delete(s.conns, c)
		if c.session != nil && c.session.Conn == c {
			c.session.Conn = nil
			s.cfg.Timeline.Disconnected(c.session.ID, "connection lost")
		}
		s.Put(&control{c, last})
		s.Release()
	})
	return nil
}

// full reports whether a host has as many connections as it may have.
func (s *Server) full(host string) bool {
	if s.cfg.MaxConns == 0 {
		return false
	}
	count := 0
	for c := range s.conns {
		if c.who[0].ID == host {
			count++
		}
	}
	return count >= s.cfg.MaxConns
}

// Leads records that the server begins to lead, or leads no more.
func (s *Server) Leads(leads bool) { s.cfg.Timeline.Leads(s.Name(), leads) }

// Ended records the end of a session.
func (s *Server) Ended(session, zxid int64, expired bool) {
	s.cfg.Timeline.Ended(session, zxid, expired)
}

// Notify sends a transaction's events to the clients whose watches it fires.
func (s *Server) Notify(zxid int64, events []tree.Event) { s.watches.notify(zxid, events) }

// Hear reports to the quorum the sessions whose clients were heard from.
func (s *Server) Hear() {
	for c := range s.conns {
		c.hear()
	}
}

// end ends a session in a transaction.
func (s *Server) end(session int64) {
	s.quorum.Submit(&cluster.Entry{Request: tree.Request{Op: proto.OpCloseSession, Session: session}})
}

// bind gives a session to a connection, and cuts its earlier one.
func (s *Server) bind(c *Conn, id int64, timeout time.Duration) *cluster.Session {
	sess := s.Session(id)
	if sess.Conn != nil {
		sess.Conn.Cut() // its requests that were not applied never will be
	}
	sess.Timeout, sess.Conn = timeout, c
	c.session, c.peer = sess, id
	s.cfg.Timeline.Connected(s.Name(), id, timeout)
	return sess
}

// Name returns the server's name in a timeline.
func (s *Server) Name() string { return s.name }

// ConnOf returns a session's connection and the time at which it was accepted, or nil without one.
func (s *Server) ConnOf(session int64) (*Conn, time.Time) {
	if sess := s.Sessions[session]; sess != nil && sess.Conn != nil {
		c := sess.Conn.(*Conn)
		return c, c.since
	}
	return nil, time.Time{}
}

// Connections returns the sorted descriptions of all connections.
func (s *Server) Connections() []string {
	var who []string
	for c := range s.conns {
		who = append(who, c.String())
	}
	slices.Sort(who)
	return who
}

// WatchCount returns the number of watches, counted as a real server does.
func (s *Server) WatchCount() int {
	count := 0
	for c := range s.conns {
		count += c.count()
	}
	return count
}

// Counts returns the numbers of applied requests by operation, of received and sent bytes, and of
// events.
func (s *Server) Counts() (requests map[proto.Op]int, in, out int64, events int) {
	return maps.Clone(s.requests), s.bytesIn.Load(), s.bytesOut, s.events
}

// ResetCounts sets all counts to 0.
func (s *Server) ResetCounts() {
	s.requests, s.bytesOut, s.events = nil, 0, 0
	s.bytesIn.Store(0)
}

// count adds a request.
func (s *Server) count(op proto.Op) {
	if s.requests == nil {
		s.requests = make(map[proto.Op]int)
	}
	s.requests[op]++
}
