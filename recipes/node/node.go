package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
)

var (
	// ErrTaken means that another session has a node at the path, or that another Keep of this client has. Nothing of it was changed.
	ErrTaken = errors.New("taken by another")

	// ErrDeleted is the reason why a node is not there while it is made again, after somebody has deleted it.
	ErrDeleted = errors.New("node was deleted")
)

// Node is a node that is kept: what [Keep] returns. One goroutine makes it again until [Node.Close], or until the client is closed.
//
// All methods are safe for concurrent use.
type Node struct {
	client *framework.Client
	cfg    config
	asked  string          // the path that Keep was given
	path   string          // "" until it is chosen, before the node is shown
	ctx    context.Context // ends with Close, cause framework.ErrEnded
	stop   context.CancelCauseFunc
	wake   wait.Signal   // there is something to do
	done   chan struct{} // closed when the goroutine has ended
	left   error         // why the node could not be deleted; set before done is closed
	now    wait.Value[status]
}

// status is what others see of a Node.
type status struct {
	want    content
	shown   content
	depends func() bool // ends what depends on the session; nil: the node is not there
	err     error
	owners  []int64 // of nodes that are ours: our sessions, this one included; 0 if the node is persistent
	refused int64   // the number of the newest content that was refused
	refusal error   // why; err may have become another since
}

// content is what the node is to hold, or what we have last written to a node.
type content struct {
	number int64 // a later one has a higher number, from 1; 0: the node may hold something else
	data   []byte
	mzxid  int64 // of our write; others may have written since
}

func (s status) present() bool { return s.depends != nil }

// over reports whether nothing will come any more: Err is that of Close, or of the end of the client.
func (s status) over() bool {
	return errors.Is(s.err, framework.ErrEnded) || errors.Is(s.err, framework.ErrClosed)
}

// gone notes that the node is not there. The first reason of an end stays.
func (s *status) gone(reason error) {
	if s.present() {
		s.depends()
	}
	s.depends = nil
	if !s.over() {
		s.err = reason
	}
}

// Keep makes a node and returns when it is there. From then on it is kept there, until [Node.Close] or the end of the client. ctx is for
// the waiting only. nil data mean the client's default data.
//
// Keep waits as long as ctx allows: for a connection, for a permission, for a missing parent, for the end of another's node (see
// [WithIfTaken]). When ctx is done the error is that of ctx, and also wraps the reason: zk.ErrNoServer, zk.ErrNoAuth, zk.ErrNoNode,
// [ErrTaken] and so on. Other errors are ErrTaken with [Fail], [framework.ErrTooLong], [framework.ErrUnimplemented] if the servers do not
// allow nodes with a TTL, [framework.ErrClosed], [framework.ErrBadPath] and [framework.ErrBadArgument]. After an error none of ours stays.
func Keep(ctx context.Context, client *framework.Client, path string, data []byte, opts ...Option) (_ *Node, err error) {
	defer func() { err = follow.OpError("keep", path, err) }()
	cfg, err := configure(client, path, opts)
	if err != nil {
		return nil, err
	}
	n := &Node{client: client, cfg: cfg, asked: path, done: make(chan struct{})}
	n.now.Set(func(s *status) { s.want = content{number: 1, data: n.dataOf(data)} })
	n.ctx, n.stop = context.WithCancelCause(context.Background())
	k := &keeper{Node: n, pauses: wait.Pauses{First: 50 * time.Millisecond, Last: 5 * time.Second}}
	if !cfg.protected {
		n.path = path
	}
	if cfg.ttl > 0 {
		k.pauses.Last = min(k.pauses.Last, cfg.ttl/4) // no touch waits long
		k.touches = time.Tick(cfg.ttl / 2)
	}
	go k.run() // ends with n.ctx or the client
	s, err := n.now.Until(ctx, func(s status) bool {
		return s.shown.number > 0 || s.over() || errors.Is(s.err, ErrTaken) && n.cfg.taken == Fail ||
			errors.Is(s.err, framework.ErrTooLong) || errors.Is(s.err, framework.ErrUnimplemented)
	})
	if err == nil && s.shown.number > 0 {
		return n, nil
	}
	n.shut() // deletes the node in the background
	if err == nil {
		return nil, s.err
	}
	return nil, engine.Of(client).GaveUp(ctx, s.err)
}

