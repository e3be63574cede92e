package wire

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// Conn is a client's connection to the server.
type Conn struct {
	server   *Server
	net      net.Conn
	route    *Route        // nil: the server's own address, or in memory
	done     chan struct{} // closed when the server has given the connection up
	once     sync.Once
	in       Queue    // requests
	arrivals arrivals // arrival times of these, if the server has a latency
	out      Queue    // answers and events
	pending  *call    // the last write of a cluster that was not waited for; used by serve only

	hearing

	// Guarded by the server's lock.
	client
	watcher
	delivery
	record
}

// hearing records when the client was last heard. It is updated without the server's lock, which
// long work may hold.
type hearing struct {
	heardAt  atomic.Int64 // nanoseconds since Server.made; 0: not since the last look
	blocked  atomic.Bool  // the link is frozen, or the server paused
	unheard  atomic.Bool  // something arrived while it was
	received atomic.Int64
}

// client is the server's knowledge of the client of a connection.
type client struct {
	peer    int64 // the session that the client asked for or got, for frozen links
	session *cluster.Session
	sasl    saslExchange
	who     []tree.Identity // its address, then the identities that it has authenticated
	over    bool            // nothing is served any more
	lost    bool            // the process or the leader was lost: its requests are not applied
}

// delivery is the state of the answers to a client.
type delivery struct {
	holding bool     // an answer is held back, and everything after it waits in behind
	behind  [][]byte // in order
}

// record holds the facts about a connection that four-letter words report.
type record struct {
	since    time.Time
	sent     int64
	last     proto.Op
	lastXid  int32
	lastZxid int64
}

func newConn(s *Server, n net.Conn, route *Route, host string) *Conn {
	c := &Conn{server: s, net: n, route: route, done: make(chan struct{}), in: NewQueue(), out: NewQueue()}
	c.watcher = s.watches.watcher(c)
	c.who = []tree.Identity{{Scheme: "ip", ID: host}}
	c.since = time.Now()
	return c
}

// Cut closes the connection asynchronously. The caller may hold the server's lock.
func (c *Conn) Cut() { c.once.Do(func() { close(c.done) }) }

// String describes the connection for the log message of a slow Close.
func (c *Conn) String() string {
	if c.session == nil {
		return fmt.Sprintf("a connection from %s", c.net.RemoteAddr())
	}
	return fmt.Sprintf("session %#x from %s, last request %s", c.session.ID, c.net.RemoteAddr(), c.last)
}

// hangUp closes the network connection once it is cut. The client of a frozen link must not learn
// of it: on a network that drops packets it would not. The lock is not held.
func (c *Conn) hangUp() {
	select {
	case <-c.done:
		c.server.flows(c, nil)
	case <-c.server.done:
	}
	_ = c.net.Close()
}

// read takes requests off the network. While the link is frozen they are queued, as in the buffers
// of a real network. The lock is not held.
func (c *Conn) read() {
	s := c.server
	defer c.in.End()
	r := bufio.NewReader(c.net)
	for first := true; ; first = false {
		if head, _ := r.Peek(4); first && isWord(string(head)) {
			c.in.Push(slices.Clone(head))
			return
		}
		record, err := proto.ReadFrame(r, s.cfg.MaxFrame)
		if err != nil {
			return
		}
		s.bytesIn.Add(int64(4 + len(record)))
		s.meters.received.Add(1)
		c.hearing.received.Add(1)
		if counts(record) {
			c.heard()
		}
		if s.cfg.Latency > 0 {
			c.arrivals.add(time.Now().Add(s.cfg.Latency))
		}
		s.hooks.Received() // before the hooks can hold up the request itself
		c.in.Push(record)
	}
}

// counts reports whether a request shows that the session lives. Credentials do not: a real server
// answers them without noting that.
func counts(record []byte) bool {
	var h proto.RequestHeader
	d := proto.NewDecoder(record)
	h.Decode(&d)
	return h.Op != proto.OpAuth && h.Op != proto.OpSASL
}

