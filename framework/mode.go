package framework

import (
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Mode is the kind of a node.
type Mode int32

// The modes of ZooKeeper's nodes. TTL nodes are made with [TTL].
const (
	Persistent           Mode = zk.FlagPersistent
	Ephemeral            Mode = zk.FlagEphemeral
	PersistentSequential Mode = zk.FlagSequence
	EphemeralSequential  Mode = zk.FlagEphemeralSequential
	Container            Mode = zk.FlagContainer
)

// String is the mode in words: "persistent", "ephemeral sequential", "container" and so on.
func (m Mode) String() string {
	switch m {
	case Persistent:
		return "persistent"
	case Ephemeral:
		return "ephemeral"
	case PersistentSequential:
		return "persistent sequential"
	case EphemeralSequential:
		return "ephemeral sequential"
	case Container:
		return "container"
	}
	return fmt.Sprintf("mode %d", int32(m))
}
