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
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/recipe"
)

var (
	// ErrTaken means that the node at the path belongs to another session, or to another Keep of
	// this client. That node was not changed.
	ErrTaken = errors.New("node has another owner")

	// ErrDeleted means that another client has deleted the node. It is being recreated.
	ErrDeleted = errors.New("node was deleted")
)

// Node is a kept node, the result of [Keep]. One goroutine recreates it until [Node.Close] or until
// the client is closed. All methods are safe for concurrent use.
type Node struct {
	client *framework.Client
	cfg    config
	asked  string          // the path passed to Keep
	path   string          // "" until it is chosen, before the node is shown
	ctx    context.Context // ends with Close, cause errClosed
	stop   context.CancelCauseFunc
	wake   wait.Signal   // raised when the goroutine has work
	done   chan struct{} // closed when the goroutine has exited
	left   error         // why the node could not be deleted; set before done is closed
	now    wait.Value[status]
}

// status is the part of a Node that callers wait for.
type status struct {
	want    content
	shown   content
	depends func() bool // unregisters the dependency on the session; nil: the node is absent
	err     error
	// owners are the sessions that own nodes of this Node, including the present one; 0 if the node
	// is persistent.
	owners  []int64
	refused int64 // the number of the newest content that was refused
	refusal error // why; err may have changed since
}

// content is data that the node is to hold, or that was last written to a node.
type content struct {
	number int64 // later content has a higher number, from 1; 0: the node may hold other data
	data   []byte
	mzxid  int64 // mzxid of this client's last write; other clients may have written since
}

func (s status) present() bool { return s.depends != nil }

// over reports whether the node is no longer kept: the Node or the client was closed, or the only
// session of the client is over.
func (s status) over() bool {
	var ended *engine.Ended
	return errors.Is(s.err, framework.ErrEnded) || errors.Is(s.err, framework.ErrClosed) || errors.As(s.err, &ended)
}

// gone records that the node is absent. The first reason remains.
func (s *status) gone(reason error) {
	if s.present() {
		s.depends()
	}
	s.depends = nil
	if !s.over() {
		s.err = reason
	}
}

// Keep creates a node, waits until it exists, and keeps it until [Node.Close] or until the client
// is closed. ctx limits only the wait. nil data mean the client's default data.
//
// If Keep fails, its node is deleted.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with the obstacle, such as zk.ErrNoServer or
//     [ErrTaken];
//   - [ErrTaken] if the path is taken and [Fail] is given;
//   - [framework.ErrTooLong] if the data are too long for a request;
//   - [framework.ErrUnimplemented] if the servers do not support TTL nodes;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrShutdown], which wraps framework.ErrClosed, if the client shuts down;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrBadArgument] if the client is nil or an option is invalid.
func Keep(ctx context.Context, client *framework.Client, path string, data []byte, opts ...Option) (_ *Node, err error) {
	defer func() { err = operr.New("keep", path, err) }()
	cfg, err := configure(client, path, opts)
	if err != nil {
		return nil, err
	}
	if wait.Closed(engine.Of(client).Stopping()) {
		return nil, framework.ErrShutdown
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
		return s.shown.number > 0 || s.over() || n.fails(s.err)
	})
	if err == nil && s.shown.number > 0 {
		if err := n.begin(); err != nil {
			n.shut()
			return nil, err
		}
		return n, nil
	}
	n.shut() // deletes the node in the background
	if err == nil {
		return nil, s.err
	}
	return nil, engine.Of(client).GaveUp(ctx, s.err)
}

// fails reports whether Keep returns err if it has not created its node.
func (n *Node) fails(err error) bool {
	return errors.Is(err, ErrTaken) && n.cfg.taken == Fail || errors.Is(err, framework.ErrTooLong) || errors.Is(err, framework.ErrUnimplemented)
}

// begin registers the Node for [framework.Client.Shutdown]. A persistent node outlives the client.
func (n *Node) begin() error {
	if n.cfg.persistent() {
		return nil
	}
	client := engine.Of(n.client)
	err := client.Begin((*work)(n))
	if err == nil && wait.Closed(n.done) {
		client.Finished((*work)(n))
	}
	return err
}

