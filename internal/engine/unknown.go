package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
)

// optional are the operations that a server may not know. A ClickHouse Keeper is not asked for them: older ones close the
// connection without an answer, and the session is lost with it.
var optional = []proto.Op{
	proto.OpReconfig, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL, proto.OpMultiRead, proto.OpAddWatch,
	proto.OpGetEphemerals, proto.OpGetChildrenNumber, proto.OpWhoAmI,
}

// noteUnknown looks at how op has ended, and reports whether the server has answered that it does not know it. ZooKeeper closes
// the connection then, so the client does not ask again.
func (c *core) noteUnknown(op proto.Op, err error) bool {
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
		c.unknownOps.Store(op, true)
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
