package zkconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/proto"
)

// AddAuth presents credentials on this connection and on every later one. If the server refuses them, the error is [ErrAuthFailed].
func (c *Conn) AddAuth(scheme string, auth []byte) error {
	return unwrapped(c.client.AddAuth(once, scheme, auth))
}

// Children returns the names of a node's children, in no order.
func (c *Conn) Children(path string) ([]string, *Stat, error) {
	children, stat, err := c.client.Children(once, path)
	stat, err = given(stat, err)
	return list(children, err), stat, err
}

// ChildrenW is [Conn.Children], and sets a watch.
func (c *Conn) ChildrenW(path string) ([]string, *Stat, <-chan Event, error) {
	children, stat, set, err := c.client.ChildrenW(once, path)
	if err != nil {
		return nil, nil, nil, unwrapped(err)
	}
	return list(children, nil), stat, c.watch(path, ofChildren, stat, set), nil
}

// Get returns the data of a node.
func (c *Conn) Get(path string) ([]byte, *Stat, error) {
	data, stat, err := c.client.Get(once, path)
	stat, err = given(stat, err)
	return data, stat, err
}

// GetW is [Conn.Get], and sets a watch.
func (c *Conn) GetW(path string) ([]byte, *Stat, <-chan Event, error) {
	data, stat, set, err := c.client.GetW(once, path)
	if err != nil {
		return nil, nil, nil, unwrapped(err)
	}
	return data, stat, c.watch(path, ofData, stat, set), nil
}

// Set replaces the data of a node if its version is the one given; -1 is any.
func (c *Conn) Set(path string, data []byte, version int32) (*Stat, error) {
	return given(c.client.Set(once, path, data, version))
}

// Create creates a node and returns its path, which has a number at the end if flags contain [FlagSequence].
func (c *Conn) Create(path string, data []byte, flags int32, acl []ACL) (string, error) {
	mode := framework.Mode(flags)
	switch flags {
	case FlagPersistent, FlagEphemeral, FlagSequence, FlagEphemeralSequential:
	case FlagContainer:
		mode = framework.Persistent // which is what servers make of it in this request
	default:
		return "", badFlags("create", flags)
	}
	return c.create(once, path, data, acl, mode)
}

// CreateContainer creates a container: servers delete it when its last child is deleted. flag must be [FlagContainer].
func (c *Conn) CreateContainer(path string, data []byte, flag int32, acl []ACL) (string, error) {
	if flag != FlagContainer {
		return "", badFlags("create container", flag)
	}
	return c.create(once, path, data, acl, framework.Container)
}

// CreateTTL creates a node that servers delete when it has no children and was not written to for ttl. flag must be [FlagTTL] or
// [FlagPersistentSequentialWithTTL].
func (c *Conn) CreateTTL(path string, data []byte, flag int32, acl []ACL, ttl time.Duration) (string, error) {
	mode := framework.Persistent
	switch flag {
	case FlagTTL:
	case FlagPersistentSequentialWithTTL:
		mode = framework.PersistentSequential
	default:
		return "", badFlags("create TTL", flag)
	}
	return c.create(once, path, data, acl, mode, framework.TTL(ttl))
}

// CreateProtectedEphemeralSequential creates an ephemeral sequential node with an id in its name, by which it is found again when the
// answer was lost: "_c_", a UUID, "-" and the name. If it fails, no node stays. It is repeated when the connection is lost.
func (c *Conn) CreateProtectedEphemeralSequential(path string, data []byte, acl []ACL) (string, error) {
	return c.create(repeated, path, data, acl, framework.EphemeralSequential, framework.Protected())
}

// create answers itself where a server would say something else than the client does.
func (c *Conn) create(ctx context.Context, path string, data []byte, acl []ACL, mode framework.Mode, opts ...framework.CreateOption) (string, error) {
	number := "" // that the server adds to the name
	if mode == framework.PersistentSequential || mode == framework.EphemeralSequential {
		number = "0"
	}
	switch {
	case framework.ValidatePath(path+number) != nil:
		return "", zk.ErrInvalidPath
	case len(acl) == 0:
		return "", zk.ErrInvalidACL
	case path+number == "/":
		return "", zk.ErrNodeExists
	}
	var o engine.Creation
	if err := opt.Apply(&o, append(opts, framework.As(mode), framework.ACL(acl))); err != nil {
		return "", unwrapped(err)
	}
	// Not c.client.Create: nil data are no data here, as in go-zookeeper, and not the client's default data.
	created, err := engine.Of(c.client).Create(ctx, path, data, o)
	return created, unwrapped(err)
}

