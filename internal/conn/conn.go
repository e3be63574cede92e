package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

var (
	// ErrOutOfOrder is why a connection ended whose server answered something else than the
	// oldest request.
	ErrOutOfOrder = errors.New("answers are out of order")

	// ErrSilent is why a connection ended that brought nothing for two thirds of the timeout.
	ErrSilent = errors.New("the server is silent")

	// errMoved is why a connection ended over which the session could not write any more. Servers hang up then; those before
	// ZooKeeper 3.6 do not if the write was a multi. The next connection puts it right.
	errMoved = errors.New("the leader says that the session has moved to another server")
)

// Conn is one connection. All methods are safe for concurrent use.
type Conn struct {
	Grant Grant     // set by Open
	Sent  time.Time // when the connect request was sent

	nc       net.Conn
	numbers  *Numbers
	heard    stamped
	in       replies
	roomy    bool // a short write does not wait for a reader
	handlers Handlers

	down  chan struct{} // closed when the connection is of no more use
	done  chan struct{} // closed when all is over
	more  wait.Signal   // there is something in outbox
	loops sync.WaitGroup

	out sync.Mutex // held while writing, so that what is sent is in the order of inFlight

	mu sync.Mutex // guards what follows
	requests
	nudges nudges
	state  state
	cause  error // why it was closed; may be nil
}

// state is what a connection does with a new request. States come in this order; draining may be left out.
type state int

const (
	running  state = iota // sends it
	draining              // refuses it, unless it is marked as Last
	closed                // keeps it for fail, so that it is answered after those before it
	failed                // refuses it: fail has answered all
)

// Handlers are called on the connection's goroutine, in the order of the wire. They must not block.
type Handlers struct {
	// Answered is called before the reply is handed to its request. An error ends the connection instead. It is not called for
	// credentials: a server answers them without noting that it has heard the session.
	Answered func(Answer) error

	Ended func() // once, when the connection has ended, before requests get their errors

	// Event is for each event of a watch. zxid is that of its transaction; not positive if the server did not say.
	Event func(event zk.Event, zxid int64)

	Nudge      bool // send nudges: see the package comment
	MaxRequest int  // bytes; a longer request gets ErrTooLong and is not sent. 0 is any
}

// Answer is what a reply says of the session.
type Answer struct {
	Sent, Received time.Time // not later than the first byte left; not earlier than the last came
	Committed      bool      // see [proto.Code.Committed]
	Zxid           int64     // of the last transaction that the server knew of; not positive if it did not say
	Code           proto.Code
}

// Request is one request and who waits for its answer.
type Request struct {
	Op      proto.Op
	Frame   []byte  // begun by [Begin]; it belongs to the connection from Send on
	Written func()  // nil, or called when it has been written; it must not block
	Handler Handler // gets the answer
	Last    bool    // it may be sent after Drain
}

// Handler gets the answer to one request.
type Handler interface {
	// Reply is called once, on the connection's goroutine or inside Send, and must not block. err is
	// nil if the server carried the request out; then body has the answer, and is valid until Reply
	// returns. Otherwise err is what the server said (see [CodeError]), zk.ErrNoServer if the
	// request was not sent, and an error that wraps zk.ErrConnectionClosed if the connection ended before the
	// answer came. It is ErrTooLong if the request was not sent for that.
	//
	// Only in one case is Reply called twice: if body.Err is not nil when it returns, the answer is malformed, and the
	// connection ends. Then Reply must have passed nothing on. It is called again when the connection has ended.
	Reply(body *proto.Decoder, err error)
}

// Begin returns a frame for [Request.Frame] to which the body is to be appended. size is how many bytes
// it is expected to have.
func Begin(size int) []byte {
	return append(proto.Begin(8+size), 0, 0, 0, 0, 0, 0, 0, 0) // room for the header
}

// requests are those without an answer.
type requests struct {
	outbox     []*Request // not written
	inFlight   fifo[sent]
	pings      fifo[sent]
	auths      fifo[sent]
	unanswered int // bytes of those in the three queues
	syncs      int // also those in outbox
}

// sent is a request on its way.
type sent struct {
	xid     int32
	op      proto.Op
	at      time.Time
	size    int
	handler Handler
}

// Start begins to read, to write what waits, and to ping. It is called once.
func (c *Conn) Start(h Handlers) {
	c.handlers = h
	c.mu.Lock()
	c.nudges.wanted = h.Nudge
	c.mu.Unlock()
	c.loops.Go(c.write)     // ends with down
	c.loops.Go(c.keepAlive) // ends with down
	c.loops.Go(c.read)      // ends with nc
	go c.end()              // waits for these
}

