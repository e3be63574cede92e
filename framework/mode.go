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

// WatchMode says which nodes a persistent watch covers.
type WatchMode int32

// The modes of ZooKeeper's addWatch.
const (
	// WatchPersistent covers one node: its creation, its deletion, changes of its data, and
	// zk.EventNodeChildrenChanged when a child is created or deleted.
	WatchPersistent WatchMode = 0

	// WatchRecursive covers a node and all nodes below it: creation, deletion and changes of data, each
	// with the path of the node concerned. There are no events about lists of children.
	WatchRecursive WatchMode = 1
)

// String is the mode in a word: "persistent" or "recursive".
func (m WatchMode) String() string {
	switch m {
	case WatchPersistent:
		return "persistent"
	case WatchRecursive:
		return "recursive"
	}
	return fmt.Sprintf("watch mode %d", int32(m))
}
