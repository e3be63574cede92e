package conn

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
)

// maxTogether is the length of the longest request that is copied to be written together with
// others.
const maxTogether = 32 << 10

// write writes the requests that Send has queued.
func (c *Conn) write() {
	var frames []byte
	for {
		select {
		case <-c.more.C():
		case <-c.down:
			return
		}
		c.out.Lock()
		c.mu.Lock()
		if c.state >= closed {
			c.mu.Unlock()
			c.out.Unlock()
			return // the remaining requests were not sent
		}
		batch := c.outbox
		c.outbox = nil
		for _, r := range batch {
			c.number(r)
		}
		c.mu.Unlock()
		frames = frames[:0]
		for _, r := range batch {
			if len(r.Frame) > maxTogether { // too long to copy
				c.put(frames)
				c.put(r.Frame)
				frames = frames[:0]
			} else {
				frames = append(frames, r.Frame...)
			}
			r.Frame = nil
		}
		c.put(frames)
		c.out.Unlock()
		for _, r := range batch {
			if r.Written != nil {
				r.Written()
			}
		}
		if cap(frames) > 1<<20 {
			frames = nil
		}
	}
}

// keepAlive pings and nudges. It pings after each third of the session timeout, and closes the
// connection when the server has sent nothing for two thirds, or has left a request without a reply
// for as long.
func (c *Conn) keepAlive() {
	interval, limit := c.Grant.Timeout/3, c.Grant.Timeout/3*2
	next := time.Now().Add(interval)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.nudges.timer.C:
			c.nudge()
			continue
		case <-c.down:
			return
		}
		now := time.Now()
		silent := c.heard.at().Add(limit)
		if !now.Before(silent) {
			c.Close(ErrSilent)
			return
		}
		if since := c.waiting(); !since.IsZero() {
			stuck := since.Add(limit)
			if !now.Before(stuck) {
				c.Close(ErrStuck)
				return
			}
			if stuck.Before(silent) {
				silent = stuck
			}
		}
		if !now.Before(next) {
			c.Send(&Request{Op: proto.OpPing, Frame: Begin(0), Handler: noted{}})
			next = now.Add(interval)
		}
		if next.Before(silent) {
			silent = next
		}
		timer.Reset(silent.Sub(now))
	}
}

// waiting returns since when the server has owed a reply to the oldest request: the later of when
// that was sent and when the server last answered another one. It returns the zero Time if no
// request is waiting. A long reply that is being read counts as an answer.
func (c *Conn) waiting() (since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest, found := c.inFlight.front()
	if auth, asked := c.auths.front(); asked && (!found || auth.at.Before(oldest.at)) {
		oldest, found = auth, true
	}
	if !found {
		return since
	}
	since = oldest.at
	if c.worked.After(since) {
		since = c.worked
	}
	if heard := c.heard.at(); heard.After(c.aside) && heard.After(since) {
		since = heard
	}
	return since
}

// noted is the handler of a ping or a nudge, whose reply has no further use.
type noted struct{}

func (noted) Reply(*proto.Decoder, error) {}

// replies is the state of the reading goroutine, once the connection is open.
type replies struct {
	frames  *proto.FrameReader
	decoder proto.Decoder // decodes the current reply
	// refused handles the reply that ends the connection: malformed, or refused by Answered. nil:
	// none.
	refused Handler
	reason  error // why it was refused
}

// errHandler closes a connection whose handler has ended its goroutine, as a t.FailNow in a watch
// function does.
var errHandler = errors.New("a handler did not return")

// read dispatches replies and events until the connection ends.
func (c *Conn) read() {
	defer c.Close(errHandler)
	for {
		frame, err := c.in.frames.Next()
		if err == nil {
			c.in.decoder = proto.NewDecoder(frame)
			if c.in.frames.Owned() {
				c.in.decoder = proto.NewOwnedDecoder(frame)
			}
			err = c.dispatch(&c.in.decoder)
		}
		if err != nil {
			if err == io.EOF {
				err = fmt.Errorf("the server closed the connection: %w", err)
			}
			c.Close(err)
			return
		}
	}
}

// end completes the end of the connection.
func (c *Conn) end() {
	c.loops.Wait()
	c.handlers.Ended()
	c.fail()
	close(c.done)
}

