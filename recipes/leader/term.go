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
// process can lead. It has the values of Campaign's context, but not its deadline or cancellation.
//
// Its cause is
//   - [lock.ErrReleased] after Release;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - otherwise the loss, which wraps [framework.ErrLost].
func (t *Term) Context() context.Context { return t.hold.Context() }

// Done returns Context().Done().
func (t *Term) Done() <-chan struct{} { return t.hold.Done() }

// Err returns nil during the term, and then the cause of Context.
func (t *Term) Err() error { return t.hold.Err() }

// ID returns the leader's id, as other processes see it.
func (t *Term) ID() string { return t.id }

// Path returns the path of the term's node.
func (t *Term) Path() string { return t.hold.Path() }

// String describes the term for logs: the path of its node, and whether it is held, released or
// lost, and why. It sends no request.
func (t *Term) String() string { return t.hold.String() }

// Session returns the session that owns the term's node.
func (t *Term) Session() *framework.Session { return t.hold.Session() }

// FencingToken returns a number that is higher for every later term of the election: the czxid of
// the term's node. A resource can use it to reject a former leader. The first call reads the node.
//
// Errors are
//   - [lock.ErrNodeDeleted] if the node does not exist;
//   - the cause of the loss, which wraps [framework.ErrLost], if the term was lost before its node
//     was read;
//   - [lock.ErrReleased] if the term was released before its node was read;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - the server's errors, such as zk.ErrAuthFailed if the server refuses the client's credentials.
func (t *Term) FencingToken(ctx context.Context) (int64, error) { return t.hold.FencingToken(ctx) }

// Guard returns an operation for [framework.Client.Multi] of the election's client. The Multi
// succeeds only if the term's node exists. Otherwise it fails with zk.ErrNoNode, and nothing is
// written.
//
// [Term.Multi] distinguishes a lost term from a missing node of the caller's operations.
//
//	client.Multi(ctx, term.Guard(), framework.SetOp("/balance", data))
func (t *Term) Guard() *zk.CheckVersionRequest { return t.hold.Guard() }

// Multi carries out ops, in one transaction of the election's client, only if the term's node
// exists. It returns the responses to ops.
//
// Errors are
//   - [lock.ErrNodeDeleted], which wraps [framework.ErrLost], if the term's node does not exist:
//     nothing is written. It also wraps the cause of the term's end, such as [lock.ErrReleased];
//   - a [framework.MultiError] with the index of the first of ops that failed: nothing is written;
//   - [framework.ErrBadArgument] if there are no ops, or one of them is nil, of another type, or
//     the guard of another client's hold;
//   - [framework.ErrBadPath] if a path is invalid;
//   - [framework.ErrTooLong] if ops exceed the client's limit of a request;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the term's session has expired;
//   - [framework.ErrClosed] if the client is closed.
//
// If retry.Unknown is true of an error, ops may have been carried out.
func (t *Term) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return t.hold.Multi(ctx, ops...)
}

// ReleaseWith resigns and applies ops in one transaction of the election's client, without retries.
// Other clients see the results exactly when the leadership ends. The term ends even if ReleaseWith
// returns an error, except during a call of [Election.Lead] or [Election.Run].
//
// Errors are
//   - [framework.ErrBadArgument] during a call of Lead or Run: nothing has changed, and the term
//     continues;
//   - framework.ErrBadArgument if one of ops is nil, of another type, or the guard of another
//     client's hold: nothing is written;
//   - the cause of the loss, which wraps [framework.ErrLost], if the term was lost before: nothing
//     is written;
//   - [lock.ErrReleased] if the term was released before: nothing is written;
//   - zk.ErrNoNode if the term's node does not exist: nothing is written;
//   - a [framework.MultiError] with the index of the first of ops that failed: nothing is written;
//   - [framework.ErrBadPath] if a path is invalid;
//   - [framework.ErrTooLong] if ops exceed the client's limit of a request;
//   - the error of ctx if ctx is done first;
//   - zk.ErrConnectionClosed or zk.ErrNoServer if the connection is lost;
//   - [framework.ErrSessionLost] if the session expires;
//   - [framework.ErrClosed] if the client is closed.
//
// If retry.Unknown is true of an error, ops may have been carried out.
func (t *Term) ReleaseWith(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return t.hold.ReleaseWith(ctx, ops...)
}

// Release resigns: it cancels the term's context with [lock.ErrReleased], and deletes the node. It
// returns nil when the server has confirmed the deletion. During a call of [Election.Lead] or
// [Election.Run] it only cancels the context.
//
// Errors are
//   - the cause of the loss, which wraps [framework.ErrLost], if the term was lost before;
//   - [lock.ErrReleased] at a later call, or the same error if the term was lost;
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
