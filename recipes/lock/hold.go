package lock

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/queue"
)

// Hold is an acquired lease: what Acquire returns. It ends once, by Release or by a loss. Acquire again after
// that.
//
// All methods are safe for concurrent use.
type Hold queue.Hold

func (h *Hold) inner() *queue.Hold { return (*queue.Hold)(h) }

// Context ends when the lease may no longer be ours, before anyone else can acquire it. If somebody deletes the node, or ends the
// session by force, it ends when the servers report that, perhaps shortly after the next one has acquired. context.Cause
// then is [ErrReleased], [framework.ErrSessionLost], [framework.ErrSuspended], [ErrNodeDeleted], [ErrMaxHold] or [framework.ErrClosed]. It
// has the values of the context that was given to Acquire, but not its deadline or cancellation, which only
// limited the wait.
//
// With this context, Acquire of the same lock re-enters.
func (h *Hold) Context() context.Context { return h.inner().Context() }

// Done is Context().Done().
func (h *Hold) Done() <-chan struct{} { return h.inner().Done() }

// Err is nil while the lease is ours, and then the cause of its end.
func (h *Hold) Err() error { return h.inner().Err() }

// Path is the path of the lease's node.
func (h *Hold) Path() string { return h.inner().Path() }

// String is the path of the lease's node, and whether it is held, released, or why it ended: for logs. It asks no
// server. Unlike [Hold.Path] it does not keep [WithLocalHandOff] from passing the node on.
func (h *Hold) String() string { return h.inner().String() }

// Session is the session that the lease's node belongs to.
func (h *Hold) Session() *framework.Session { return h.inner().Session() }

// Release releases the lease. First the context ends, with [ErrReleased]; then the node is deleted. Release
// returns when the server has confirmed the deletion, or with [framework.ErrSessionLost] or [framework.ErrClosed] when the session
// is over, which deletes the node too. Other errors are what ZooKeeper said, such as zk.ErrNoAuth. Release takes
// no context, so a cancelled caller cannot leave the lock behind.
//
// If there are several holds of a lease, by re-entry, only the release of the last one deletes the node.
//
// If the lease was lost before, Release returns the cause of the loss. There is one exception: after
// [framework.ErrSuspended] it returns nil if the node was still there and Release has deleted it, since then nobody else
// has held meanwhile. If the answer was lost, that is not certain, and Release returns [framework.ErrSuspended]. After
// [framework.ErrSessionLost] the client deletes the node in the background, if the servers have not done so yet. A second
// call returns [ErrReleased], or tries again if the node could not be deleted.
//
// While no server can be reached it waits until the session counts as lost, for up to its timeout. Closing the client ends the wait.
func (h *Hold) Release() error { return h.inner().Release() }

// Do calls f and releases. f's context ends with the hold, and when ctx ends: context.Cause says which, and it does not have
// ctx's deadline. The error is f's and Release's joined. If f returns an error and the hold was lost, it also wraps the cause of
// that, such as [framework.ErrSuspended]. If f panics, the lease is released. If the hold has ended already, f is not called, and the
// error wraps the cause.
func (h *Hold) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return h.inner().Do(ctx, f)
}

// FencingToken returns a number that is higher for every later holder of the lock: the czxid of the lease's
// node. Give it to whatever must refuse a late holder. The first call asks the server. Errors are
// [ErrNodeDeleted], the cause of the hold's end, and those of ctx and ZooKeeper.
//
// With several leases there are several holders, and the token only gives their order.
func (h *Hold) FencingToken(ctx context.Context) (int64, error) { return h.inner().FencingToken(ctx) }

// Guard is an operation for [framework.Client.Multi], on the client that the lock was made
// with: the Multi succeeds only if the lease's node is there. If not, it
// fails with zk.ErrNoNode and nothing is written.
//
//	client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{...})
func (h *Hold) Guard() *zk.CheckVersionRequest { return h.inner().Guard() }

// ReleaseWith releases the lease and carries out ops, as [framework.Client.Multi] does on the client that the
// lock was made with, all in one transaction. So others see the results exactly when the lock is released. If
// the lease's node does not exist, nothing is written, and the error wraps zk.ErrNoNode.
//
// First the hold's context ends, as in [Hold.Release]. The lease is released also after an error, which is that
// of Multi or the cause of a loss; retry.Unknown says whether ops may have been carried out. The transaction
// is sent once and not repeated. A lease with several holds, by re-entry, cannot be released in this way: the
// error is [framework.ErrBadArgument], and nothing has changed.
func (h *Hold) ReleaseWith(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return h.inner().ReleaseWith(ctx, ops...)
}

// Requeue releases the lease, queues again at the end, and waits for the next hold. It does what Release and
// Acquire do, with one write less. Others on the path see that one node is deleted and another is created.
//
// First the hold's context ends, as in [Hold.Release]. Errors are those of Acquire; then nothing is held and no node of ours
// stays. If the lease was lost, the error is the cause of the loss, and nothing was created. A lease with several holds, by
// re-entry, cannot be released in this way, nor one of a semaphore: the error is [framework.ErrBadArgument], and nothing has
// changed.
func (h *Hold) Requeue(ctx context.Context) (*Hold, error) {
	next, err := h.inner().Requeue(ctx)
	return (*Hold)(next), err
}