// dispatch passes one frame to its handler.
func (c *Conn) dispatch(d *proto.Decoder) error {
	var header proto.ReplyHeader
	header.Decode(d)
	if err := d.Err(); err != nil {
		return err
	}
	if header.Xid == proto.XidEvent {
		var e proto.WatcherEvent
		e.Decode(d)
		if err := d.Err(); err != nil {
			return fmt.Errorf("event: %w", err)
		}
		c.mu.Lock()
		c.aside = c.heard.at()
		c.mu.Unlock()
		c.handlers.Event(zk.Event{Type: zk.EventType(e.Type), State: zk.State(e.State), Path: e.Path}, header.Zxid)
		return nil
	}
	received := c.heard.at()
	s, err := c.answered(header, received)
	if err != nil {
		return err
	}
	if s.op == proto.OpMulti && header.Code == proto.OK {
		header.Code = proto.MultiCode(*d)
	}
	if header.Code == proto.UnknownSession { // it has expired, and the server has forgotten it
		header.Code = proto.SessionExpired
	}
	if s.op != proto.OpAuth {
		if err := c.handlers.Answered(Answer{s.at, received, header.Code.Committed(s.op), header.Zxid, header.Code}); err != nil {
			c.in.refused, c.in.reason = s.handler, err
			return err
		}
	}
	if header.Code != proto.OK {
		s.handler.Reply(nil, CodeError(header.Code))
		if header.Code == proto.SessionMoved {
			return errMoved
		}
		return nil
	}
	s.handler.Reply(d, nil)
	if err := d.Err(); err != nil {
		c.in.refused, c.in.reason = s.handler, err
		return err
	}
	return nil
}

// answered removes and returns the request to which a reply with this header belongs.
func (c *Conn) answered(header proto.ReplyHeader, received time.Time) (sent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	xid, queue := header.Xid, &c.inFlight
	switch xid { // kinds that may be answered before earlier requests
	case proto.XidPing:
		queue = &c.pings
	case proto.XidAuth:
		queue = &c.auths
	}
	oldest, found := queue.front()
	if !found {
		return sent{}, fmt.Errorf("%w: xid %d without a request", ErrOutOfOrder, xid)
	}
	s := *oldest
	switch {
	case oldest.xid == xid:
		queue.pop()
	case refusedEarly(header):
		s, found = queue.take(func(s *sent) bool { return s.xid == xid })
	default:
		found = false
	}
	if !found {
		return sent{}, fmt.Errorf("%w: xid %d instead of %d (%v)", ErrOutOfOrder, xid, oldest.xid, oldest.op)
	}
	c.unanswered -= s.size
	if s.op == proto.OpPing {
		c.aside = received
	} else {
		c.worked, c.aside = received, received
	}
	switch {
	case s.op == proto.OpSync:
		c.syncs--
	case s.op.IsWrite():
		c.nudges.learn(received.Sub(s.at))
	}
	return s, nil
}

// refusedEarly reports whether a server has rejected a request up front, before queueing it for
// execution in order: an unknown operation, or with enableEagerACLCheck one that is not allowed. A
// ClickHouse Keeper does so with a write for which it has too little memory, and answers the
// requests that it drops for lack of a leader in any order. Such a reply precedes those to earlier
// requests, and names no transaction.
func refusedEarly(h proto.ReplyHeader) bool {
	switch h.Code {
	case proto.Unimplemented, proto.NoAuth, proto.InvalidACL, proto.OutOfMemory, proto.ConnectionLoss, proto.OperationTimeout:
		return h.Zxid <= 0
	}
	return false
}

// fail answers the remaining requests in place of the server.
func (c *Conn) fail() {
	if c.in.refused != nil {
		c.in.refused.Reply(nil, fmt.Errorf("%w: %w", zk.ErrConnectionClosed, c.in.reason))
	}
	c.mu.Lock()
	unanswered := []fifo[sent]{c.inFlight, c.auths}
	unsent := c.outbox
	c.requests, c.state = requests{}, failed
	c.mu.Unlock()
	for i := range unanswered {
		queue := &unanswered[i]
		for s, found := queue.front(); found; s, found = queue.front() {
			s.handler.Reply(nil, zk.ErrConnectionClosed)
			queue.pop()
		}
	}
	for _, r := range unsent {
		r.Handler.Reply(nil, zk.ErrNoServer)
	}
}

// fifo is a queue that does not allocate while it is short.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) push(item T) {
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head > 64 && q.head > len(q.items)/2:
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

// front returns the oldest item, which is valid until the next call.
func (q *fifo[T]) front() (*T, bool) {
	if q.head == len(q.items) {
		return nil, false
	}
	return &q.items[q.head], true
}

// take removes the first item that pick selects.
func (q *fifo[T]) take(pick func(*T) bool) (item T, found bool) {
	for i := q.head; i < len(q.items); i++ {
		if pick(&q.items[i]) {
			item = q.items[i]
			q.items = slices.Delete(q.items, i, i+1)
			return item, true
		}
	}
	return item, false
}

func (q *fifo[T]) pop() {
	var none T
	q.items[q.head] = none // so that the garbage collector frees the item
	q.head++
}
