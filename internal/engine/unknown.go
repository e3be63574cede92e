package engine

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/proto"
)

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
	if !known {
		return false
	}
	unknown := errors.Is(err, ErrUnimplemented)
	if op == proto.OpCreateContainer && errors.Is(err, zk.ErrBadArguments) {
		unknown = true // a newer Keeper, if it ever restores sessions
	}
	if unknown && why == "" {
		c.unknownOps.Store(op, true)
	}
	return unknown
}

// unimplemented is the error of a server that does not know op, or does not allow it.
func unimplemented(op proto.Op) error {
	why := optional[op]
	if why == "" {
		why = fmt.Sprintf("the server has no %v", op)
	}
	return fmt.Errorf("%s: %w", why, ErrUnimplemented)
}
