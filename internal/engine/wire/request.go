package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Call sends a request on l and returns its parsed answer. When ctx is done or the client closed
// first, Call returns at once: a request that has not been written is not sent, and its error is
// neither [Abandoned] nor [Unreachable]. It returns [ErrUnimplemented] if the server does not know
// the operation.
func Call[T any](ctx context.Context, l *Conn, q Request[T]) (T, error) {
	return send(l, q).wait(ctx)
}

// send sends a request whose answer is waited for. It does not block.
func send[T any](l *Conn, q Request[T]) *exchange[T] {
	x := &exchange[T]{Request: q, link: l, answered: make(chan struct{}, 1)}
	x.send()
	return x
}

// Post sends a request and does not wait for the reply. It does not block.
func Post[T any](l *Conn, q Request[T]) { (&exchange[T]{Request: q, link: l}).send() }

// exchange is a request and its answer, for which its caller may stop to wait.
type exchange[T any] struct {
	Request[T]
	link     *Conn
	request  conn.Request
	answered chan struct{} // capacity 1; filled when value and err are set; nil: no caller waits
	value    T
	err      error
}

func (x *exchange[T]) send() {
	if err := x.link.Supports(x.Op); err != nil {
		x.Reply(nil, err)
		return
	}
	x.request = conn.Request{Op: x.Op, Frame: x.Frame, Written: x.Written, Handler: x, Last: x.Last}
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
	} else if x.link.host.Unknown().note(x.Op, err) {
		err = unimplemented(x.Op)
	}
	x.err = err
	if x.Done != nil {
		x.Done(x.value, err)
	}
	if x.answered != nil {
		x.answered <- struct{}{}
	}
}

// wait returns the answer, or at once when ctx is done or the client closed.
func (x *exchange[T]) wait(ctx context.Context) (T, error) {
	closed := x.link.host.Life()
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
		return none, wait.Err(ctx) // it was not sent
	}
	select {
	case <-x.answered: // it was faster
		return x.value, x.err
	default:
	}
	if closed.Err() != nil {
		return none, Abandoned(ErrClosed)
	}
	return none, GivenUp(ctx)
}

// optional are the operations that a server might not know. The client sends a ClickHouse Keeper no
// such request: older Keepers close the connection without an answer, and the session is lost with
// it. A text is the reason why a server that knows the operation might not allow it. Such a server
// answers, and the connection stays. Another server, or the same server later, may allow the
// operation.
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

// Unknown is the set of operations that the servers of a client do not know. The zero value is
// empty.
type Unknown struct{ ops sync.Map }

// note looks at how op has ended, and reports whether the server has answered that it does not know
// it. ZooKeeper closes the connection then, so the client does not ask again.
func (u *Unknown) note(op proto.Op, err error) bool {
	why, known := optional[op]
	unknown := known && errors.Is(err, ErrUnimplemented)
	if unknown && why == "" {
		u.Add(op)
	}
	return unknown
}

// Add records that the servers of the client do not know op.
func (u *Unknown) Add(op proto.Op) { u.ops.Store(op, true) }

func (u *Unknown) has(op proto.Op) bool {
	_, has := u.ops.Load(op)
	return has
}

// unimplemented is the error of a server that does not know op, or does not allow it.
func unimplemented(op proto.Op) error {
	why := optional[op]
	if why == "" {
		why = fmt.Sprintf("the server has no %v", op)
	}
	return fmt.Errorf("%s: %w", why, ErrUnimplemented)
}
