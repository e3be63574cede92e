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
	// ErrOutOfOrder is the error of a connection whose server answered a request other than the
	// oldest.
	ErrOutOfOrder = errors.New("replies out of order")

	// ErrSilent is the error of a connection on which nothing has arrived for two thirds of the
	// timeout.
	ErrSilent = errors.New("the server is silent")

	// ErrStuck is the error of a connection whose server has answered no request for two thirds of
	// the timeout, although it may have answered pings.
	ErrStuck = errors.New("the server answers no requests")

	// errMoved closes a connection over which the session can no longer write. Servers hang up
	// then, except before ZooKeeper 3.6 if the write was a multi. The next connection can write
	// again.
	errMoved = errors.New("the leader says that the session has moved to another server")
)

// Conn is one connection. All methods are safe for concurrent use.
type Conn struct {
	Grant Grant     // set by Open
	Sent  time.Time // time at which the connect request was sent

	nc       net.Conn
	numbers  *Numbers
	heard    stamped
	in       replies
	roomy    bool // a short write does not wait for a reader
	handlers Handlers

	down  chan struct{} // closed when the connection is no longer usable
	done  chan struct{} // closed when every goroutine but the closing one has exited
	more  wait.Signal   // outbox is not empty
	loops sync.WaitGroup

	out sync.Mutex // held while writing, so that the order on the wire is the order of inFlight

	mu sync.Mutex // guards the fields below
	requests
	nudges nudges
	worked time.Time // when the last reply to a request arrived
	aside  time.Time // when the last complete reply or event arrived
	state  state
	cause  error // why it was closed; may be nil
}

// state says how a connection treats a new request. States follow each other in this order;
// draining may be skipped.
type state int

const (
	running  state = iota // sends it
	draining              // refuses it, unless it is marked as Last
	closed                // keeps it for fail, so that its error follows those of earlier requests
	failed                // refuses it: fail has answered all others
)

// Handlers are called on the connection's goroutine, in the order of the wire. They must not block.
type Handlers struct {
	// Answered is called before the reply is passed to its request. If it returns an error, the
	// connection is closed instead. It is not called for credentials: a server answers them without
	// recording that it has heard the session.
	Answered func(Answer) error

	Ended func() // once, when the connection has ended, before requests get their errors

	// Event is called for each event of a watch. zxid is the event's transaction; it is not
	// positive if the server did not name it.
	Event func(event zk.Event, zxid int64)

	Nudge      bool // send nudges: see the package comment
	MaxRequest int  // in bytes; a longer request fails with ErrTooLong; 0: no limit
}

// Answer is the part of a reply that is about the session.
type Answer struct {
	Sent, Received time.Time // before the request was written, and after the reply was read
	Committed      bool      // see [proto.Code.Committed]
	Zxid           int64     // the server's last transaction; not positive if it did not say
	Code           proto.Code
}

// Request is one request and the receiver of its reply.
type Request struct {
	Op      proto.Op
	Frame   []byte  // from [Begin]; it belongs to the connection after Send
	Written func()  // nil, or called after the write; it must not block
	Handler Handler // receives the reply
	Last    bool    // may be sent after Drain
}

// Handler receives the reply to one request.
type Handler interface {
	// Reply is called on the connection's goroutine or inside Send, and must not block. If err is
	// nil, the server carried the request out. Then body has the reply, and is valid until Reply
	// returns.
	//
	// Otherwise err is one of these:
	//
	//   - the server's error: see [CodeError]
	//   - zk.ErrNoServer: the request was not sent
	//   - an error that wraps [ErrTooLong]: the request was too long and was not sent
	//   - an error that wraps zk.ErrConnectionClosed: the connection ended before the reply
	//
	// Reply is called once, except for a malformed reply: body.Err is then not nil when Reply
	// returns, and the connection ends. After its end Reply is called again, with an error that
	// wraps zk.ErrConnectionClosed. The first call must not pass anything on.
	Reply(body *proto.Decoder, err error)
}

// Begin returns a frame for [Request.Frame], to which the caller appends the body. size is the
// expected length of the body.
func Begin(size int) []byte {
	return append(proto.Begin(8+size), 0, 0, 0, 0, 0, 0, 0, 0) // room for the header
}

// requests are the requests without a reply.
type requests struct {
	outbox     []*Request // requests that are not written
	inFlight   fifo[sent]
	pings      fifo[sent]
	auths      fifo[sent]
	unanswered int // bytes of the requests in the three queues
	syncs      int // includes those in outbox
}

// sent is a request that was written and not answered.
type sent struct {
	xid     int32
	op      proto.Op
	at      time.Time
	size    int
	handler Handler
}

// Start starts the goroutines that read, write and ping. It is called once.
func (c *Conn) Start(h Handlers) {
	c.handlers = h
	c.mu.Lock()
	c.nudges.wanted = h.Nudge
	c.mu.Unlock()
	c.loops.Go(c.write)     // exits with down
	c.loops.Go(c.keepAlive) // exits with down
	c.loops.Go(c.read)      // exits with nc
	go c.end()              // waits for these
}

// Done returns a channel that is closed when every request has its reply or an error, and all
// goroutines of the connection but the closing one have exited.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Down returns a channel that is closed when the connection is lost or closed, before requests
// receive their errors.
func (c *Conn) Down() <-chan struct{} { return c.down }

// Err returns why the connection was closed, once Down is closed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Close closes the connection. It does not wait for Done, and may be called again. If cause is nil,
// a TLS connection is closed with a close notification, which can block until the peer reads.
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
		nc = secure.NetConn() // a close notification could wait for a peer that does not read
	}
	_ = nc.Close()
}

// Drain makes all later requests fail with zk.ErrNoServer, unless they are marked as Last.
func (c *Conn) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = max(c.state, draining)
}

// CloseSession asks the server to close the session, after all earlier requests. It closes the
// connection when the server has answered or ctx is done, and reports whether the server has
// answered.
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

// maxDirect is the number of bytes that can be in flight to a server that does not read, without
// blocking a write: less than the buffer of any socket.
const maxDirect = 4 << 10

// Send sends a request without blocking. It writes the request if that cannot block, and otherwise
// queues it for the writing goroutine. Requests of one goroutine are sent in the order of its
// calls.
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
	// Answered bytes have been read. So if few are unanswered, the buffer has room.
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

// number gives a request its place in the order of replies. c.mu and c.out are held. It records the
// time before the write, because that must not be later than the server's receipt.
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
	if len(frames) == 0 {
		return
	}
	if _, err := c.nc.Write(frames); err != nil {
		c.Close(fmt.Errorf("write: %w", err))
	}
}

// isSocket reports whether the operating system buffers written bytes. A pipe in memory does not.
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
