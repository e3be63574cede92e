package leader

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue"
)

// Term is a time of leadership: what Campaign returns. It is a [lock.Hold] with an id, and ends once, by Release or by a loss.
// Campaign again after that. Each term has its own token and guard.
//
// All methods are safe for concurrent use.
type Term struct {
	hold *queue.Hold
	id   string
}

// Context ends when the leadership may no longer be ours, before anyone else can lead; [lock.Hold.Context] has the exception.
// context.Cause then is [lock.ErrReleased], [framework.ErrClosed], or a loss, which wraps [framework.ErrLost]:
// [framework.ErrSessionLost], [framework.ErrSuspended] or [lock.ErrNodeDeleted]. It has the values of the context that was given to Campaign, but not its
// deadline or cancellation, which only limited the wait.
func (t *Term) Context() context.Context { return t.hold.Context() }

// Done is Context().Done().
func (t *Term) Done() <-chan struct{} { return t.hold.Done() }

// Err is nil while we lead, and then the cause of the term's end.
func (t *Term) Err() error { return t.hold.Err() }

// ID is what others see of this leader.
func (t *Term) ID() string { return t.id }

// Path is the path of the term's node.
func (t *Term) Path() string { return t.hold.Path() }

// String is [lock.Hold.String], for logs.
func (t *Term) String() string { return t.hold.String() }

// Session is the session that the term's node belongs to.
func (t *Term) Session() *framework.Session { return t.hold.Session() }

// FencingToken returns a number that is higher for every later term of the election: see [lock.Hold.FencingToken].
func (t *Term) FencingToken(ctx context.Context) (int64, error) { return t.hold.FencingToken(ctx) }

// Guard is an operation for [framework.Client.Multi], on the client that the election was made with: the Multi succeeds only if
// the term's node is there. If not, it fails with zk.ErrNoNode and nothing is written.
//
//	client.Multi(ctx, term.Guard(), &zk.SetDataRequest{...})
func (t *Term) Guard() *zk.CheckVersionRequest { return t.hold.Guard() }

// Release resigns. First the context ends, with [lock.ErrReleased]; then the node is deleted, as [lock.Hold.Release] does it.
//
// In a function that leads for [Election.Lead] or [Election.Run], or beside it, Release only ends the context: the node is
// deleted when the function has returned.
//
// If the term was lost before, Release returns the cause of the loss, also if nobody else has led meanwhile. A second call
// returns [lock.ErrReleased], or the same error again. Other errors are those of [lock.Hold.Release].
func (t *Term) Release() error {
	lost := t.Err()
	err := t.hold.Release()
	if err == nil && errors.Is(lost, framework.ErrLost) { // the term was suspended, and its node was still there
		err = follow.OpError("release", t.Path(), lost)
	}
	return err
}
