package framework

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
)

// CreateOption says how [Client.Create] makes a node. Create refuses bad values with [ErrBadArgument].
type CreateOption func(*creation) error

// creation is what the options of one Create add up to.
type creation = engine.Creation

// As sets the node's mode. The default is [Persistent].
func As(mode Mode) CreateOption {
	return func(o *creation) error {
		switch mode {
		case Persistent, Ephemeral, PersistentSequential, EphemeralSequential, Container:
			o.Mode = int32(mode)
			return nil
		}
		return fmt.Errorf("%w: create %v", ErrBadArgument, mode)
	}
}

// TTL makes the server delete the node when it has no children and was not written to for d, at least a
// millisecond. Servers allow it only with extendedTypesEnabled, and a ClickHouse Keeper is not asked for it: the error is
// [ErrUnimplemented] then. It goes with [Persistent] and
// [PersistentSequential].
func TTL(d time.Duration) CreateOption {
	return func(o *creation) error {
		if d < time.Millisecond {
			return fmt.Errorf("%w: TTL %v", ErrBadArgument, d)
		}
		o.TTL = d
		return nil
	}
}

// ACL sets the node's ACL, instead of the one that [WithACLProvider] gives it. Parents
// that have to be made do not get it.
func ACL(acl []zk.ACL) CreateOption {
	return func(o *creation) error {
		if len(acl) == 0 {
			return fmt.Errorf("%w: empty ACL", ErrBadArgument)
		}
		o.ACL = acl
		return nil
	}
}

// ContainerParents makes missing parents, as containers: the server deletes them when they
// have become empty. ZooKeeper before 3.5 and ClickHouse Keeper get persistent nodes.
func ContainerParents() CreateOption { return parents(Container) }

// PersistentParents makes missing parents, as ordinary nodes that stay. It is Curator's
// creatingParentsIfNeeded(); the other is creatingParentContainersIfNeeded().
func PersistentParents() CreateOption { return parents(Persistent) }

func parents(mode Mode) CreateOption {
	return func(o *creation) error {
		o.Parents, o.ParentMode = true, int32(mode)
		return nil
	}
}

// Protected puts "_c_", an id and "-" before the node's name, as Curator's withProtection does. By that the client
// finds the node again when the reply to its creation was lost. So exactly one node is made, in the session that
// is alive when Create returns. If Create fails, the client removes the node, also if the server carries out
// the request only after Create has returned.
func Protected() CreateOption {
	return func(o *creation) error {
		o.Protected = true
		return nil
	}
}

// StatTo has Create write the stat of the new node to stat, from the same answer. If Create fails, stat is unchanged. If a reply
// was lost, and Create finds its [Protected] node again, stat is what the node has then. The error is [ErrUnimplemented]
// if the server cannot: ZooKeeper before 3.5, and a ClickHouse Keeper, which is not asked. It is Curator's storingStatIn.
//
// [Client.CreateOrSet] writes to it only if it returns true.
func StatTo(stat *zk.Stat) CreateOption {
	return func(o *creation) error {
		if stat == nil {
			return fmt.Errorf("%w: nil stat", ErrBadArgument)
		}
		o.Stat = stat
		return nil
	}
}

// newCreation applies the options for a node at path. The error says what is wrong with them, or with the path.
func newCreation(path string, opts []CreateOption) (o creation, err error) {
	if err := opt.Apply(&o, opts); err != nil {
		return o, err
	}
	if mode := Mode(o.Mode); o.TTL > 0 && mode != Persistent && mode != PersistentSequential {
		return o, fmt.Errorf("%w: TTL with create mode %v", ErrBadArgument, mode)
	}
	return o, validateNew(path, isSequential(o.Mode))
}

// isSequential reports whether a node with these flags gets a number.
func isSequential(flags int32) bool { return flags&zk.FlagSequence != 0 }

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
