package framework

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
)

// CreateOption is an option of [Client.Create], which refuses invalid values with [ErrBadArgument].
// [As], [ACL] and [Idempotent] are CreateOptions as well.
type CreateOption interface{ create(*creation) error }

// creation contains the options of one Create.
type creation = engine.Creation

type createOption func(*creation) error

func (o createOption) create(c *creation) error { return o(c) }

// As sets the node's mode. The default is [Persistent].
func As(mode Mode) CreateOpOption { return asMode(mode) }

type asMode Mode

func (m asMode) create(o *creation) error {
	switch mode := Mode(m); mode {
	case Persistent, Ephemeral, PersistentSequential, EphemeralSequential, Container:
		o.Mode = int32(mode)
		return nil
	default:
		return fmt.Errorf("%w: unknown create mode %v", ErrBadArgument, mode)
	}
}

func (m asMode) createOp(op *zk.CreateRequest) { op.Flags = int32(m) }

// TTL lets the servers delete a [Persistent] or [PersistentSequential] node when it has no children
// and was not written for d. d must be at least a millisecond.
//
// TTL nodes need extendedTypesEnabled. A server without it and a ClickHouse Keeper refuse them, and
// Create returns [ErrUnimplemented].
func TTL(d time.Duration) CreateOption {
	return createOption(func(o *creation) error {
		if d < time.Millisecond {
			return fmt.Errorf("%w: TTL %v, must be at least 1ms", ErrBadArgument, d)
		}
		o.TTL = d
		return nil
	})
}

// ACL sets the node's ACL, and overrides [WithACLProvider]. It does not apply to created parents.
func ACL(acl []zk.ACL) CreateOpOption { return ownACL(acl) }

type ownACL []zk.ACL

func (acl ownACL) create(o *creation) error {
	if len(acl) == 0 {
		return errEmptyACL
	}
	o.ACL = acl
	return nil
}

func (acl ownACL) createOp(op *zk.CreateRequest) {
	op.Acl = append([]zk.ACL{}, acl...) // nil would mean the client's ACL
}

var errEmptyACL = fmt.Errorf("%w: empty ACL", ErrBadArgument)

// ContainerParents creates missing parents as containers, which the servers delete after their last
// child was deleted. On a server without containers, which is ZooKeeper before 3.5 or a ClickHouse
// Keeper, the parents are persistent. It is Curator's creatingParentContainersIfNeeded().
func ContainerParents() CreateOption { return parents(Container) }

// PersistentParents creates missing parents as persistent nodes. It is Curator's
// creatingParentsIfNeeded().
func PersistentParents() CreateOption { return parents(Persistent) }

func parents(mode Mode) CreateOption {
	return createOption(func(o *creation) error {
		o.Parents, o.ParentMode = true, int32(mode)
		return nil
	})
}

// Protected prefixes the node's name with "_c_", an id and "-". The client then finds the node if
// the reply to the create is lost. It is Curator's withProtection().
//
// Exactly one node is created, in the session that is alive when Create returns. If Create fails,
// the client deletes the node, even if the server applies the request later.
func Protected() CreateOption {
	return createOption(func(o *creation) error {
		o.Protected = true
		return nil
	})
}

// StatTo writes the stat of the new node to stat. If Create fails, stat is unchanged. It is
// Curator's storingStatIn.
//
// The stat is from the reply to the create, or from a later read if Create had to find its
// [Protected] node. With [OrSet], Version 0 means that the node was created. ZooKeeper before 3.5
// and a ClickHouse Keeper return no stat, and Create returns [ErrUnimplemented].
func StatTo(stat *zk.Stat) CreateOption {
	return createOption(func(o *creation) error {
		if stat == nil {
			return fmt.Errorf("%w: nil stat", ErrBadArgument)
		}
		o.Stat = stat
		return nil
	})
}

