package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// unknownOps are the operations of which a ZooKeeper server has answered that it does not know them. It closes the
// connection then, so the client does not ask again.
type unknownOps struct {
	mu  sync.Mutex // guards ops
	ops map[proto.Op]bool
}

// optional are the operations that a server may not know. A ClickHouse Keeper is not asked for them: older ones close the
// connection without an answer, and the session is lost with it.
var optional = []proto.Op{
	proto.OpReconfig, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL, proto.OpMultiRead, proto.OpAddWatch,
	proto.OpGetEphemerals, proto.OpGetChildrenNumber, proto.OpWhoAmI,
}

// has reports whether the server of l does not know op, as far as the client knows.
func (u *unknownOps) has(l *link, op proto.Op) bool {
	if byKeeper(l.conn.Grant) {
		return slices.Contains(optional, op)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ops[op]
}

// byKeeper reports whether a ClickHouse Keeper has granted the session: its password is all zeros, since a Keeper restores no
// session. That of ZooKeeper is random. Keepers of all versions do so, with data from ZooKeeper, too.
func byKeeper(g conn.Grant) bool {
	for _, b := range g.Password {
		if b != 0 {
			return false
		}
	}
	return true
}

// note looks at how op has ended, and reports whether the server has answered that it does not know it.
func (u *unknownOps) note(op proto.Op, err error) bool {
	unknown := errors.Is(err, ErrUnimplemented)
	if op == proto.OpCreateContainer && errors.Is(err, zk.ErrBadArguments) {
		unknown = true // a newer Keeper, if it ever restores sessions
	}
	// A server that is not told to have TTL nodes, or that runs alone and so cannot be reconfigured, says so, and the connection
	// stays. Another server, or the same later, may know it.
	if unknown && op != proto.OpCreateTTL && op != proto.OpReconfig {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.ops == nil {
			u.ops = make(map[proto.Op]bool)
		}
		u.ops[op] = true
	}
	return unknown
}

// unimplemented is the error of a server that does not know op, or does not allow it.
func unimplemented(op proto.Op) error {
	if op == proto.OpCreateTTL {
		return fmt.Errorf("the server does not allow TTL nodes (extendedTypesEnabled): %w", ErrUnimplemented)
	}
	if op == proto.OpReconfig {
		return fmt.Errorf("the server runs alone, or has no reconfiguration: %w", ErrUnimplemented)
	}
	return fmt.Errorf("the server has no %v: %w", op, ErrUnimplemented)
}

// askIfKnown is ask, unless the server does not know the operation. The error is [ErrUnimplemented] then.
func askIfKnown[T any](ctx context.Context, l *link, q question[T]) (T, error) {
	if !slices.Contains(optional, q.op) {
		return ask(ctx, l, q)
	}
	var none T
	unknown := &l.session.core.unknownOps
	if unknown.has(l, q.op) {
		return none, unimplemented(q.op)
	}
	value, err := ask(ctx, l, q)
	if unknown.note(q.op, err) {
		return none, unimplemented(q.op)
	}
	return value, err
}