// status is what others see at this moment.
func (n *Node) status() status {
	s, _ := n.now.Get()
	return s
}

// Path is the node's path. It does not change.
func (n *Node) Path() string { return n.path }

// Set changes the node's data, and returns when they are written. nil data mean the client's default data. Of several calls at a time the
// last one wins.
//
// If Set fails the data are not lost: they are written when that becomes possible, also into a node that has to be made again, unless a
// later Set replaces them. Errors are that of ctx, which also wraps the reason, such as [ErrTaken]; what the server answered, such as
// zk.ErrNoAuth; [framework.ErrEnded] and [framework.ErrClosed]. Only [framework.ErrTooLong] comes at once, and has changed nothing.
func (n *Node) Set(ctx context.Context, data []byte) error {
	data = n.dataOf(data)
	if err := engine.Of(n.client).Fits(n.path, len(data)); err != nil {
		return follow.OpError("set", n.path, err)
	}
	var number int64
	n.now.Set(func(s *status) {
		number = s.want.number + 1
		s.want = content{number: number, data: data}
	})
	n.wake.Raise()
	s, err := n.now.Until(ctx, func(s status) bool {
		return s.shown.number >= number || s.refused >= number || s.over()
	})
	switch {
	case err != nil:
		err = engine.Of(n.client).GaveUp(ctx, s.err)
	case s.shown.number < number && s.refused >= number:
		err = s.refusal
	case s.shown.number < number:
		err = s.err
	}
	return follow.OpError("set", n.path, err)
}

// Present reports whether the node is there and ours, and returns a channel that is closed when that, or [Node.Err], may have changed. It
// becomes false
//   - when the connection is suspended, with the error policy [connstate.Standard];
//   - when the session is lost, before anybody else can create the node;
//   - when somebody has deleted the node, and the server has reported that;
//   - when [Node.Close] is called.
func (n *Node) Present() (there bool, changed <-chan struct{}) {
	s, changed := n.now.Get()
	return s.present(), changed
}

// Err is nil while the node is there, holds what was set last, and its touch child can be written. Otherwise it is the reason:
// [ErrTaken], [ErrDeleted], [framework.ErrSuspended], [framework.ErrSessionLost], zk.ErrNoServer, what a server refused
// (zk.ErrNoAuth, zk.ErrNoNode), and at the end [framework.ErrEnded] or [framework.ErrClosed]. Except after the last two, it is tried
// again until the node is there.
func (n *Node) Err() error { return follow.OpError("keep", n.path, n.status().err) }

// Close deletes the node and stops keeping it. It returns when the server has confirmed that, or when the session is over, which deletes
// an ephemeral node as well; without a server that takes as long as the session lasts, and a persistent node is deleted later, in the
// background. A node with a TTL is not deleted: the servers delete it when its time has passed.
//
// Close may be called again, and returns the same: nil, why the server refused, or [framework.ErrClosed] if a persistent node stays
// since the client was closed first.
func (n *Node) Close() error {
	n.shut()
	<-n.done
	return follow.OpError("close", n.path, n.left)
}

// shut has the goroutine delete the node and end. From now on nobody takes the node for ours, whatever holds up the goroutine.
func (n *Node) shut() {
	n.now.Set(func(s *status) {
		n.stop(framework.ErrEnded)
		s.gone(framework.ErrEnded)
	})
}

// dataOf is what a node holds that is given data.
func (n *Node) dataOf(data []byte) []byte {
	if data == nil {
		return n.client.DefaultData()
	}
	return slices.Clone(data)
}

// Option configures a kept node or a member of a group. [Keep] and [Join] refuse bad values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	taken      Taken
	protected  bool
	sequential bool
	mode       framework.Mode
	ttl        time.Duration
	noParents  bool
	policy     connstate.ErrorPolicy
}

// Taken says what to do when the path is taken by a node that is not ours: see [WithIfTaken].
type Taken int

const (
	// Wait waits until the other's node is gone. It is the default.
	Wait Taken = iota

	// Replace deletes the other's node and makes ours, in one transaction. For another Keep of this client it waits as
	// Wait does. Replace ends when our node is there for the first time. If somebody replaces our node later, it waits as well, so two that
	// replace do not delete each other's nodes again and again.
	Replace

	// Fail makes Keep return [ErrTaken]. If the path is taken after Keep has returned, it is like Wait.
	Fail
)

