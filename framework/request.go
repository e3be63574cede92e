package framework

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// question is one request. Its functions, of which only parse must be there, are called on the
// connection's goroutine and must not block.
type question[T any] struct {
	op      proto.Op
	frame   []byte // begun by [conn.Begin]
	parse   func(*proto.Decoder) T
	written func()         // when it has been written
	done    func(T, error) // when it has been answered, whether anybody waits or not
	late    func(T, error) // gets the answer that nobody waits for any more
	last    bool           // see [conn.Request]
}

// ask sends a request on l and returns what parse makes of its answer. When ctx is done or the
// client closed first, ask returns at once. The request goes on if it has been written, and is not sent otherwise.
func ask[T any](ctx context.Context, l *link, q question[T]) (T, error) {
	return send(l, q).wait(ctx, l)
}

// send sends a request. It does not block.
func send[T any](l *link, q question[T]) *exchange[T] {
	x := &exchange[T]{question: q, answered: make(chan struct{}, 1)}
	x.request = conn.Request{Op: q.op, Frame: q.frame, Written: q.written, Handler: x, Last: q.last}
	l.conn.Send(&x.request)
	return x
}

// exchange is a request and its answer, for which its caller may stop to wait.
type exchange[T any] struct {
	question[T]
	request   conn.Request
	answered  chan struct{} // capacity 1; filled when value and err are set
	value     T
	err       error
	abandoned atomic.Bool // whoever sets it second knows of the other
}

// Reply implements [conn.Handler].
func (x *exchange[T]) Reply(body *proto.Decoder, err error) {
	if err == nil {
		value := x.parse(body)
		if body.Err() != nil {
			return // the connection ends for it, and we are called again when holders know
		}
		x.value = value
	}
	x.err = err
	if x.done != nil {
		x.done(x.value, err)
	}
	x.answered <- struct{}{}
	if x.abandoned.Swap(true) && x.late != nil {
		x.late(x.value, err)
	}
}

// wait returns the answer, or at once when ctx is done or the client closed.
func (x *exchange[T]) wait(ctx context.Context, l *link) (T, error) {
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
		return none, unanswered{ErrClosed}
	}
	return none, unanswered{wait.Err(ctx)}
}

// errNotRead is why a request was not sent although there was a connection.
var errNotRead = errors.New("the server does not read what is sent")

// waitOnly is wait for what the client does while it closes.
func (x *exchange[T]) waitOnly(ctx context.Context) (T, error) {
	select {
	case <-x.answered:
		return x.value, x.err
	case <-ctx.Done():
		var none T
		return none, unanswered{wait.Err(ctx)}
	}
}

// The requests.

// withStat is a result that comes with a stat, as one value.
type withStat[T any] struct {
	value T
	stat  *zk.Stat
}

// nothing is the result of a request whose answer is that it was carried out.
type nothing struct{}

func parseNothing(*proto.Decoder) nothing { return nothing{} }

func parseStat(d *proto.Decoder) *zk.Stat {
	var s proto.Stat
	s.Decode(d)
	return (*zk.Stat)(&s)
}

func parsePath(d *proto.Decoder) string { return d.String() }

func readFrame(path string, watch bool) []byte {
	r := proto.ReadRequest{Path: path, Watch: watch}
	return r.Append(conn.Begin(5 + len(path)))
}

func askGet(path string, watch bool) question[withStat[[]byte]] {
	return question[withStat[[]byte]]{op: proto.OpGetData, frame: readFrame(path, watch), parse: func(d *proto.Decoder) withStat[[]byte] {
		return withStat[[]byte]{d.Bytes(), parseStat(d)}
	}}
}

func askChildren(path string, watch bool) question[withStat[[]string]] {
	return question[withStat[[]string]]{op: proto.OpGetChildren2, frame: readFrame(path, watch), parse: func(d *proto.Decoder) withStat[[]string] {
		return withStat[[]string]{d.Strings(), parseStat(d)}
	}}
}

func askExists(path string, watch bool) question[*zk.Stat] {
	return question[*zk.Stat]{op: proto.OpExists, frame: readFrame(path, watch), parse: parseStat}
}

func askSet(path string, data []byte, version int32) question[*zk.Stat] {
	r := proto.SetDataRequest{Path: path, Data: data, Version: version}
	return question[*zk.Stat]{op: proto.OpSetData, frame: r.Append(conn.Begin(12 + len(path) + len(data))), parse: parseStat}
}

// catchUp sends a write that changes nothing, for which nobody waits. It confirms the session, see [session.Deadline]. And
// since a server answers a session in order, what is asked from now on is answered when the server has applied all that was
// committed before: an event need not say which transaction it is about, so the next server may know less than the last one
// did, and a holder that was woken by an event could read what was true before its predecessor wrote.
func (l *link) catchUp() { send(l, askNothing()) }

// askNothing is a write that changes nothing. It needs no permission: a refusal is committed, too.
func askNothing() question[nothing] {
	check := proto.MultiRequest{Ops: []proto.MultiOp{{Op: proto.OpCheck, Body: &proto.VersionRequest{Path: "/", Version: -1}}}}
	return question[nothing]{op: proto.OpMulti, frame: check.Append(conn.Begin(64)), parse: parseNothing}
}

func askDelete(path string, version int32) question[nothing] {
	r := proto.VersionRequest{Path: path, Version: version}
	return question[nothing]{op: proto.OpDelete, frame: r.Append(conn.Begin(8 + len(path))), parse: parseNothing}
}

func askSync(path string) question[string] {
	r := proto.PathRequest{Path: path}
	return question[string]{op: proto.OpSync, frame: r.Append(conn.Begin(4 + len(path))), parse: parsePath}
}

func askGetACL(path string) question[withStat[[]zk.ACL]] {
	r := proto.PathRequest{Path: path}
	return question[withStat[[]zk.ACL]]{op: proto.OpGetACL, frame: r.Append(conn.Begin(4 + len(path))), parse: func(d *proto.Decoder) withStat[[]zk.ACL] {
		acls := d.ACLs()
		list := make([]zk.ACL, len(acls))
		for i, a := range acls {
			list[i] = zk.ACL(a)
		}
		return withStat[[]zk.ACL]{list, parseStat(d)}
	}}
}

func askSetACL(path string, acl []zk.ACL, version int32) question[*zk.Stat] {
	r := proto.SetACLRequest{Path: path, ACL: protoACL(acl), Version: version}
	return question[*zk.Stat]{op: proto.OpSetACL, frame: r.Append(conn.Begin(64 + len(path))), parse: parseStat}
}

func protoACL(acl []zk.ACL) []proto.ACL {
	list := make([]proto.ACL, len(acl))
	for i, a := range acl {
		list[i] = proto.ACL(a)
	}
	return list
}

func askAddWatch(path string, mode WatchMode) question[nothing] {
	r := proto.WatchRequest{Path: path, Kind: int32(mode)}
	return question[nothing]{op: proto.OpAddWatch, frame: r.Append(conn.Begin(8 + len(path))), parse: parseNothing}
}

func askRemoveWatch(path string) question[nothing] {
	r := proto.WatchRequest{Path: path, Kind: proto.WatcherAny}
	return question[nothing]{op: proto.OpRemoveWatches, frame: r.Append(conn.Begin(8 + len(path))), parse: parseNothing}
}
