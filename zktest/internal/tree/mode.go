package tree

import (
	"fmt"

	"github.com/gocurator/curator/internal/proto"
)

// Creates reports whether an operation creates a node.
func Creates(op proto.Op) bool {
	switch op {
	case proto.OpCreate, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL:
		return true
	}
	return false
}

// Writes reports whether an operation is a transaction, which consumes a zxid even if it fails.
func Writes(op proto.Op) bool {
	switch op {
	case proto.OpCheck, proto.OpDeleteContainer:
		return true
	}
	return op.IsWrite()
}

// Mode is the mode of a create request, which selects the kind of node.
type Mode int32

// The kinds of nodes.
const (
	modePersistent              = Mode(proto.FlagPersistent)
	modeEphemeral               = Mode(proto.FlagEphemeral)
	modePersistentSequential    = Mode(proto.FlagSequential)
	modeEphemeralSequential     = Mode(proto.FlagEphemeralSequential)
	modeContainer               = Mode(proto.FlagContainer)
	modePersistentTTL           = Mode(proto.FlagTTL)
	modePersistentTTLSequential = Mode(proto.FlagPersistentSequentialTTL)
)

// ephemeral reports whether the node is deleted with its session.
func (m Mode) ephemeral() bool { return m == modeEphemeral || m == modeEphemeralSequential }

// sequential reports whether the server adds a number to the name.
func (m Mode) sequential() bool {
	return m == modePersistentSequential || m == modeEphemeralSequential || m == modePersistentTTLSequential
}

func (m Mode) valid() bool { return m >= modePersistent && m <= modePersistentTTLSequential }
func (m Mode) ttl() bool   { return m == modePersistentTTL || m == modePersistentTTLSequential }

var modeNames = map[Mode]string{
	modePersistent: "persistent", modeEphemeral: "ephemeral", modePersistentSequential: "sequential",
	modeEphemeralSequential: "ephemeral+sequential", modeContainer: "container", modePersistentTTL: "ttl", modePersistentTTLSequential: "ttl+sequential",
}

// String returns the mode in words, such as "ephemeral+sequential".
func (m Mode) String() string {
	if name := modeNames[m]; name != "" {
		return name
	}
	return fmt.Sprintf("mode %d", int32(m))
}