// WithIfTaken says what to do when there is a node at the path that does not belong to our session, or when another Keep of this client has
// the path. While that is so, [Node.Err] is [ErrTaken]. Keep always waits for the end of the node of another Keep that is closing.
func WithIfTaken(taken Taken) Option {
	return opt.Checked(taken >= Wait && taken <= Fail, func(c *config) { c.taken = taken }, "WithIfTaken(%d)", taken)
}

// AsProtected puts "_c_", an id and "-" before the node's name, as Curator does. A node that is made again has the same name.
func AsProtected() Option { return opt.Set(func(c *config) { c.protected = true }) }

// AsSequential appends a number of ten digits to the node's name, as ZooKeeper does. It needs [AsProtected], by which the node is found
// when the reply to its creation is lost. The number is part of the name that is chosen once.
func AsSequential() Option { return opt.Set(func(c *config) { c.sequential = true }) }

// AsPersistent makes a persistent node instead of an ephemeral one. It is made again when it is deleted, stays when the client is closed or
// the process ends, and goes with [Node.Close]. It is written once after it was made, which must be permitted.
func AsPersistent() Option { return opt.Set(func(c *config) { c.mode = framework.Persistent }) }

// WithTTL makes a persistent node that the server deletes when nobody has kept it for ttl, which must be at least two milliseconds.
// It has a child "touch", which is written every ttl/2. ZooKeeper allows it only if extendedTypesEnabled is set, and a ClickHouse Keeper
// never: Keep returns [framework.ErrUnimplemented] then. It cannot be combined with [AsProtected] and [AsSequential].
func WithTTL(ttl time.Duration) Option {
	return opt.Checked(ttl >= 2*time.Millisecond, func(c *config) { c.mode, c.ttl = framework.Persistent, ttl }, "TTL %v", ttl)
}

// WithoutParents does not make missing parents. The default makes them, as containers. Without a parent [Node.Err] is zk.ErrNoNode, and the
// node is made when the parent exists.
func WithoutParents() Option { return opt.Set(func(c *config) { c.noParents = true }) }

// WithErrorPolicy sets which states of the connection make [Node.Present] false. The default is the client's policy.
func WithErrorPolicy(policy connstate.ErrorPolicy) Option {
	known := policy == connstate.Standard || policy == connstate.Session
	return opt.Checked(known, func(c *config) { c.policy = policy }, "error policy %v", policy)
}

// configure applies options to the defaults, and checks them with client and path.
func configure(client *framework.Client, path string, opts []Option) (cfg config, err error) {
	cfg.mode = framework.Ephemeral
	if client != nil {
		cfg.policy = client.ErrorPolicy()
	}
	if err := opt.Apply(&cfg, opts); err != nil {
		return cfg, err
	}
	switch {
	case cfg.ttl > 0 && (cfg.protected || cfg.sequential):
		return cfg, fmt.Errorf("%w: a TTL node cannot be protected or sequential", framework.ErrBadArgument)
	case cfg.sequential && !cfg.protected:
		return cfg, fmt.Errorf("%w: a sequential node must be protected", framework.ErrBadArgument)
	case cfg.sequential:
		path += "0" // the name may be empty: the number is one
	}
	return cfg, follow.Check(client, path)
}

func (c config) persistent() bool { return c.mode == framework.Persistent }

// creation is how the node is created. The id of a protected one and the number of a sequential one are chosen when it is created first.
func (c config) creation(first bool) []framework.CreateOption {
	mode := c.mode
	if c.sequential && first {
		mode |= framework.PersistentSequential // the modes are ZooKeeper's flags
	}
	options := []framework.CreateOption{framework.As(mode)}
	if c.protected && first {
		options = append(options, framework.Protected()) // after an error none stays: the client sees to that
	}
	if c.ttl > 0 {
		options = append(options, framework.TTL(c.ttl))
	}
	if !c.noParents {
		options = append(options, framework.ContainerParents())
	}
	return options
}

// request is how the node is created in a transaction, without data.
func (c config) request(path string) any {
	if c.ttl > 0 {
		return &zk.CreateTTLRequest{Path: path, Flags: zk.FlagTTL, Ttl: c.ttl.Milliseconds()}
	}
	return &zk.CreateRequest{Path: path, Flags: int32(c.mode)}
}
