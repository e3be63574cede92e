package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

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

func (u *unknownOps) has(op proto.Op) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ops[op]
}

// note looks at how op has ended, and reports whether the server has answered that it does not know it.
func (u *unknownOps) note(op proto.Op, err error) bool {
	if !slices.Contains(optional, op) {
		return false
	}
	unknown := errors.Is(err, ErrUnimplemented)
	if op == proto.OpCreateContainer && errors.Is(err, zk.ErrBadArguments) {
		unknown = true // a newer Keeper, if it ever restores sessions
	}
	// A server that is not configured to have TTL nodes, or that runs alone and so cannot be reconfigured, says so, and the connection
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
