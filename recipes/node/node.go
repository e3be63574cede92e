package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
)

var (
	// ErrTaken means that another session has a node at the path, or that another Keep of this
	// client has. Nothing of it was changed.
	ErrTaken = errors.New("taken by another")

	// ErrDeleted is the reason why a node is not there while it is made again, after somebody
	// has deleted it.
	ErrDeleted = errors.New("node was deleted")
)

// Node is a node that is kept: what [Keep] returns. One goroutine makes it again until [Node.Close], or
// until the client is closed.
//
// All methods are safe for concurrent use.
type Node struct {
	client *framework.Client
	cfg    config
	asked  string          // the path that Keep was given
	ctx    context.Context // ends with Close, cause framework.ErrEnded
	stop   context.CancelCauseFunc
	wake   wait.Signal   // there is something to do
	done   chan struct{} // closed when the goroutine has ended
	now    wait.Value[status]
}

// status is what others see of a Node, unless it is closed: see get.
type status struct {
	path     string // once the node has been made
	want     content
	depends  *dependency // on the session; nil: the node is not there
	err      error
	shown    record
	sessions []int64 // ids of our sessions, this one included
	refused  refusal // of the newest content that was refused
	left     error   // why the node could not be deleted; once done is closed
}

// dependency is our interest in the session.
type dependency struct{ stop func() bool }

func (s *status) present() bool { return s.depends != nil }

// gone notes that the node is not there.
func (s *status) gone(reason error) {
	if s.depends != nil {
		s.depends.stop()
	}
	s.depends, s.err = nil, reason
}

// content is what the node is to hold. A later one has a higher number, from 1.
type content struct {
	number int64
	data   []byte
}

// record is what was last written to a node. The number is 0 if it may hold something else.
type record struct {
	content
	czxid int64 // of the node; 0: it was not looked at yet
	mzxid int64 // of our write; others may have written since
}

// refusal is why a content cannot be written.
type refusal struct {
	number int64
	err    error
}

// Pauses between tries of what a server refuses or cannot do.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Keep makes a node and returns when it is there. From then on it is kept there, until
// [Node.Close] or the end of the client. ctx is for the waiting only. nil data mean the client's
// default data.
//
// Keep waits as long as ctx allows: for a connection, for a permission, for a missing parent, for
// the end of another's node (see [WithIfTaken]). When ctx is done the error is that of ctx, and also wraps the
// reason: zk.ErrNoServer, zk.ErrNoAuth, zk.ErrNoNode, [ErrTaken] and so on. Other errors
// are ErrTaken with [Fail], [framework.ErrTooLong], [framework.ErrUnimplemented] if the servers do not allow nodes with a
// TTL, [framework.ErrClosed], [framework.ErrBadPath] and [framework.ErrBadArgument].
//
// After an error we remove our node in the background, also if the server carries out our create request only
// after Keep has returned.
func Keep(ctx context.Context, client *framework.Client, path string, data []byte, opts ...Option) (*Node, error) {
	cfg, err := configure(client, path, opts)
	if err != nil {
		return nil, follow.OpError("keep", path, err)
	}
	n, err := keep(ctx, client, path, data, cfg)
	return n, follow.OpError("keep", path, err)
}

func keep(ctx context.Context, client *framework.Client, path string, data []byte, cfg config) (*Node, error) {
	if ctx.Err() != nil {
		return nil, wait.Err(ctx)
	}
	n := &Node{client: client, cfg: cfg, asked: path, done: make(chan struct{})}
	n.now.Set(func(s *status) { s.want = content{1, n.dataOf(data)} })
	n.ctx, n.stop = context.WithCancelCause(context.Background())
	k := &keeper{Node: n, pauses: wait.Pauses{First: firstPause, Last: lastPause}}
	if !cfg.protected {
		k.path = path
	}
	go k.run() // ends with n.ctx or the client
	if err := n.awaitFirst(ctx); err != nil {
		n.shut() // deletes the node in the background
		return nil, err
	}
	return n, nil
}

// awaitFirst waits until the node is there for the first time.
func (n *Node) awaitFirst(ctx context.Context) error {
	s, err := n.now.Until(ctx, func(s status) bool {
		return s.shown.number > 0 || errors.Is(s.err, framework.ErrClosed) || errors.Is(s.err, ErrTaken) && n.cfg.taken == Fail ||
			errors.Is(s.err, framework.ErrTooLong) || errors.Is(s.err, framework.ErrUnimplemented)
	})
	switch {
	case err != nil:
		return engine.Of(n.client).GaveUp(ctx, s.err)
	case s.shown.number > 0:
		return nil
	}
	return s.err
}