// work is a Node for Shutdown.
type work Node

func (w *work) Path() string { return w.path }
func (w *work) Stop(error)   { (*Node)(w).shut() }
func (w *work) Held() bool   { return false }

// status returns the present status.
func (n *Node) status() status {
	s, _ := n.now.Get()
	return s
}

// Path returns the node's path, which does not change.
func (n *Node) Path() string { return n.path }

// Set replaces the node's data and returns when they are written. nil means the client's default
// data. If calls overlap, the last call wins.
//
// Errors are
//   - [framework.ErrTooLong] if the data are too long for a request: they are not written;
//   - the server's error if it refuses the data, such as zk.ErrNoAuth;
//   - the error of ctx if ctx is done, wrapped with the obstacle, such as zk.ErrNoServer or
//     [ErrTaken];
//   - [framework.ErrEnded] if the Node was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
//
// If Set fails for another reason than ErrTooLong, the data may still be written: see the package
// comment, under Closing.
func (n *Node) Set(ctx context.Context, data []byte) error {
	data = n.dataOf(data)
	if err := engine.Of(n.client).Fits(n.path, len(data)); err != nil {
		return operr.New("set", n.path, err)
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
	return operr.New("set", n.path, err)
}

// Present reports whether the node exists and belongs to this Node. The channel is closed when the
// result, or the result of [Node.Problem], may have changed. Present becomes false
//   - when the connection is suspended, with [connstate.SuspendedEndsHold];
//   - when the session is lost, before another client can create the node;
//   - when the node's deletion is reported;
//   - when [Node.Close] is called.
func (n *Node) Present() (there bool, changed <-chan struct{}) {
	s, changed := n.now.Get()
	return s.present(), changed
}

// Problem returns nil while the node exists, has the data of the last Set, and its touch child can
// be written. Otherwise it returns the reason, such as [ErrTaken] or zk.ErrNoAuth, and the Node
// keeps trying. After the Node has stopped it returns [Node.Err].
func (n *Node) Problem() error { return operr.New("keep", n.path, n.status().err) }

// Err returns nil until the Node has stopped. Then it returns the reason.
//
// Errors are
//   - [framework.ErrEnded] after [Node.Close] or [framework.Client.Shutdown];
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func (n *Node) Err() error {
	if s := n.status(); s.over() {
		return s.err
	}
	return nil
}

// Close deletes the node and stops keeping it. It returns when the server has confirmed the
// deletion, when the session has ended, or after 5 s. After 5 s the client continues to delete
// the node in the background.
//
// A node [WithTTL] is not deleted. Later calls return the same error.
//
// Errors are
//   - the server's error if the server refuses the deletion, such as zk.ErrNoAuth;
//   - context.DeadlineExceeded if the deletion is not confirmed after 5 s, wrapped with
//     zk.ErrNoServer if the client is not connected;
//   - [framework.ErrClosed] if a persistent node remains because the client was closed first;
//   - [framework.ErrSessionLost] if a persistent node remains because the client is a view of a
//     lost session.
func (n *Node) Close() error {
	n.shut()
	<-n.done
	return operr.New("close", n.path, n.left)
}

// shut lets the goroutine delete the node and exit. From now on the Node does not claim the node,
// whatever delays the goroutine.
func (n *Node) shut() {
	n.now.Set(func(s *status) {
		n.stop(errClosed)
		s.gone(errClosed)
	})
}

// errClosed says which object was closed.
var errClosed = fmt.Errorf("kept node is %w", framework.ErrEnded)

// dataOf returns the content of a node for data.
func (n *Node) dataOf(data []byte) []byte {
	if data == nil {
		return engine.Of(n.client).DefaultData()
	}
	return slices.Clone(data)
}

// Option configures [Keep] and [Join], which refuse invalid values with [framework.ErrBadArgument].
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

// Taken determines the behaviour of Keep if the node at the path belongs to another owner: see
// [WithIfTaken].
type Taken int

const (
	// Wait waits until the other node is deleted. It is the default.
	Wait Taken = iota

	// Replace deletes the other node and creates this one in one transaction. If another Keep of
	// this client uses the path, Replace waits until that Keep has ended. After Keep has created
	// its node, Replace waits until the other node is deleted, so that two clients do not keep
	// replacing each other's nodes.
	Replace

	// Fail returns [ErrTaken]. After Keep has returned, Fail waits until the other node is deleted.
	Fail
)

// WithIfTaken sets the behaviour of Keep if the node at the path does not belong to this session,
// or another Keep of this client uses the path. Until the path is free, [Node.Problem] returns
// [ErrTaken]. Keep always waits for a Keep that is being closed.
func WithIfTaken(taken Taken) Option {
	return opt.Checked(taken >= Wait && taken <= Fail, func(c *config) { c.taken = taken }, "unknown mode %d of WithIfTaken", taken)
}

// WithProtection puts "_c_", an id and "-" before the node's name. A recreated node keeps them. It
// is Curator's withProtection().
func WithProtection() Option { return opt.Set(func(c *config) { c.protected = true }) }

// WithSequence lets ZooKeeper append ten digits to the node's name. A recreated node keeps them. It
// needs [WithProtection].
func WithSequence() Option { return opt.Set(func(c *config) { c.sequential = true }) }

// WithPersistence creates a persistent node instead of an ephemeral one. The node survives the
// process, and is deleted by [Node.Close]. Its ACL must permit one write after creation.
func WithPersistence() Option { return opt.Set(func(c *config) { c.mode = framework.Persistent }) }

// WithTTL creates a persistent node that the servers delete once no process has kept it for ttl, at
// least two milliseconds. It cannot be combined with [WithProtection] and [WithSequence]. Without
// extendedTypesEnabled, and on a ClickHouse Keeper, Keep returns [framework.ErrUnimplemented].
func WithTTL(ttl time.Duration) Option {
	return opt.Checked(ttl >= 2*time.Millisecond, func(c *config) { c.mode, c.ttl = framework.Persistent, ttl }, "TTL %v, must be at least 2ms", ttl)
}

// WithoutParents disables the creation of missing parents. Until the parent exists, [Node.Problem]
// returns zk.ErrNoNode.
func WithoutParents() Option { return opt.Set(func(c *config) { c.noParents = true }) }

// WithErrorPolicy sets the connection states in which [Node.Present] is false. The default is the
// client's policy.
func WithErrorPolicy(policy connstate.ErrorPolicy) Option {
	known := policy == connstate.SuspendedEndsHold || policy == connstate.LostEndsHold
	return opt.Checked(known, func(c *config) { c.policy = policy }, "unknown error policy %v", policy)
}

// configure applies options to the defaults, and checks them with client and path.
func configure(client *framework.Client, path string, opts []Option) (cfg config, err error) {
	cfg.mode = framework.Ephemeral
	if client != nil {
		cfg.policy = engine.Of(client).ErrorPolicy()
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
	return cfg, recipe.Check(client, path)
}

func (c config) persistent() bool { return c.mode == framework.Persistent }

// creation returns the options of the create. The id of a protected node and the number of a
// sequential one are chosen the first time.
func (c config) creation(first bool) []framework.CreateOption {
	mode := c.mode
	if c.sequential && first {
		mode |= framework.PersistentSequential // the modes are ZooKeeper's flags
	}
	options := []framework.CreateOption{framework.As(mode)}
	if c.protected && first {
		// After an error the client deletes a protected node.
		options = append(options, framework.Protected())
	}
	if c.ttl > 0 {
		options = append(options, framework.TTL(c.ttl))
	}
	if !c.noParents {
		options = append(options, framework.ContainerParents())
	}
	return options
}

// request returns the create for a transaction, without data.
func (c config) request(path string) any {
	if c.ttl > 0 {
		return &zk.CreateTTLRequest{Path: path, Flags: zk.FlagTTL, Ttl: c.ttl.Milliseconds()}
	}
	return &zk.CreateRequest{Path: path, Flags: int32(c.mode)}
}
