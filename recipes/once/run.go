package once

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/recipes/lock"
)

// run is one call of a function.
type run struct {
	*Once
	hold *lock.Hold
	room int // the bytes of a request that the recording takes

	mu    sync.Mutex // guards what follows
	ops   []any
	ended bool
}

// runKey is the key of the run in the context of a function.
type runKey struct{}

// runOf returns the run whose function has ctx, or nil.
func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// Commit adds operations to the transaction that records the success: they are carried out exactly
// once if the success is recorded, and otherwise not at all. ctx must be the context of a function
// of [Once.Do], [Once.TryDo] or [Once.Run], or derived from it. Paths are relative to the namespace
// of the job's client.
//
// Operations are the results of [framework.CreateOp], [framework.SetOp], [framework.DeleteOp] and
// [framework.CheckOp], the guard of a hold, and other pointers to go-zookeeper's requests. If the
// server refuses one of them, nothing is recorded, and Do returns a [*framework.MultiError], whose
// Index counts all operations of the function.
//
// After an error none of ops is added. Errors are
//   - [framework.ErrBadArgument] if ctx belongs to no function, or an operation is invalid;
//   - [framework.ErrBadPath] if the path of an operation is invalid;
//   - [framework.ErrTooLong] if the operations do not fit into the client's limit of a request;
//   - [lock.ErrReleased] if the function has returned.
func Commit(ctx context.Context, ops ...any) error {
	r := runOf(ctx)
	if r == nil {
		return &framework.OpError{Op: "commit", Err: noRun()}
	}
	return operr.New("commit", r.path, r.commit(ops))
}

func noRun() error {
	return fmt.Errorf("%w: the context of no function", framework.ErrBadArgument)
}

func (r *run) commit(ops []any) error {
	added := make([]any, len(ops))
	for i, op := range ops {
		var err error
		if added[i], err = r.encoded(op); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return lock.ErrReleased
	}
	all := append(slices.Clone(r.ops), added...)
	bytes := r.room
	for _, op := range all {
		bytes += size(op)
	}
	if err := engine.Of(r.user).Fits(r.node, bytes); err != nil {
		return err
	}
	r.ops = all
	return nil
}

// encoded returns a copy of an operation for a client that does not compress. The caller may change
// its own.
func (r *run) encoded(op any) (copied any, err error) {
	if err := engine.CheckOp(r.user, op); err != nil {
		return nil, err
	}
	var data *[]byte
	switch op := op.(type) {
	case *zk.CreateRequest:
		c := *op
		copied, data = &c, &c.Data
	case *zk.CreateTTLRequest:
		c := *op
		copied, data = &c, &c.Data
	case *zk.SetDataRequest:
		c := *op
		copied, data = &c, &c.Data
	case *zk.DeleteRequest:
		c := *op
		copied = &c
	case *zk.CheckVersionRequest:
		c := *op
		copied = &c
	default:
		return nil, fmt.Errorf("%w: unsupported operation %T", framework.ErrBadArgument, op)
	}
	if data != nil {
		encoded, err := engine.Of(r.user).Encode(*data)
		if err != nil {
			return nil, err
		}
		*data = slices.Clone(encoded)
	}
	return copied, nil
}

// size returns about how many bytes an operation adds to a request.
func size(op any) int {
	const fixed = 128 // bytes, including an ACL
	switch op := op.(type) {
	case *zk.CreateRequest:
		return fixed + len(op.Path) + len(op.Data) + 64*len(op.Acl)
	case *zk.CreateTTLRequest:
		return fixed + len(op.Path) + len(op.Data) + 64*len(op.Acl)
	case *zk.SetDataRequest:
		return fixed + len(op.Path) + len(op.Data)
	case *zk.DeleteRequest:
		return fixed + len(op.Path)
	case *zk.CheckVersionRequest:
		return fixed + len(op.Path)
	}
	return fixed
}

// Hold returns the lock that is held while the function with ctx runs. Its fencing token and its
// guard protect writes that must happen while the function runs. The function must not release it.
//
// Hold returns [framework.ErrBadArgument] if ctx belongs to no function.
func Hold(ctx context.Context) (*lock.Hold, error) {
	r := runOf(ctx)
	if r == nil {
		return nil, &framework.OpError{Op: "hold", Err: noRun()}
	}
	return r.hold, nil
}
