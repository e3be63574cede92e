package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// Multi carries out ops, in one transaction of the lock's client, only if the lease's node exists.
// It returns the responses to ops.
//
//	hold.Multi(ctx, framework.SetOp("/balance", data))
//
// Errors are
//   - [ErrNodeDeleted], which wraps [framework.ErrLost], if the lease's node does not exist:
//     nothing is written. It also wraps the cause of the hold's end, such as [ErrReleased];
//   - a [framework.MultiError] with the index of the first of ops that failed: nothing is written.
//     It wraps the server's error, such as zk.ErrBadVersion;
//   - [framework.ErrBadArgument] if there are no ops, or one of them is nil, of another type, or
//     the guard of another client's hold;
//   - [framework.ErrBadPath] if a path is invalid;
//   - [framework.ErrTooLong] if ops exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if data exceed [framework.WithMaxDecompressed];
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the lease's session has expired;
//   - [framework.ErrClosed] if the client is closed;
//   - the server's errors, such as zk.ErrAuthFailed if the server refuses the client's credentials.
//
// If [retry.Unknown] reports true for an error, ops may have been carried out.
//
// [framework.Client.Multi] with [Hold.Guard] is the same transaction. Its errors do not distinguish
// a lost lock from a missing node of ops.
func (h *Hold) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return multi(ctx, []*Hold{h}, ops)
}

// Multi carries out ops, in one transaction of the locks' client, only if the nodes of all holds
// exist. It returns the responses to ops.
//
// Errors are
//   - [ErrNodeDeleted], which wraps [framework.ErrLost], if one of the nodes does not exist:
//     nothing is written. It also wraps the cause of that hold's end, such as [ErrReleased];
//   - a [framework.MultiError] with the index of the first of ops that failed: nothing is written.
//     It wraps the server's error, such as zk.ErrBadVersion;
//   - [framework.ErrBadArgument] if there are no ops, or one of them is nil, of another type, or
//     the guard of another client's hold;
//   - [framework.ErrBadPath] if a path is invalid;
//   - [framework.ErrTooLong] if ops exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if data exceed [framework.WithMaxDecompressed];
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - framework.ErrBadArgument if the holds belong to different clients;
//   - [framework.ErrSessionLost] if the session of the first hold has expired;
//   - [framework.ErrClosed] if the client is closed;
//   - the server's errors, such as zk.ErrAuthFailed if the server refuses the client's credentials.
//
// If [retry.Unknown] reports true for an error, ops may have been carried out.
func (g *Group) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return multi(ctx, g.holds, ops)
}

// multi carries out ops if the nodes of all holds exist.
func multi(ctx context.Context, holds []*Hold, ops []any) ([]zk.MultiResponse, error) {
	first := holds[0]
	fail := func(h *Hold, err error) ([]zk.MultiResponse, error) {
		return nil, &framework.OpError{Op: "multi", Path: h.Path(), Err: err}
	}
	if len(ops) == 0 {
		return fail(first, fmt.Errorf("%w: no operations", framework.ErrBadArgument))
	}
	all := make([]any, 0, len(holds)+len(ops))
	for _, h := range holds {
		all = append(all, h.Guard())
	}
	all = append(all, ops...)
	if err := first.checkGuards(all); err != nil {
		return fail(first, err)
	}
	responses, err := first.term.node.client.Multi(ctx, all...)
	if err == nil {
		return responses[len(holds):], nil
	}
	var refused *framework.MultiError
	switch {
	case !errors.As(err, &refused):
		if op, ok := err.(*framework.OpError); ok {
			err = op.Err
		}
		return fail(first, err)
	case refused.Index >= len(holds): // one of ops; its path is in the error
		err = &framework.MultiError{Index: refused.Index - len(holds), Op: refused.Op, Path: refused.Path, Err: refused.Err}
		return fail(first, err)
	case errors.Is(refused.Err, zk.ErrNoNode):
		h := holds[refused.Index]
		return fail(h, &guardError{h.Err()})
	}
	return fail(holds[refused.Index], refused.Err)
}

// guardError is the error of a transaction whose guard has failed.
type guardError struct {
	ended error // why the hold had ended; nil: another client has deleted the node
}

func (e *guardError) Error() string {
	if e.ended == nil || errors.Is(e.ended, ErrNodeDeleted) {
		return ErrNodeDeleted.Error()
	}
	return "lock node deleted: " + e.ended.Error()
}

func (e *guardError) Unwrap() []error {
	if e.ended == nil {
		return []error{ErrNodeDeleted}
	}
	return []error{ErrNodeDeleted, e.ended}
}

// guardOwners are the clients of the guards that exist. A guard is go-zookeeper's request, which
// does not say for which client its path is.
var guardOwners sync.Map // guardOwner by a weak pointer to the request

// guardOwner identifies a client with its namespace.
type guardOwner struct {
	client *sync.Map // the values of the client, which all of its views share
	root   string
}

func (h *Hold) guardOwner() guardOwner {
	c := engine.Of(h.term.node.queue.client)
	return guardOwner{c.Values(), c.Real("/")}
}

// guards notes that the request is a guard of the hold.
func (h *Hold) guards(request *zk.CheckVersionRequest) *zk.CheckVersionRequest {
	key := weak.Make(request)
	guardOwners.Store(key, h.guardOwner())
	runtime.AddCleanup(request, func(key weak.Pointer[zk.CheckVersionRequest]) { guardOwners.Delete(key) }, key)
	return request
}

// checkGuards refuses guards of the holds of another client among ops: another ensemble may have a
// node at their paths.
func (h *Hold) checkGuards(ops []any) error {
	for _, op := range ops {
		request, ok := op.(*zk.CheckVersionRequest)
		if !ok || request == nil {
			continue
		}
		if owner, ok := guardOwners.Load(weak.Make(request)); ok && owner != h.guardOwner() {
			return fmt.Errorf("%w: the guard of %s belongs to another client or namespace", framework.ErrBadArgument, request.Path)
		}
	}
	return nil
}