// get returns what others see at this moment, and a channel that is closed when that may have changed. From Close on nobody takes the
// node for ours, whatever holds up the goroutine that keeps it.
func (n *Node) get() (status, <-chan struct{}) {
	s, changed := n.now.Get()
	if n.ctx.Err() != nil {
		s.depends = nil
		if !errors.Is(s.err, framework.ErrClosed) {
			s.err = framework.ErrEnded
		}
	}
	return s, changed
}

func (n *Node) status() status {
	s, _ := n.get()
	return s
}

// Path is the node's path. It does not change.
func (n *Node) Path() string { return n.status().path }

// Set changes the node's data, and returns when they are written. nil data mean the client's default
// data. Of several calls at a time the last one wins.
//
// If Set fails the data are not lost: they are written when that becomes possible, also into a node that has to
// be made again, unless a later Set replaces them. Errors are that of ctx, which also wraps the reason,
// such as [ErrTaken]; what the server answered, such as zk.ErrNoAuth; [framework.ErrEnded] and
// [framework.ErrClosed]. Only after [framework.ErrTooLong], which is returned at once, nothing has changed.
func (n *Node) Set(ctx context.Context, data []byte) error {
	data = n.dataOf(data)
	path := n.Path()
	if err := engine.Of(n.client).Fits(path, len(data)); err != nil {
		return follow.OpError("set", path, err)
	}
	var number int64
	n.now.Set(func(s *status) {
		number = s.want.number + 1
		s.want = content{number, data}
	})
	n.wake.Raise()
	s, err := n.now.Until(ctx, func(s status) bool {
		return s.shown.number >= number || s.refused.number >= number || n.ctx.Err() != nil || errors.Is(s.err, framework.ErrClosed)
	})
	switch {
	case err != nil:
		err = engine.Of(n.client).GaveUp(ctx, s.err)
	case s.shown.number >= number:
	case s.refused.number >= number:
		err = s.refused.err
	default:
		err = n.status().err // it is closed
	}
	return follow.OpError("set", path, err)
}

// Present reports whether the node is there and ours, and returns a channel that is closed when that, or
// [Node.Err], may have changed. It becomes false
//   - when the connection is suspended, with the error policy [connstate.Standard];
//   - when the session is lost, before anybody else can create the node;
//   - when somebody has deleted the node, and the server has reported that;
//   - when [Node.Close] is called.
//
// [connstate.Standard]: https://pkg.go.dev/github.com/gocurator/curator/connstate#Standard
func (n *Node) Present() (there bool, changed <-chan struct{}) {
	s, changed := n.get()
	return s.present(), changed
}

// Err is nil while the node is there and holds what was set last. Otherwise it is the reason:
// [ErrTaken], [ErrDeleted], [framework.ErrSuspended], [framework.ErrSessionLost], zk.ErrNoServer,
// what a server refused (zk.ErrNoAuth, zk.ErrNoNode), and at the end [framework.ErrEnded] or [framework.ErrClosed]. Except after the last two, it is tried again until the node is there.
func (n *Node) Err() error { return follow.OpError("keep", n.Path(), n.status().err) }

// Close deletes the node and stops keeping it. It returns when the server has confirmed that, or
// when the session is over, which deletes an ephemeral node as well; without a server that takes
// as long as the session lasts. Like Release of a lock it takes no context.
//
// If no server can be reached, a persistent node is deleted later, in the background. A
// node with a TTL is not deleted: the servers delete it when its time has passed.
//
// Close may be called again, and returns the same: nil, or why the server refused.
func (n *Node) Close() error {
	n.shut()
	<-n.done
	return follow.OpError("close", n.Path(), n.status().left)
}

// shut has the goroutine delete the node and end.
func (n *Node) shut() {
	n.stop(framework.ErrEnded)
	n.now.Set(func(*status) {}) // it is another one for all who get it from now on
}

// dataOf is what a node holds that is given data.
func (n *Node) dataOf(data []byte) []byte {
	if data == nil {
		return n.client.DefaultData()
	}
	return slices.Clone(data)
}