// Delete deletes a node if its version is the one given; -1 is any.
func (c *Conn) Delete(path string, version int32) error {
	return unwrapped(c.client.Delete(once, path, version))
}

// Exists reports whether there is such a node.
func (c *Conn) Exists(path string) (bool, *Stat, error) {
	found, stat, err := c.client.Exists(once, path)
	stat, err = given(stat, err)
	return found, stat, err
}

// ExistsW is [Conn.Exists], and sets a watch.
func (c *Conn) ExistsW(path string) (bool, *Stat, <-chan Event, error) {
	found, stat, set, err := c.client.ExistsW(once, path)
	switch {
	case err != nil:
		return false, nil, nil, unwrapped(err)
	case !found:
		return false, new(Stat), c.watch(path, ofCreation, nil, set), nil
	}
	return true, stat, c.watch(path, ofData, stat, set), nil
}

// GetACL returns the ACL of a node.
func (c *Conn) GetACL(path string) ([]ACL, *Stat, error) {
	acl, stat, err := c.client.GetACL(once, path)
	stat, err = given(stat, err)
	return acl, stat, err
}

// SetACL replaces the ACL of a node if its ACL version is the one given; -1 is any.
func (c *Conn) SetACL(path string, acl []ACL, version int32) (*Stat, error) {
	return given(c.client.SetACL(once, path, acl, version))
}

// Sync makes the server catch up with the leader.
func (c *Conn) Sync(path string) (string, error) {
	if err := framework.ValidatePath(path); err != nil {
		return "", unwrapped(err)
	}
	err := engine.Of(c.client).Do(once, "sync", path, func(l *engine.Connection) error {
		_, err := engine.Call(once, l, engine.AskSync(path))
		return err
	})
	if err != nil {
		return "", unwrapped(err)
	}
	return path, nil
}

// Multi carries out all operations or none: [*CreateRequest], [*DeleteRequest], [*SetDataRequest] and [*CheckVersionRequest].
func (c *Conn) Multi(ops ...any) ([]MultiResponse, error) {
	if len(ops) == 0 {
		return []MultiResponse{}, nil
	}
	sent := make([]any, len(ops))
	for i, op := range ops {
		sent[i] = op
		create, ok := op.(*CreateRequest)
		if ok && create != nil && create.Acl == nil {
			clone := *create
			clone.Acl = []ACL{} // nil would mean the client's default
			sent[i] = &clone
		}
	}
	results, err := c.client.Multi(once, sent...)
	for i := range results {
		results[i].Error = unwrapped(results[i].Error)
		if _, create := ops[i].(*CreateRequest); !create || err != nil {
			results[i].String = ""
		}
	}
	return results, unwrapped(err)
}

// IncrementalReconfig adds servers to the ensemble, given as lines of its configuration such as "server.4=host:2888:3888;2181", and removes
// those with the ids of leaving, if its configuration has this version; -1 is any. It returns the stat of the new configuration, which is the
// data of /zookeeper/config.
func (c *Conn) IncrementalReconfig(joining, leaving []string, version int64) (*Stat, error) {
	return given(c.reconfig(&proto.ReconfigRequest{Joining: listed(joining), Leaving: listed(leaving), Config: version}))
}

// Reconfig is [Conn.IncrementalReconfig] with all servers that there shall be.
func (c *Conn) Reconfig(members []string, version int64) (*Stat, error) {
	return given(c.reconfig(&proto.ReconfigRequest{Members: listed(members), Config: version}))
}

func (c *Conn) reconfig(change *proto.ReconfigRequest) (stat *Stat, err error) {
	err = engine.Of(c.client).Do(once, "reconfig", engine.ConfigPath, func(l *engine.Connection) error {
		r, err := engine.Call(once, l, engine.AskReconfig(change))
		stat = r.Stat
		return err
	})
	return stat, err
}

// listed is never nil: a server takes that for no list at all.
func listed(lines []string) []byte { return []byte(strings.Join(lines, ",")) }

// given is a stat and an error as go-zookeeper returns them: there is a stat unless the connection was lost, since programs use
// that of a node that does not exist.
func given(stat *Stat, err error) (*Stat, error) {
	err = unwrapped(err)
	if stat == nil && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrInvalidPath) {
		stat = new(Stat)
	}
	return stat, err
}

// list is a list of children, which is not nil unless there is an error.
func list(children []string, err error) []string {
	if children == nil && err == nil {
		return []string{}
	}
	return children
}

func badFlags(op string, flags int32) error {
	return fmt.Errorf("zk: %s: invalid flag value: [%d]: %w", op, flags, zk.ErrInvalidFlags)
}
