package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/ctxerr"
)

var (
	// ErrTaken means that another session has a node at the path, or that another Keep of this
	// client has. Nothing of it was changed.
	ErrTaken = errors.New("taken by another")

	// ErrDeleted is the reason why a node is not there while it is made again, after somebody
	// has deleted it.
	ErrDeleted = errors.New("node was deleted")

	// ErrClosed means that the node was closed: it is not kept any more.
	ErrClosed = errors.New("kept node is closed")
)

// Node is a node that is kept: what [Keep] returns. One goroutine makes it again until [Node.Close], or
// until the client is closed.
//
// All methods are safe for concurrent use.
type Node struct {
	client *framework.Client
	cfg    config
	asked  string          // the path that Keep was given
	ctx    context.Context // ends with Close, cause ErrClosed
	stop   context.CancelCauseFunc
	wake   chan struct{} // capacity 1: there is something to do
	done   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards what follows
	path    string     // once the node has been made
	want    content
	present bool
	err     error
	changed chan struct{} // closed when any of this changes, and replaced
	shown   record
	mine    map[int64]bool // ids of the sessions whose node at the path is ours, of all of our sessions
	refused refused
	left    error // why the node could not be deleted; once done is closed
}

// content is what the node is to hold. A later one has a higher number, from 1.
type content struct {
	number int64
	data   []byte
}

// record is what was last written to the node that was seen there.
type record struct {
	content
	mzxid int64 // of our write; others may have written since
}

// refused is a server's word that it will not write a content.
type refused struct {
	number int64
	err    error
}

// Keep makes a node and returns when it is there. From then on it is kept there, until
// [Node.Close] or the end of the client. ctx is for the waiting only. nil data mean the client's
// default data.
//
// Keep waits as long as ctx allows: for a connection, for a permission, for a missing parent, for
// the end of another's node (see [IfTaken]). When ctx is done the error is that of ctx, and also wraps the
// reason: zk.ErrNoServer, zk.ErrNoAuth, zk.ErrNoNode, [ErrTaken] and so on. Other errors
// are ErrTaken with [Fail], [ErrTooLong], [framework.ErrClosed], [framework.ErrBadPath] and
// [framework.ErrBadArgument].
//
// After an error no node of ours stays, even if the server creates it later: it is deleted
// in the background.
func Keep(ctx context.Context, client *framework.Client, path string, data []byte, opts ...Option) (*Node, error) {
	cfg, err := configure(client, path, opts)
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", path, err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("keep %s: %w", path, ctxerr.Of(ctx))
	}
	n := &Node{
		client: client, cfg: cfg, asked: path,
		wake: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
		mine: make(map[int64]bool),
	}
	n.want = content{1, n.dataOf(data)}
	n.ctx, n.stop = context.WithCancelCause(context.Background())
	go newKeeper(n).run() // ends with n.ctx or the client
	if err := n.awaitFirst(ctx); err != nil {
		n.shut()
		return nil, err
	}
	return n, nil
}