// heard counts for the session, even if the request has to wait. The lock need not be held.
func (c *Conn) heard() {
	if c.blocked.Load() {
		c.unheard.Store(true)
	} else {
		c.heardAt.Store(int64(time.Since(c.server.made)))
	}
}

// hold notes whether the link is blocked. Requests that arrived while it was count from now.
func (c *Conn) hold(blocked bool) {
	c.blocked.Store(blocked)
	if !blocked && c.unheard.Swap(false) {
		c.heard()
	}
}

// hear counts for the session that the client was heard.
func (c *Conn) hear() {
	at := c.heardAt.Load()
	if at == 0 || c.session == nil || c.session.Conn != c {
		return
	}
	c.heardAt.CompareAndSwap(at, 0)
	c.server.quorum.Heard(c.session.ID, c.session.Timeout, c.server.made.Add(time.Duration(at)))
}

// next returns the next request. Requests that arrived before the connection was cut are still
// returned, except requests that a frozen link held back. The lock is not held.
func (c *Conn) next() ([]byte, bool) {
	s := c.server
	record, more := c.in.Next(s.done)
	return record, more && (s.cfg.Latency == 0 || c.arrivals.wait(s.done)) && s.flows(c, c.done)
}

// write puts answers and events on the network. The lock is not held.
func (c *Conn) write() {
	defer c.Cut()
	for {
		frame, more := c.out.Next(c.done)
		if !more || !c.server.flows(c, c.done) {
			return
		}
		if _, err := c.net.Write(frame); err != nil {
			return
		}
	}
}

// event sends the client an event, unless it is not permitted to read the node. The watch is used
// up all the same.
func (c *Conn) event(zxid int64, e tree.Event, path string) {
	if tree.Allowed(e.ACL, tree.PermRead, c.who) {
		c.sendEvent(zxid, e.Kind, path)
	}
}

// sendEvent sends the client an event.
func (c *Conn) sendEvent(zxid int64, kind tree.EventType, path string) {
	header := proto.ReplyHeader{Xid: proto.XidEvent, Zxid: zxid}
	event := proto.WatcherEvent{Type: int32(kind), State: proto.StateConnected, Path: path}
	s := c.server
	s.events++
	s.hooks.Notified(c.session.ID, kind, path)
	if s.cfg.Timeline != nil {
		s.cfg.Timeline.Add(time.Now(), timeline.Entry{
			Kind: timeline.Watch, Server: s.Name(), Session: timeline.SessionText(c.session.ID), What: kind.String(), Path: path, Zxid: s.Tree.Zxid, // the header of an event may have none
		})
	}
	s.Put(&frame{to: c, bytes: proto.Seal(event.Append(header.Append(proto.Begin(28 + len(path)))))})
}

// frame is an answer or an event on its way to a client.
type frame struct {
	to      *Conn
	bytes   []byte
	rewrite func([]byte) []byte // nil: it is sent as it is
}

// Deliver queues the frame for the network, or behind an answer that is held back.
func (f *frame) Deliver() {
	c, s := f.to, f.to.server
	if f.rewrite != nil {
		s.Outside(func() { f.bytes = f.rewrite(f.bytes) })
	}
	if len(f.bytes) == 0 {
		return // a rewrite has removed it
	}
	s.bytesOut += int64(len(f.bytes))
	s.meters.sent++
	c.record.sent++
	if c.holding {
		c.behind = append(c.behind, f.bytes)
	} else {
		c.out.Push(f.bytes)
	}
}

// control changes how the frames after it are delivered.
type control struct {
	to   *Conn
	kind controlKind
}

type controlKind int

const (
	holdBack controlKind = iota // later frames wait
	letGo                       // frames that wait are sent
	last                        // nothing follows: hang up
)

// Deliver applies the control.
func (o *control) Deliver() {
	c := o.to
	switch o.kind {
	case holdBack:
		c.holding = true
	case letGo:
		for _, frame := range c.behind {
			c.out.Push(frame)
		}
		c.holding, c.behind = false, nil
	case last:
		c.out.End()
	}
}
