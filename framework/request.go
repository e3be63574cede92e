package framework

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// The requests that locks are made of go past the Conn: a create, a delete, a list, a look. With
// the Conn each takes a goroutine that waits for it, since the Conn's calls cannot be given up,
// and three hand-overs between goroutines, which cost as much as a server does. Here it takes
// none and one. Answers come through the wire, which the Conn reads, in one order with
// everything else; so what is said about watches is true for these as well.

// ask sends a request of our own and returns what parse makes of its answer. For everything
// else see [call]. op and body are those of the protocol.
func ask[T any](ctx context.Context, l *link, q question[T]) (T, error) {
	if !l.enter() {
		var none T
		return none, zk.ErrNoServer // nothing was sent
	}
	w := newWaiting(q.late)
	l.wire.send(&ownRequest{
		op:      q.op,
		frame:   append(header(0, q.op), q.body...),
		written: q.written,
		reply: func(frame []byte, err error) {
			defer l.calls.Done()
			var value T
			if err == nil {
				value, err = parseReply(frame, q.parse)
			}
			if q.settle != nil {
				q.settle(err)
			}
			w.done(value, err)
		},
	})
	return w.wait(ctx, l)
}

// question is a request of our own. Its functions, of which only parse must be there, are called
// on the connection's goroutine and must not block.
type question[T any] struct {
	op      int32
	body    []byte
	parse   func(*cursor) T
	written func()         // when it has been written
	settle  func(error)    // when it has been answered, whether anybody waits or not
	late    func(T, error) // gets the answer that nobody waits for any more
}

// parseReply takes an answer apart.
func parseReply[T any](frame []byte, parse func(*cursor) T) (T, error) {
	var none T
	_, _, code, ok := replyHeader(frame)
	if !ok {
		return none, errShortReply
	}
	if code != 0 {
		return none, codeError(code)
	}
	c := &cursor{rest: frame[20:]}
	value := parse(c)
	if c.short {
		return none, errShortReply
	}
	return value, nil
}

// errShortReply is an answer that ends too early.
var errShortReply = errors.New("malformed reply")

// codes are the errors of go-zookeeper, which has them by number too, but for itself.
var codes = map[int32]error{
	-8:   zk.ErrBadArguments,
	-100: zk.ErrAPIError,
	-101: zk.ErrNoNode,
	-102: zk.ErrNoAuth,
	-103: zk.ErrBadVersion,
	-108: zk.ErrNoChildrenForEphemerals,
	-110: zk.ErrNodeExists,
	-111: zk.ErrNotEmpty,
	-112: zk.ErrSessionExpired,
	-114: zk.ErrInvalidACL,
	-115: zk.ErrAuthFailed,
	-118: zk.ErrSessionMoved,
	-123: zk.ErrReconfigDisabled,
}

// codeError says what a server said, in go-zookeeper's words.
func codeError(code int32) error {
	if err := codes[code]; err != nil {
		return err
	}
	return fmt.Errorf("unknown error: %d", code)
}

// The requests.

func askGet(path string, watch bool) question[withStat[[]byte]] {
	return question[withStat[[]byte]]{op: opGetData, body: appendWatched(path, watch), parse: func(c *cursor) withStat[[]byte] {
		return withStat[[]byte]{c.bytes(), c.stat()}
	}}
}

func askChildren(path string, watch bool) question[withStat[[]string]] {
	return question[withStat[[]string]]{op: opGetChildren2, body: appendWatched(path, watch), parse: func(c *cursor) withStat[[]string] {
		return withStat[[]string]{c.strings(), c.stat()}
	}}
}

func askDelete(path string, version int32) question[struct{}] {
	body := appendBytes(make([]byte, 0, 8+len(path)), []byte(path))
	body = binary.BigEndian.AppendUint32(body, uint32(version))
	return question[struct{}]{op: opDelete, body: body, parse: func(*cursor) struct{} { return struct{}{} }}
}

// askCreate makes a node; ttl is 0 for none.
func askCreate(path string, data []byte, acl []zk.ACL, mode Mode, ttl time.Duration) question[string] {
	q := question[string]{op: opCreate, parse: (*cursor).string}
	flags := int32(mode)
	switch {
	case ttl > 0 && mode == PersistentSequential:
		q.op, flags = opCreateTTL, zk.FlagPersistentSequentialWithTTL
	case ttl > 0:
		q.op, flags = opCreateTTL, zk.FlagTTL
	case mode == Container:
		q.op = opCreateContainer
	}
	q.body = appendBytes(make([]byte, 0, 64+len(path)+len(data)), []byte(path))
	if data == nil {
		q.body = binary.BigEndian.AppendUint32(q.body, 1<<32-1) // none is not the same as empty
	} else {
		q.body = appendBytes(q.body, data)
	}
	q.body = binary.BigEndian.AppendUint32(q.body, uint32(len(acl)))
	for _, a := range acl {
		q.body = binary.BigEndian.AppendUint32(q.body, uint32(a.Perms))
		q.body = appendBytes(q.body, []byte(a.Scheme))
		q.body = appendBytes(q.body, []byte(a.ID))
	}
	q.body = binary.BigEndian.AppendUint32(q.body, uint32(flags))
	if ttl > 0 {
		q.body = binary.BigEndian.AppendUint64(q.body, uint64(ttl.Milliseconds()))
	}
	return q
}

func appendWatched(path string, watch bool) []byte {
	body := appendBytes(make([]byte, 0, 5+len(path)), []byte(path))
	if watch {
		return append(body, 1)
	}
	return append(body, 0)
}

// cursor reads an answer. After an error all further values are zero.
type cursor struct {
	rest  []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if c.short || n < 0 || n > len(c.rest) {
		c.short = true
		return nil
	}
	taken := c.rest[:n:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) int32() int32 {
	if b := c.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) int64() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// bytes returns nil for none, which is not the same as no bytes.
func (c *cursor) bytes() []byte {
	n := c.int32()
	if n == -1 {
		return nil
	}
	return c.take(int(n))
}

func (c *cursor) string() string { return string(c.bytes()) }

func (c *cursor) strings() []string {
	n := int(c.int32())
	if n < 0 || n > len(c.rest)/4 { // each has a length
		c.short = c.short || n != -1
		return nil
	}
	// One string, of which all are parts: they are kept or dropped together.
	all := string(c.rest)
	list := make([]string, n)
	for i := range list {
		at := len(all) - len(c.rest) + 4
		list[i] = all[min(at, len(all)):][:len(c.bytes())]
	}
	return list
}

func (c *cursor) stat() *zk.Stat {
	return &zk.Stat{
		Czxid: c.int64(), Mzxid: c.int64(), Ctime: c.int64(), Mtime: c.int64(),
		Version: c.int32(), Cversion: c.int32(), Aversion: c.int32(),
		EphemeralOwner: c.int64(), DataLength: c.int32(), NumChildren: c.int32(), Pzxid: c.int64(),
	}
}