// awaitFirst waits until the node is there for the first time.
func (n *Node) awaitFirst(ctx context.Context) error {
	for {
		n.mu.Lock()
		there, err, changed := n.shown.number > 0, n.err, n.changed
		n.mu.Unlock()
		switch {
		case there:
			return nil
		case errors.Is(err, framework.ErrClosed):
			return fmt.Errorf("keep %s: %w", n.asked, err)
		case errors.Is(err, ErrTaken) && n.cfg.taken == Fail, errors.Is(err, ErrTooLong):
			return err // it says where
		case ctx.Err() != nil && err != nil:
			return fmt.Errorf("keep %s: %w: %w", n.asked, ctxerr.Of(ctx), err)
		case ctx.Err() != nil:
			return fmt.Errorf("keep %s: %w", n.asked, ctxerr.Of(ctx))
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Path is the node's path. It does not change.
func (n *Node) Path() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.path
}

// Set changes the node's data, and returns when they are written. nil data mean the client's default
// data. Of several calls at a time the last one wins.
//
// If Set fails the data are not lost: they are written when that becomes possible, also into a node that has to
// be made again, unless a later Set replaces them. Only after [ErrTooLong] they are given up, and the node is kept with what
// it held before. Other errors are that of ctx, which also wraps the reason,
// such as [ErrTaken]; what the server answered, such as zk.ErrNoAuth; [ErrClosed] and
// [framework.ErrClosed].
func (n *Node) Set(ctx context.Context, data []byte) error {
	n.mu.Lock()
	n.want = content{n.want.number + 1, n.dataOf(data)}
	number := n.want.number
	n.mu.Unlock()
	n.notify()
	for {
		n.mu.Lock()
		written, refused, err, changed := n.shown.number, n.refused, n.err, n.changed
		n.mu.Unlock()
		switch {
		case written >= number:
			return nil
		case n.ctx.Err() != nil:
			return fmt.Errorf("set %s: %w", n.Path(), ErrClosed)
		case errors.Is(err, framework.ErrClosed):
			return fmt.Errorf("set %s: %w", n.Path(), err)
		case refused.number >= number:
			return refused.err
		case ctx.Err() != nil && err != nil:
			return fmt.Errorf("set %s: %w: %w", n.Path(), ctxerr.Of(ctx), err)
		case ctx.Err() != nil:
			return fmt.Errorf("set %s: %w", n.Path(), ctxerr.Of(ctx))
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-n.ctx.Done():
		}
	}
}

// Present reports whether the node is there and ours, and returns a channel that is closed when that, or
// [Node.Err], may have changed. It becomes false when the connection is suspended (with [connstate.Standard]) or
// the session is lost, always before somebody else can have the node because our session ends; when the server
// has told us that somebody deleted the node; and with the call of [Node.Close].
//
// [connstate.Standard]: https://pkg.go.dev/github.com/gocurator/curator/connstate#Standard
func (n *Node) Present() (there bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.present, n.changed
}

// Err is nil while the node is there and holds what was set last. Otherwise it is the reason:
// [ErrTaken], [ErrDeleted], [ErrTooLong], [framework.ErrSuspended], [framework.ErrSessionLost],
// zk.ErrNoServer, what a server refused (zk.ErrNoAuth, zk.ErrNoNode), and at the end [ErrClosed] or
// [framework.ErrClosed]. Except after the last two, it is tried again until the node is there.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

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
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// shut has the goroutine delete the node and end. Nobody takes the node for ours from now on, whatever holds up that goroutine or
// the caller's: while mu is held nobody sees that the node is there, and the deletion comes after stop.
func (n *Node) shut() {
	n.set(func() {
		n.stop(ErrClosed)
		n.present = false
		if !errors.Is(n.err, framework.ErrClosed) {
			n.err = ErrClosed
		}
	})
}

// dataOf is what a node holds that is given data.
func (n *Node) dataOf(data []byte) []byte {
	if data == nil {
		return n.client.DefaultData()
	}
	return slices.Clone(data)
}

// notify wakes the goroutine.
func (n *Node) notify() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// set changes what others see, and tells them.
func (n *Node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.changed)
	n.changed = make(chan struct{})
}

// missing notes that the node is not there.
func (n *Node) missing(reason error) {
	n.set(func() {
		n.present = false
		n.because(reason)
	})
}

// deleted notes that the node was deleted, if it was there.
func (n *Node) deleted() {
	if there, _ := n.Present(); there {
		n.missing(ErrDeleted)
	}
}

// trouble notes what is in the way.
func (n *Node) trouble(reason error) {
	if text(n.Err()) != text(reason) {
		n.set(func() { n.because(reason) })
	}
}

// because changes why the node is not as it should be, unless it is shut: then that is the reason. mu is held.
func (n *Node) because(reason error) {
	if n.ctx.Err() == nil {
		n.err = reason
	}
}

// wanted is what the node is to hold.
func (n *Node) wanted() content {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.want
}

// takenBy is why a node that is not ours is in the way.
func takenBy(stat *zk.Stat) error {
	if stat.EphemeralOwner == 0 {
		return fmt.Errorf("%w: a persistent node", ErrTaken)
	}
	return fmt.Errorf("%w: session %#x", ErrTaken, uint64(stat.EphemeralOwner))
}
