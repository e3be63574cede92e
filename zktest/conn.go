package zktest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// conn is one connection. Four goroutines share the work, so that neither a client that does
// not read nor a request that is held up stops the others: read takes requests off the network,
// serve carries them out in order, write puts answers on the network, and hangUp ends it.
type conn struct {
	server   *Server
	net      net.Conn
	from     *Listener     // nil: it came in at the server's own address, or in memory
	done     chan struct{} // closed when the server has given the connection up
	once     sync.Once
	in       queue    // requests
	arrivals arrivals // of those, if there is a latency
	out      queue    // answers and events

	pending *call // the last write of a cluster that was not waited for; it is serve's alone

	// Noted without Server.mu, so that a client is heard while long work goes on.
	heardAt  atomic.Int64 // nanoseconds since Server.made; 0: not since the last look
	blocked  atomic.Bool  // the link is frozen, or the server paused
	unheard  atomic.Bool  // something arrived while it was
	received atomic.Int64

	// Guarded by Server.mu.
	peer     int64 // the session that the client asked for or got, for frozen links
	session  *session
	sasl     saslExchange
	who      []identity // where it comes from, then who it has said that it is
	watches  watches
	over     bool     // nobody serves it any more
	lost     bool     // with the server's process, or its leader: what it has sent is not carried out
	notified uint64   // the last event that was sent to it, as watchIndex.current
	holding  bool     // an answer is held back, and what comes after it waits in behind
	behind   [][]byte // in order

	// For four-letter words.
	since    time.Time
	traffic  traffic
	last     Op
	lastXid  int32
	lastZxid int64
}

