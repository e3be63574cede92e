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

// write writes what Send could not write at once.
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
			return // what is left was not sent
		}
		batch := c.outbox
		c.outbox = nil
		frames = frames[:0]
		for _, r := range batch {
			c.number(r)
			frames = append(frames, r.Frame...)
			r.Frame = nil
		}
		c.mu.Unlock()
		if len(frames) > 0 {
			c.put(frames)
		}
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

// keepAlive pings, nudges, and ends the connection when nothing has come for too long.
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

// noted is the handler of a ping or a nudge: that it is answered is all there is.
type noted struct{}

func (noted) Reply(*proto.Decoder, error) {}

// replies is what reads them. Only read uses it, once the connection is open.
type replies struct {
	frames  *proto.FrameReader
	decoder proto.Decoder // of the reply that is being handed out
	refused Handler       // of the reply for which the connection ends: Answered refused it, or it is malformed; nil: none
	reason  error         // for that
}

// errHandler is why a connection ended whose handler has ended its goroutine, as a t.FailNow in a watch function does.
var errHandler = errors.New("a handler has not returned")

// read hands out replies and events until the connection ends.
func (c *Conn) read() {
	defer c.Close(errHandler)
	for {
		frame, err := c.in.frames.Next()
		if err == nil {
			c.in.decoder = proto.NewDecoder(frame)
			err = c.dispatch(&c.in.decoder)
		}
		if err != nil {
			if err == io.EOF {
				err = fmt.Errorf("the server has closed the connection: %w", err)
			}
			c.Close(err)
			return
		}
	}
}

// end ends everything, when the connection has ended.
func (c *Conn) end() {
	c.loops.Wait()
	c.handlers.Ended()
	c.fail()
	close(c.done)
}

// dispatch hands one frame to whom it is for.
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
	if header.Code == proto.UnknownSession { // it has ended, and the server has forgotten it
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

// answered takes the request off that an answer with this header must be for.
func (c *Conn) answered(header proto.ReplyHeader, received time.Time) (sent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	xid, queue := header.Xid, &c.inFlight
	switch xid { // of what may be answered before requests that were sent earlier
	case proto.XidPing:
		queue = &c.pings
	case proto.XidAuth:
		queue = &c.auths
	}
	oldest, found := queue.front()
	if !found {
		return sent{}, fmt.Errorf("%w: xid %d, and nothing was asked", ErrOutOfOrder, xid)
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
	switch {
	case s.op == proto.OpSync:
		c.syncs--
	case s.op.IsWrite():
		c.nudges.learn(received.Sub(s.at))
	}
	return s, nil
}

// refusedEarly reports whether a server has refused a request before it put it into the queue of what it carries out in order: one that
// it does not know, and with enableEagerACLCheck one that is not allowed. A ClickHouse Keeper does so with a write for which it has too little
// memory, and what it drops because it has no leader it answers in another order than it was sent in. The answer comes before those to
// earlier requests, and names no transaction.
func refusedEarly(h proto.ReplyHeader) bool {
	switch h.Code {
	case proto.Unimplemented, proto.NoAuth, proto.InvalidACL, proto.OutOfMemory, proto.ConnectionLoss, proto.OperationTimeout:
		return h.Zxid <= 0
	}
	return false
}

// fail answers for the server, which does not any more.
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

// front is the oldest item, which is valid until the next call.
func (q *fifo[T]) front() (*T, bool) {
	if q.head == len(q.items) {
		return nil, false
	}
	return &q.items[q.head], true
}

// take removes the first item that is picked.
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
	q.items[q.head] = none // so that the garbage collector frees what it refers to
	q.head++
}
