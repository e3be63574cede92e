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
	return func(c *config) error {
		if taken < Wait || taken > Fail {
			return fmt.Errorf("%w: WithIfTaken(%d)", framework.ErrBadArgument, taken)
		}
		c.taken = taken
		return nil
	}
}

// AsProtected puts "_c_", an id and "-" before the node's name, as Curator does. The name is chosen
// once: a node that is made again has the same name.
func AsProtected() Option {
	return func(c *config) error { c.protected = true; return nil }
}

// AsSequential appends a number of ten digits to the node's name, as ZooKeeper does. It needs [AsProtected], by which the node is found
// when the reply to its creation is lost. The number is chosen when the node is first created, and kept when the node has to be
// created again.
func AsSequential() Option {
	return func(c *config) error { c.sequential = true; return nil }
}

// AsPersistent makes a persistent node instead of an ephemeral one. It is made again when it is
// deleted, stays when the client is closed or the process ends, and goes with [Node.Close].
func AsPersistent() Option {
	return func(c *config) error { c.persistent = true; return nil }
}

// WithTTL makes a persistent node that the server deletes when nobody has kept it for ttl, which must
// be at least two milliseconds. It has a child "touch", which is written every ttl/2.
// [Node.Close] deletes neither. ZooKeeper allows it only if told to (extendedTypesEnabled), and a ClickHouse Keeper never: the
// error is [framework.ErrUnimplemented], and Keep waits in vain. It cannot be
// combined with [AsProtected] and [AsSequential].
func WithTTL(ttl time.Duration) Option {
	return func(c *config) error {
		if ttl < 2*time.Millisecond {
			return fmt.Errorf("%w: TTL %v", framework.ErrBadArgument, ttl)
		}
		c.persistent, c.ttl = true, ttl
		return nil
	}
}

// WithoutParents does not make missing parents. The default makes them, as containers. Without a
// parent [Node.Err] is zk.ErrNoNode, and the node is made when the parent exists.
func WithoutParents() Option {
	return func(c *config) error { c.noParents = true; return nil }
}

// WithErrorPolicy sets which states of the connection make [Node.Present] false. The default is the
// client's policy.
func WithErrorPolicy(policy connstate.ErrorPolicy) Option {
	return func(c *config) error {
		if policy != connstate.Standard && policy != connstate.Session {
			return fmt.Errorf("%w: error policy %v", framework.ErrBadArgument, policy)
		}
		c.policy = policy
		return nil
	}
}

// configure applies options to the defaults, and checks them with client and path.
func configure(client *framework.Client, path string, opts []Option) (config, error) {
	if client == nil {
		return config{}, fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	cfg := config{policy: client.ErrorPolicy()}
	if err := opt.Apply(&cfg, opts); err != nil {
		return config{}, err
	}
	switch {
	case cfg.ttl > 0 && (cfg.protected || cfg.sequential):
		return config{}, fmt.Errorf("%w: a TTL node cannot be protected or sequential", framework.ErrBadArgument)
	case cfg.sequential && !cfg.protected:
		return config{}, fmt.Errorf("%w: a sequential node must be protected", framework.ErrBadArgument)
	}
	if cfg.sequential {
		path += "0" // the name may be empty: the number is one
	}
	if path == "/" {
		return config{}, fmt.Errorf("%w: the root cannot be kept", framework.ErrBadPath)
	}
	return cfg, framework.ValidatePath(path)
}

// mode is how the node is created: the number of a sequential one is chosen when it is created first.
func (c config) mode(first bool) framework.Mode {
	switch numbered := c.sequential && first; {
	case numbered && c.persistent:
		return framework.PersistentSequential
	case numbered:
		return framework.EphemeralSequential
	case c.persistent:
		return framework.Persistent
	}
	return framework.Ephemeral
}
