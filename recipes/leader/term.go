package leader

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/recipes/lock"
)

// Term is a time of leadership: what Campaign returns. It ends once, by Resign or by a loss. Campaign
// again after that. Each term has its own token and guard.
//
// All methods are safe for concurrent use.
type Term struct {
	election *Election
	hold     *lock.Hold
	ctx      context.Context
	end      context.CancelCauseFunc

	// working says that a function leads: its node stays until that has returned, so
	// Resign only ends the context.
	working bool
}

func newTerm(e *Election, hold *lock.Hold) *Term {
	t := &Term{election: e, hold: hold}
	t.ctx, t.end = context.WithCancelCause(hold.Context())
	return t
}

// Context ends when the leadership may no longer be ours, always before anyone else can
// lead. context.Cause then is [ErrResigned], [lock.ErrClosed], or a loss, which wraps [lock.ErrLost]:
// [lock.ErrSessionLost], [lock.ErrSuspended] or [lock.ErrNodeDeleted]. It has the
// values of the context that was given to Campaign, but not its deadline or cancellation, which only
// limited the wait.
func (t *Term) Context() context.Context { return t.ctx }

// Done is Context().Done().
func (t *Term) Done() <-chan struct{} { return t.ctx.Done() }

// Err is nil while we lead, and then the cause of the term's end.
func (t *Term) Err() error { return context.Cause(t.ctx) }

// ID is what others see of this leader.
func (t *Term) ID() string { return t.election.id }

// Path is the path of the term's node.
func (t *Term) Path() string { return t.hold.Path() }

// FencingToken returns a number that is higher for every later term of the election: the czxid of
// the term's node. Give it to whatever must refuse a late leader. The first call asks the
// server. Errors are the cause of the term's end, and those of ctx and ZooKeeper.
func (t *Term) FencingToken(ctx context.Context) (int64, error) {
	token, err := t.hold.FencingToken(ctx)
	if errors.Is(err, lock.ErrReleased) {
		err = fmt.Errorf("%w: %w", err, ErrResigned)
	}
	return token, err
}

// Guard is an operation for [framework.Client.Multi], on the client that the election was made
// with: the Multi succeeds only if the term's node is there. If not, it fails with zk.ErrNoNode
// and nothing is written.
//
//	client.Multi(ctx, term.Guard(), &zk.SetDataRequest{...})
func (t *Term) Guard() *zk.CheckVersionRequest { return t.hold.Guard() }

// Resign ends the leadership. First the context ends, with [ErrResigned]; then the node is
// deleted. Resign returns when the server has confirmed that, or when the session is over,
// which deletes the node too. It takes no context, so a cancelled caller cannot leave the
// node behind.
//
// In a function that leads for [Election.Lead] or [Election.Run], or beside it, Resign only ends the
// context: the node is deleted when the function has returned.
//
// If the term was lost before, Resign returns the cause of the loss. A second call returns
// [ErrResigned], or the same error again. Other errors are those of [lock.Hold.Release].
func (t *Term) Resign() error {
	ended := t.Err()
	t.end(ErrResigned)
	switch {
	case !t.working:
		return t.release()
	case ended != nil:
		return t.resignError(ended)
	}
	return nil
}

// release deletes the node. The term has ended.
func (t *Term) release() error {
	err := t.hold.Release()
	switch ended := t.Err(); {
	case errors.Is(err, lock.ErrReleased):
		return t.resignError(ErrResigned)
	case err == nil && errors.Is(ended, lock.ErrLost): // nobody else has led meanwhile, but neither have we
		return t.resignError(ended)
	}
	return err
}

func (t *Term) resignError(err error) error {
	return fmt.Errorf("resign %s: %w", t.Path(), err)
}
