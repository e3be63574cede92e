package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Call sends a request on l and returns what Parse makes of its answer. When ctx is done or the
// client closed first, Call returns at once. The request goes on if it has been written, and is not sent otherwise.
// The error is [ErrUnimplemented] if the server does not know the operation.
func Call[T any](ctx context.Context, l *Connection, q Request[T]) (T, error) {
	return send(l, q).wait(ctx)
}

// send sends a request whose answer is waited for. It does not block.
func send[T any](l *Connection, q Request[T]) *exchange[T] {
	x := &exchange[T]{Request: q, link: l, answered: make(chan struct{}, 1)}
	x.send()
	return x
}

// post sends a request for whose answer nobody waits. It does not block.
func post[T any](l *Connection, q Request[T]) { (&exchange[T]{Request: q, link: l}).send() }

// exchange is a request and its answer, for which its caller may stop to wait.
type exchange[T any] struct {
	Request[T]
	link      *Connection
	request   conn.Request
	answered  chan struct{} // capacity 1; filled when value and err are set; nil: nobody waits
	value     T
	err       error
	abandoned atomic.Bool // whoever sets it second knows of the other
}

func (x *exchange[T]) send() {
	if err := x.link.Supports(x.Op); err != nil {
		x.Reply(nil, err)
		return
	}
	x.request = conn.Request{Op: x.Op, Frame: x.Frame, Written: x.written, Handler: x, Last: x.last}
	x.link.conn.Send(&x.request)
}

// Reply implements [conn.Handler].
func (x *exchange[T]) Reply(body *proto.Decoder, err error) {
	if err == nil {
		value := x.Parse(body)
		if body.Err() != nil {
			return // the connection ends for it, and we are called again when holders know
		}
		x.value = value
	} else if x.link.session.core.noteUnknown(x.Op, err) {
		err = unimplemented(x.Op)
	}
	x.err = err
	if x.done != nil {
		x.done(x.value, err)
	}
	if x.answered == nil {
		return
	}
	x.answered <- struct{}{}
	if x.abandoned.Swap(true) && x.late != nil {
		x.late(x.value, err)
	}
}

// wait returns the answer, or at once when ctx is done or the client closed.
func (x *exchange[T]) wait(ctx context.Context) (T, error) {
	closed := x.link.session.core.ctx
	if x.last {
		closed = context.Background()
	}
	select {
	case <-x.answered:
		return x.value, x.err
	case <-ctx.Done():
	case <-closed.Done():
	}
	var none T
	if x.link.conn.Withdraw(&x.request) {
		if closed.Err() != nil {
			return none, ErrClosed
		}
		return none, &unreachable{wait.Err(ctx), errNotRead}
	}
	if x.abandoned.Swap(true) {
		<-x.answered // it was faster
		return x.value, x.err
	}
	if closed.Err() != nil {
		return none, givenUp(ErrClosed)
	}
	return none, givenUp(wait.Err(ctx))
}

// errNotRead is why a request was not sent although there was a connection.
var errNotRead = errors.New("the server does not read what is sent")

// lastCall is Call, with last for what the client does while it closes: also on a connection that drains.
func lastCall[T any](ctx context.Context, l *Connection, q Request[T], last bool) (T, error) {
	q.last = last
	return Call(ctx, l, q)
}

// optional are the operations that a server may not know. A ClickHouse Keeper is not asked for them: older ones close the
// connection without an answer, and the session is lost with it. A text is why a server may not allow one that it knows. It says so,
// and the connection stays. Another server, or the same later, may allow it.
var optional = map[proto.Op]string{
	proto.OpReconfig:          "the server runs alone, or has no reconfiguration",
	proto.OpCreateTTL:         "the server does not allow TTL nodes (extendedTypesEnabled)",
	proto.OpCreate2:           "",
	proto.OpCreateContainer:   "",
	proto.OpMultiRead:         "",
	proto.OpAddWatch:          "",
	proto.OpGetEphemerals:     "",
	proto.OpGetChildrenNumber: "",
	proto.OpWhoAmI:            "",
}

// noteUnknown looks at how op has ended, and reports whether the server has answered that it does not know it. ZooKeeper closes
// the connection then, so the client does not ask again.
func (c *core) noteUnknown(op proto.Op, err error) bool {
	why, known := optional[op]
	unknown := known && errors.Is(err, ErrUnimplemented)
	if unknown && why == "" {
		c.SetUnknown(op)
	}
	return unknown
}

// SetUnknown has the client take op for one that its servers do not know. Tests use it for servers that know op.
func (c *core) SetUnknown(op proto.Op) { c.unknownOps.Store(op, true) }

// unimplemented is the error of a server that does not know op, or does not allow it.
func unimplemented(op proto.Op) error {
	why := optional[op]
	if why == "" {
		why = fmt.Sprintf("the server has no %v", op)
	}
	return fmt.Errorf("%s: %w", why, ErrUnimplemented)
}
