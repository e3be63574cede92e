package node

import (
	"fmt"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
)

// Option configures a kept node or a member of a group. [Keep] and [Join] refuse bad values with
// [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	taken      Taken
	protected  bool
	sequential bool
	persistent bool
	ttl        time.Duration
	noParents  bool
	policy     connstate.ErrorPolicy
}

// Taken says what to do when the path is taken by a node that is not ours: see [WithIfTaken].
type Taken int

const (
	// Wait waits until the other's node is gone. It is the default.
	Wait Taken = iota

	// Replace deletes the other's node and makes ours, in one transaction if ours is ephemeral. For another Keep of this
	// client it waits as Wait does. Replace ends when our node is there for the first time. If somebody replaces our node
	// later, it waits as well, so two that replace do not delete each other's nodes again and again.
	Replace

	// Fail makes Keep return [ErrTaken]. If the path is taken after Keep has returned, it
	// is like Wait.
	Fail
)

// WithIfTaken says what to do when there is a node at the path that does not belong to our session, or when another Keep of
// this client has the path. While that is so, [Node.Err] is [ErrTaken]. If another Keep of this client is closing,
// Keep first waits until its node is deleted, whatever the option says.
func WithIfTaken(taken Taken) Option {
	return opt.Checked(taken >= Wait && taken <= Fail, func(c *config) { c.taken = taken }, "WithIfTaken(%d)", taken)
}

// AsProtected puts "_c_", an id and "-" before the node's name, as Curator does. The name is chosen
// once: a node that is made again has the same name.
func AsProtected() Option { return opt.Set(func(c *config) { c.protected = true }) }

// AsSequential appends a number of ten digits to the node's name, as ZooKeeper does. It needs [AsProtected], by which the node is found
// when the reply to its creation is lost. The number is chosen when the node is first created, and kept when the node has to be
// created again.
func AsSequential() Option { return opt.Set(func(c *config) { c.sequential = true }) }

// AsPersistent makes a persistent node instead of an ephemeral one. It is made again when it is
// deleted, stays when the client is closed or the process ends, and goes with [Node.Close].
func AsPersistent() Option { return opt.Set(func(c *config) { c.persistent = true }) }

// WithTTL makes a persistent node that the server deletes when nobody has kept it for ttl, which must
// be at least two milliseconds. It has a child "touch", which is written every ttl/2.
// A server that refuses that is logged. [Node.Close] deletes neither. ZooKeeper allows it only if extendedTypesEnabled is set, and a
// ClickHouse Keeper never: Keep returns [framework.ErrUnimplemented] then. It cannot be combined with [AsProtected] and [AsSequential].
func WithTTL(ttl time.Duration) Option {
	return opt.Checked(ttl >= 2*time.Millisecond, func(c *config) { c.persistent, c.ttl = true, ttl }, "TTL %v", ttl)
}

// WithoutParents does not make missing parents. The default makes them, as containers. Without a
// parent [Node.Err] is zk.ErrNoNode, and the node is made when the parent exists.
func WithoutParents() Option { return opt.Set(func(c *config) { c.noParents = true }) }

// WithErrorPolicy sets which states of the connection make [Node.Present] false. The default is the
// client's policy.
func WithErrorPolicy(policy connstate.ErrorPolicy) Option {
	known := policy == connstate.Standard || policy == connstate.Session
	return opt.Checked(known, func(c *config) { c.policy = policy }, "error policy %v", policy)
}

// configure applies options to the defaults, and checks them with client and path.
func configure(client *framework.Client, path string, opts []Option) (cfg config, err error) {
	if client == nil {
		return cfg, fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	cfg.policy = client.ErrorPolicy()
	if err := opt.Apply(&cfg, opts); err != nil {
		return cfg, err
	}
	switch {
	case cfg.ttl > 0 && (cfg.protected || cfg.sequential):
		return cfg, fmt.Errorf("%w: a TTL node cannot be protected or sequential", framework.ErrBadArgument)
	case cfg.sequential && !cfg.protected:
		return cfg, fmt.Errorf("%w: a sequential node must be protected", framework.ErrBadArgument)
	case path == "/" && !cfg.sequential:
		return cfg, fmt.Errorf("%w: the root cannot be kept", framework.ErrBadPath)
	case cfg.sequential:
		path += "0" // the name may be empty: the number is one
	}
	return cfg, framework.ValidatePath(path)
}

// mode is how the node is created: the number of a sequential one is chosen when it is created first.
func (c config) mode(first bool) framework.Mode {
	mode := framework.Ephemeral
	if c.persistent {
		mode = framework.Persistent
	}
	if c.sequential && first {
		mode |= framework.PersistentSequential // the modes are ZooKeeper's flags
	}
	return mode
}