// Done is closed when the connection has ended, every request has got its answer or an error,
// and all goroutines of the connection but the one that closes it have returned.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Down is closed at the beginning of the end, before requests get their errors.
func (c *Conn) Down() <-chan struct{} { return c.down }

// Err is why the connection was closed, once Down is closed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Close ends the connection. It does not wait for Done, and may be called again. With cause nil a TLS
// connection is ended in good order, which can wait for the peer.
func (c *Conn) Close(cause error) {
	c.mu.Lock()
	first := c.state < closed
	if first {
		c.state, c.cause = closed, cause
	}
	c.mu.Unlock()
	if !first {
		return
	}
	close(c.down)
	nc := c.nc
	if secure, ok := nc.(*tls.Conn); ok && cause != nil {
		nc = secure.NetConn() // a goodbye in TLS could wait for a peer that does not read
	}
	_ = nc.Close()
}

// Drain lets no request be sent any more that is not marked as Last: they get zk.ErrNoServer.
func (c *Conn) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = max(c.state, draining)
}

// CloseSession asks the server to end the session, after all requests that were sent
// before, and closes the connection when it has answered, which CloseSession reports, or ctx is done.
func (c *Conn) CloseSession(ctx context.Context) (done bool) {
	answered := make(outcome, 1)
	c.Send(&Request{Op: proto.OpCloseSession, Frame: Begin(0), Handler: answered, Last: true})
	select {
	case err := <-answered:
		c.Close(nil)
		return err == nil
	case <-ctx.Done():
		c.Close(ErrSilent)
		return false
	}
}

// outcome is a handler that passes the error on, and ignores the body.
type outcome chan error

func (o outcome) Reply(_ *proto.Decoder, err error) { o <- err }

// maxDirect is how many bytes can be on their way to a server that does not read, without
// making a write wait: less than any socket has room for.
const maxDirect = 4 << 10

// Send sends a request, now if that cannot take long, or else as soon as the writing goroutine
// comes to it. It does not block. Requests of one goroutine are sent in the order of its calls.
func (c *Conn) Send(r *Request) {
	if err := CheckLength(len(r.Frame), c.handlers.MaxRequest); err != nil {
		r.Handler.Reply(nil, err)
		return
	}
	c.mu.Lock()
	switch {
	case c.state == failed, c.state == draining && !r.Last && r.Op != proto.OpPing:
		c.mu.Unlock()
		r.Handler.Reply(nil, zk.ErrNoServer) // it was not sent
		return
	case c.state == closed:
		c.outbox = append(c.outbox, r)
		c.mu.Unlock()
		return
	}
	if r.Op == proto.OpSync {
		c.syncs++
	}
	// What was answered was read. So if little is unanswered, there is room.
	if !c.roomy || len(c.outbox) > 0 || c.unanswered+len(r.Frame) > maxDirect || !c.out.TryLock() {
		c.outbox = append(c.outbox, r)
		c.mu.Unlock()
		c.more.Raise()
		return
	}
	c.number(r)
	written := r.Written
	c.mu.Unlock()
	c.put(r.Frame)
	c.out.Unlock()
	if written != nil {
		written()
	}
}

// number gives a request its place in the order of replies. c.mu and c.out are held. The time is noted
// before it is written, because it must not be later than the server's.
func (c *Conn) number(r *Request) {
	s := sent{op: r.Op, at: time.Now(), size: len(r.Frame), handler: r.Handler}
	switch r.Op {
	case proto.OpPing:
		s.xid = proto.XidPing
		c.pings.push(s)
	case proto.OpAuth:
		s.xid = proto.XidAuth
		c.auths.push(s)
	default:
		s.xid = c.numbers.next()
		c.inFlight.push(s)
		c.nudges.look()
	}
	c.unanswered += s.size
	header := proto.RequestHeader{Xid: s.xid, Op: r.Op}
	header.Append(proto.Seal(r.Frame)[:4])
}

// put writes. c.out is held.
func (c *Conn) put(frames []byte) {
	if _, err := c.nc.Write(frames); err != nil {
		c.Close(fmt.Errorf("write: %w", err))
	}
}

// isSocket reports whether the operating system holds what is written until it is read. A pipe in
// memory does not.
func isSocket(nc net.Conn) bool {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}