// OrSet lets [Client.Create] set the data of an existing node, whatever its version. The node keeps
// its mode and its ACL. It is Curator's orSetData().
//
// An ephemeral node that this call created in an expired session is deleted and created again.
// OrSet cannot be combined with [Protected], sequential modes, [Idempotent] and [IfMissing].
func OrSet() CreateOption {
	return createOption(func(o *creation) error {
		o.OrSet = true
		return nil
	})
}

// IfMissing lets [Client.Create] succeed if the node exists, whatever its data, mode and ACL. An
// existing node is not changed, and [StatTo] stores its stat.
//
// It cannot be combined with [Protected], ephemeral and sequential modes, [OrSet] and [Idempotent].
func IfMissing() CreateOption {
	return createOption(func(o *creation) error {
		o.IfMissing = true
		return nil
	})
}

// IdempotentOption is the type of [Idempotent], which is an option of several operations.
type IdempotentOption interface {
	CreateOption
	SetOption
	DeleteOption
}

// Idempotent lets a caller repeat a call of unknown outcome: the call succeeds if the node is
// already in the requested state. Empty data equal no data. It is Curator's idempotent().
//
//   - [Client.Create] succeeds if the node exists with the same data, was never written, and is
//     persistent or ephemeral as requested; an ephemeral node must belong to this client's session.
//     With [TTL] the node may be persistent. If the client is not permitted to read the node, the
//     result is zk.ErrNodeExists. Idempotent cannot be combined with [Protected], sequential
//     modes, [OrSet] and [IfMissing].
//   - [Client.Set] with [IfVersion] succeeds if the node has the next version and the same data. If
//     the client is not permitted to read the node, the result is zk.ErrBadVersion.
//   - [Client.Delete] succeeds if the node is missing.
func Idempotent() IdempotentOption { return idempotent{} }

type idempotent struct{}

func (idempotent) create(o *creation) error { o.Idempotent = true; return nil }
func (idempotent) set(s *setting) error     { s.idempotent = true; return nil }
func (idempotent) delete(d *deletion) error { d.ifExists = true; return nil }

// newCreation applies the options for a node at path, and checks them and the path.
func newCreation(path string, opts []CreateOption) (o creation, err error) {
	for _, option := range opts {
		if option == nil {
			return o, fmt.Errorf("%w: nil option", ErrBadArgument)
		}
		if err := option.create(&o); err != nil {
			return o, err
		}
	}
	if mode := Mode(o.Mode); o.TTL > 0 && mode != Persistent && mode != PersistentSequential {
		return o, fmt.Errorf("%w: TTL with create mode %v", ErrBadArgument, mode)
	}
	switch {
	case (o.OrSet || o.Idempotent || o.IfMissing) && (o.Protected || isSequential(o.Mode)):
		return o, fmt.Errorf("%w: OrSet, Idempotent and IfMissing cannot be combined with Protected and sequential modes", ErrBadArgument)
	case o.OrSet && o.Idempotent || o.OrSet && o.IfMissing || o.Idempotent && o.IfMissing:
		return o, fmt.Errorf("%w: OrSet, Idempotent and IfMissing cannot be combined", ErrBadArgument)
	case o.IfMissing && Mode(o.Mode) == Ephemeral:
		return o, fmt.Errorf("%w: IfMissing cannot be combined with ephemeral modes", ErrBadArgument)
	}
	return o, validateNew(path, isSequential(o.Mode))
}

// isSequential reports whether the server numbers nodes with these flags.
func isSequential(flags int32) bool { return flags&zk.FlagSequence != 0 }

// Mode is the kind of a node, set by [As].
type Mode int32

// The modes of ZooKeeper's nodes. TTL nodes are created with [TTL].
const (
	Persistent           Mode = zk.FlagPersistent
	Ephemeral            Mode = zk.FlagEphemeral
	PersistentSequential Mode = zk.FlagSequence
	EphemeralSequential  Mode = zk.FlagEphemeralSequential
	Container            Mode = zk.FlagContainer
)

// String returns the mode in words: "persistent", "ephemeral sequential", "container" and so on.
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