// accept serves a connection that came in at from, unless the server does not take any.
func (s *Server) accept(n net.Conn, from *Listener) error {
	c := &conn{server: s, net: n, from: from, done: make(chan struct{}), in: newQueue(), out: newQueue(), watches: newWatches(), since: time.Now()}
	host, _, err := net.SplitHostPort(n.RemoteAddr().String())
	if err != nil {
		host = "127.0.0.1" // a pipe
	}
	c.who = []identity{{"ip", host}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.serves() || s.refuses&connections != 0 {
		return errors.Join(errRefused, n.Close())
	}
	s.conns[c] = struct{}{}
	c.hold(s.blocked(c))
	// All end when the connection is cut, by Close at the latest.
	s.wg.Go(c.hangUp)
	s.wg.Go(c.read)
	s.wg.Go(c.write)
	s.wg.Go(func() {
		c.serve()
		s.mu.Lock()
		c.hear()
		c.over = true
		c.unwatchAll()
		delete(s.conns, c)
		if c.session != nil && c.session.conn == c {
			c.session.conn = nil
		}
		s.put(output{to: c, kind: outputLast})
		s.unlock()
	})
	return nil
}

var errRefused = errors.New("zktest: connection refused")

// cut ends the connection. It does not wait.
func (c *conn) cut() { c.once.Do(func() { close(c.done) }) }

// hangUp closes the network connection once it is cut. The client of a link that is frozen
// must not learn of it: on a network that drops packets it would not.
func (c *conn) hangUp() {
	select {
	case <-c.done:
		c.server.flows(c, nil)
	case <-c.server.done:
	}
	_ = c.net.Close()
}

// read takes requests off the network. They pile up while the link is frozen, as they would in
// the buffers of a real network.
func (c *conn) read() {
	defer c.in.end()
	r := bufio.NewReader(c.net)
	for first := true; ; first = false {
		if head, _ := r.Peek(4); first && isWord(string(head)) {
			c.in.push(slices.Clone(head))
			return
		}
		record, err := proto.ReadFrame(r, c.server.cfg.maxFrame)
		if err != nil {
			return
		}
		c.server.bytesIn.Add(int64(4 + len(record)))
		c.server.received.Add(1)
		c.received.Add(1)
		if counts(record) {
			c.heard()
		}
		c.noteArrival()
		c.server.asleep.wake() // before the request can be forgotten itself
		c.in.push(record)
	}
}

// counts reports whether a server notes that it has heard the session when it gets a request. Credentials do not count: a real
// server answers them without that.
func counts(record []byte) bool {
	var h proto.RequestHeader
	d := proto.NewDecoder(record)
	h.Decode(&d)
	return h.Op != proto.OpAuth && h.Op != proto.OpSASL
}

// heard counts for the session, even if the request has to wait.
func (c *conn) heard() {
	if c.blocked.Load() {
		c.unheard.Store(true)
	} else {
		c.heardAt.Store(int64(time.Since(c.server.made)))
	}
}

// next returns the next request. What arrived before the connection was cut is still
// returned, but not what a frozen link had not let through by then.
func (c *conn) next() ([]byte, bool) {
	record, more := c.in.next(c.server.done)
	return record, more && c.awaitDue() && c.server.flows(c, c.done)
}

// write puts answers and events on the network.
func (c *conn) write() {
	defer c.cut()
	for {
		frame, more := c.out.next(c.done)
		if !more || !c.server.flows(c, c.done) {
			return
		}
		if _, err := c.net.Write(frame); err != nil {
			return
		}
	}
}

// serve carries out what the client asks for, in order.
func (c *conn) serve() {
	first, more := c.next()
	if !more {
		return
	}
	if isWord(string(first)) {
		c.out.push([]byte(c.server.word(string(first))))
		return
	}
	if !c.connect(first) {
		return
	}
	for {
		record, more := c.next()
		if !more || !c.handle(record) {
			return
		}
	}
}

// connect gives the client a session. It reports whether there is one.
func (c *conn) connect(record []byte) bool {
	s := c.server
	var h proto.ConnectRequest
	d := proto.NewDecoder(record)
	if h.Decode(&d); d.Err() != nil {
		return false
	}
	s.mu.Lock()
	c.peer = h.Session
	c.hold(s.blocked(c))
	s.mu.Unlock()
	if !s.flows(c, c.done) {
		return false
	}
	request := Request{Session: h.Session, Op: OpConnect}
	if !s.pass(request) {
		return false
	}
	hits, gates, rewrites := s.hits(request), s.replyGates(request), s.rewritesOf(request)
	h = s.cfg.asServed(h)

	if !s.lockRunning() {
		return false
	}
	if !s.serves() || c.lost || h.LastZxid > s.tree.zxid {
		s.mu.Unlock()
		return false // a client that knows more than we do has to find another server
	}
	fault := s.meet(hits, request)
	if fault == ExpireBefore && s.sessions[h.Session] != nil {
		s.endSession(h.Session)
	}
	if fault == FailBefore || fault == ExpireBefore {
		c.cut()
		s.unlock()
		return false
	}
	gates = s.asleep.holdUp(fault, gates)
	q := &call{conn: c, request: request, fault: fault, gates: gates, rewrites: rewrites, then: func(q *call, _ int64, res result) { c.welcome(q, h, res.code) }}
	switch {
	case s.refuses&sessions != 0:
		q.send(s.cfg.rejection(h))
		q.answered = true
	case h.Session == 0:
		s.openSession(h, q)
	default:
		s.resumeSession(h, q)
	}
	return c.finish(q)
}

// welcome gives a session to the connection and answers the handshake, or does what a fault wants
// instead. Server.mu is held.
func (c *conn) welcome(q *call, h proto.ConnectRequest, code proto.Code) {
	s := c.server
	if c.over || c.lost {
		return // the session is there, for when the client comes back
	}
	var sess *session
	if code == proto.OK {
		sess = s.bind(c, q.session, s.cfg.grant(h))
		c.hold(s.blocked(c))
		c.last, c.lastZxid = OpConnect, s.tree.zxid
	}
	switch {
	case q.fault == ExpireAfter && sess != nil:
		s.endSession(sess.id)
	case !q.fault.answers():
		c.cut()
	default:
		q.send(s.cfg.greeting(h, sess))
		q.goesOn = sess != nil
	}
}

// handshakeSize is that of the answer to a handshake.
const handshakeSize = 37

// greeting is the answer to a handshake. A session that is over is answered with zeros.
func (c *config) greeting(h proto.ConnectRequest, sess *session) []byte {
	r := proto.ConnectResponse{Password: make([]byte, 16), HasReadOnly: h.HasReadOnly}
	if sess != nil {
		r.Timeout, r.Session = milliseconds(sess.timeout), sess.id
		if c.keeper == 0 {
			r.Password = password(sess.id)
		}
	}
	return r.Append(proto.Begin(handshakeSize))
}

func milliseconds(d time.Duration) int32 { return int32(d.Milliseconds()) }

// String says who it is, for people.
func (c *conn) String() string {
	if c.session == nil {
		return fmt.Sprintf("a connection from %s", c.net.RemoteAddr())
	}
	return fmt.Sprintf("session %#x from %s, last asked for %s", c.session.id, c.net.RemoteAddr(), c.last)
}

// queue is what waits between two goroutines, without a limit, so that adding never blocks.
type queue struct {
	*queueState
	wake chan struct{} // capacity 1
}

type queueState struct {
	mu    sync.Mutex // guards what follows
	items [][]byte
	ended bool
}

func newQueue() queue { return queue{&queueState{}, make(chan struct{}, 1)} }

// push adds an item, unless the queue has ended.
func (q queue) push(item []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.items = append(q.items, item)
		signal(q.wake)
	}
}

func (q queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// end lets what is in the queue be the last.
func (q queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	signal(q.wake)
}

// next waits for an item. It reports false at the queue's end, and when stop is closed while
// there is none.
func (q queue) next(stop <-chan struct{}) ([]byte, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			item := q.items[0]
			q.items = q.items[1:]
			q.mu.Unlock()
			return item, true
		}
		ended := q.ended
		q.mu.Unlock()
		if ended {
			return nil, false
		}
		select {
		case <-q.wake:
		case <-stop:
			return nil, false
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
