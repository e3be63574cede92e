package leader

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/recipes/lock"
)

// Term is a period of leadership, the result of Campaign. It is a [lock.Hold] with an id, and ends
// once, by Release or by a loss. All methods are safe for concurrent use.
type Term struct {
	_ nocopy.Mark

	hold *lock.Hold
	id   string
}

// Context returns a context that is cancelled when the leadership may be lost, before another
// process can lead. Its cause is [lock.ErrReleased], [framework.ErrClosed], or a loss, which wraps
// [framework.ErrLost]. It has the values of Campaign's context, but not its deadline or
// cancellation.
func (t *Term) Context() context.Context { return t.hold.Context() }

// Done returns Context().Done().
func (t *Term) Done() <-chan struct{} { return t.hold.Done() }

// Err returns nil during the term, and then the cause of Context.
func (t *Term) Err() error { return t.hold.Err() }

// ID returns the leader's id, as other processes see it.
func (t *Term) ID() string { return t.id }

// Path returns the path of the term's node.
func (t *Term) Path() string { return t.hold.Path() }

// String returns a description for logs: see [lock.Hold.String].
func (t *Term) String() string { return t.hold.String() }

// Session returns the session that owns the term's node.
func (t *Term) Session() *framework.Session { return t.hold.Session() }

// FencingToken returns a number that is higher for every later term of the election: see
// [lock.Hold.FencingToken].
func (t *Term) FencingToken(ctx context.Context) (int64, error) { return t.hold.FencingToken(ctx) }

// Guard returns an operation for [framework.Client.Multi] of the election's client. The Multi
// succeeds only if the term's node exists. Otherwise it fails with zk.ErrNoNode, and nothing is
// written: see [Term.Multi].
//
//	client.Multi(ctx, term.Guard(), framework.SetOp("/balance", data))
func (t *Term) Guard() *zk.CheckVersionRequest { return t.hold.Guard() }

// Multi carries out ops, in one transaction of the election's client, only if the term's node
// exists: see [lock.Hold.Multi]. A failed guard is [lock.ErrNodeDeleted], which wraps
// [framework.ErrLost].
func (t *Term) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return t.hold.Multi(ctx, ops...)
}

// ReleaseWith resigns and applies ops in one transaction: see [lock.Hold.ReleaseWith]. During a
// call of [Election.Lead] or [Election.Run] it returns [framework.ErrBadArgument], and the term
// continues.
func (t *Term) ReleaseWith(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return t.hold.ReleaseWith(ctx, ops...)
}

// Release resigns: it cancels the context with [lock.ErrReleased], and deletes the node. During a
// call of [Election.Lead] or [Election.Run] it only cancels the context.
//
// Errors are
//   - the cause of the loss, which wraps [framework.ErrLost], if the term was lost before;
//   - [lock.ErrReleased], or the same error, at a later call;
//   - [framework.ErrSessionLost] or [framework.ErrClosed] if the session is over, which deletes the
//     node;
//   - the server's errors, such as zk.ErrNoAuth.
func (t *Term) Release() error {
	lost := t.Err()
	err := t.hold.Release()
	// The term was suspended, and its node still existed.
	if err == nil && errors.Is(lost, framework.ErrLost) {
		err = operr.New("release", t.Path(), lost)
	}
	return err
}
