package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// Request is one request. Its functions, of which only Parse must be there, are called on the
// connection's goroutine and must not block.
type Request[T any] struct {
	Op      proto.Op
	Frame   []byte // begun by [conn.Begin]
	Parse   func(*proto.Decoder) T
	written func()         // when it has been written
	done    func(T, error) // when it has been answered, whether anybody waits or not
	late    func(T, error) // gets the answer that nobody waits for any more
	last    bool           // see [conn.Request]
}

// Call sends a request on l and returns what Parse makes of its answer. When ctx is done or the
// client closed first, Call returns at once. The request goes on if it has been written, and is not sent otherwise.
// The error is [ErrUnimplemented] if the server does not know the operation.
func Call[T any](ctx context.Context, l *Connection, q Request[T]) (T, error) {
	if err := l.Supports(q.Op); err != nil {
		var none T
		return none, err
	}
	value, err := send(l, q).wait(ctx, l)
	if err != nil && l.session.core.unknownOps.note(q.Op, err) {
		err = unimplemented(q.Op)
	}
	return value, err
}

// send sends a request whose answer is waited for. It does not block.
func send[T any](l *Connection, q Request[T]) *exchange[T] {
	return (&exchange[T]{Request: q, answered: make(chan struct{}, 1)}).send(l)
}

// post sends a request for whose answer nobody waits. It does not block.
func post[T any](l *Connection, q Request[T]) { (&exchange[T]{Request: q}).send(l) }

// exchange is a request and its answer, for which its caller may stop to wait.
type exchange[T any] struct {
	Request[T]
	request   conn.Request
	answered  chan struct{} // capacity 1; filled when value and err are set; nil: nobody waits
	value     T
	err       error
	abandoned atomic.Bool // whoever sets it second knows of the other
}

func (x *exchange[T]) send(l *Connection) *exchange[T] {
	x.request = conn.Request{Op: x.Op, Frame: x.Frame, Written: x.written, Handler: x, Last: x.last}
	l.conn.Send(&x.request)
	return x
}

// Reply implements [conn.Handler].
func (x *exchange[T]) Reply(body *proto.Decoder, err error) {
	if err == nil {
		value := x.Parse(body)
		if body.Err() != nil {
			return // the connection ends for it, and we are called again when holders know
		}
		x.value = value
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
func (x *exchange[T]) wait(ctx context.Context, l *Connection) (T, error) {
	closed := l.session.core.ctx
	select {
	case <-x.answered:
		return x.value, x.err
	case <-ctx.Done():
	case <-closed.Done():
	}
	var none T
	if l.conn.Withdraw(&x.request) {
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

// lastCall is Call for what the client does while it closes: also on a connection that drains.
func lastCall[T any](ctx context.Context, l *Connection, q Request[T]) (T, error) {
	q.last = true
	x := send(l, q)
	select {
	case <-x.answered:
		return x.value, x.err
	case <-ctx.Done():
		var none T
		return none, givenUp(wait.Err(ctx))
	}
}

// The requests.

// WithStat is a result that comes with a stat, as one value.
type WithStat[T any] struct {
	Value T
	Stat  *zk.Stat
}

// None is the result of a request whose answer is that it was carried out.
type None struct{}

func parseNone(*proto.Decoder) None { return None{} }

// ParseStat reads a stat.
func ParseStat(d *proto.Decoder) *zk.Stat {
	var s proto.Stat
	s.Decode(d)
	return (*zk.Stat)(&s)
}

func readFrame(path string, watch bool) []byte {
	r := proto.ReadRequest{Path: path, Watch: watch}
	return r.Append(conn.Begin(5 + len(path)))
}

// AskGet reads a node's data, and sets a standard watch if watch is true.
func AskGet(path string, watch bool) Request[WithStat[[]byte]] {
	return Request[WithStat[[]byte]]{Op: proto.OpGetData, Frame: readFrame(path, watch), Parse: func(d *proto.Decoder) WithStat[[]byte] {
		return WithStat[[]byte]{d.Bytes(), ParseStat(d)}
	}}
}

// AskChildren reads the names of its children, and sets a standard watch if watch is true.
func AskChildren(path string, watch bool) Request[WithStat[[]string]] {
	return Request[WithStat[[]string]]{Op: proto.OpGetChildren2, Frame: readFrame(path, watch), Parse: func(d *proto.Decoder) WithStat[[]string] {
		return WithStat[[]string]{d.Strings(), ParseStat(d)}
	}}
}

// AskExists reads its stat, and sets a standard watch if watch is true.
func AskExists(path string, watch bool) Request[*zk.Stat] {
	return Request[*zk.Stat]{Op: proto.OpExists, Frame: readFrame(path, watch), Parse: ParseStat}
}

// askNothing is a write that changes nothing. It needs no permission: a refusal is committed, too.
func askNothing() Request[None] {
	check := proto.MultiRequest{Ops: []proto.MultiOp{{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: "/", Version: -1}}}}
	return Request[None]{Op: proto.OpMulti, Frame: check.Append(conn.Begin(64)), Parse: parseNone}
}

func askDelete(path string, version int32) Request[None] {
	r := proto.VersionRequest{Path: path, Version: version}
	return Request[None]{Op: proto.OpDelete, Frame: r.Append(conn.Begin(8 + len(path))), Parse: parseNone}
}

// AskSync has the server catch up with the leader, nearly always.
func AskSync(path string) Request[string] {
	r := proto.PathRequest{Path: path}
	return Request[string]{Op: proto.OpSync, Frame: r.Append(conn.Begin(4 + len(path))), Parse: func(d *proto.Decoder) string { return d.String() }}
}

// ProtoACL is an ACL as it is sent.
func ProtoACL(acl []zk.ACL) []proto.ACL {
	list := make([]proto.ACL, len(acl))
	for i, a := range acl {
		list[i] = proto.ACL(a)
	}
	return list
}

// ParseMulti reads the results of a transaction.
func ParseMulti(d *proto.Decoder) []proto.MultiResult {
	var r proto.MultiResponse
	r.Decode(d)
	return r.Results
}

// MultiFailure returns why a transaction of n operations that was answered was not carried out, and the operation of which the
// server says so; -1 is none. The others have no failure of their own, or are said to be inconsistent with the one that has.
func MultiFailure(results []proto.MultiResult, n int) (int, error) {
	if len(results) != n {
		return -1, doubtful{fmt.Errorf("%w: %d results of %d operations", proto.ErrMalformed, len(results), n)}
	}
	for _, inconsistent := range []bool{false, true} {
		for i, r := range results {
			if r.Op == proto.OpError && r.Code != proto.OK && (inconsistent || r.Code != proto.RuntimeInconsistency) {
				return i, conn.CodeError(r.Code)
			}
		}
	}
	return -1, nil
}

func askAddWatch(path string, mode Mode) Request[None] {
	r := proto.WatchRequest{Path: path, Kind: int32(mode)}
	return Request[None]{Op: proto.OpAddWatch, Frame: r.Append(conn.Begin(8 + len(path))), Parse: parseNone}
}

func askRemoveWatch(path string) Request[None] {
	r := proto.WatchRequest{Path: path, Kind: proto.WatcherAny}
	return Request[None]{Op: proto.OpRemoveWatches, Frame: r.Append(conn.Begin(8 + len(path))), Parse: parseNone}
}
