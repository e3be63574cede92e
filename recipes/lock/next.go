package lock

import (
	"context"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// The waiter that is next in a long queue. Without a view it has to list when the holder releases, which is a round trip in
// which nobody holds. So it begins a view as soon as nobody is left between it and the holder. The view ends soon after the
// waiter's own hold. The waiter looks in the view as everybody does: there is no other rule for it.

const (
	// longHold: a Queue whose holds are shorter does not begin such a view. There would be no time for it.
	longHold = time.Millisecond

	// briefly is for how long such a view goes on when nobody of ours is in the queue any more.
	briefly = 5 * time.Millisecond
)

// prepare waits, if it is worth it, until nobody is left between us and the node that we wait for, and begins a view then.
// It also returns when fired or changed is closed. An error means that waiting is useless.
func (e *entry) prepare(ctx context.Context, children, names []string, fired, changed <-chan struct{}) error {
	i := slices.Index(children, names[0])
	if len(names) > 1 || i < 0 || e.inView() != nil || !e.queue.isWorthPreparing() {
		return nil
	}
	if i > 0 {
		between, err := e.queue.watchAll(ctx, children[i-1:i])
		if err != nil {
			return nil // it is only about time
		}
		if between != nil {
			if err := e.sleep(ctx, fired, between.watches[0].Done(), changed); err != nil {
				return err
			}
			if !between.gone() {
				return nil
			}
		}
	}
	if v := e.queue.nextView(e.session); v != nil {
		_ = e.enterView(ctx, v) // it fails with ctx, of which the caller takes notice
	}
	return nil
}

// nextView returns a view for a waiter that is next, if there can be one.
func (q *Queue) nextView(session *framework.Session) *view {
	return q.views.get(q, session, purpose{next: true}, time.Now())
}

// serves reports whether the view is for a purpose. One that is there for all stays so.
func (v *view) serves(p purpose) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.brief = v.brief && !p.all
	return !v.brief || p.next
}

// isLong reports whether so many others are in the queue that a view costs more than lists.
func (q *Queue) isLong() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > maxOthers
}

func (q *Queue) isWorthPreparing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > maxOthers && (q.held == 0 || q.held >= longHold)
}

// noteHeld notes the length of a hold. The last one counts half, the one before a quarter, and so on.
func (q *Queue) noteHeld(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held == 0 {
		q.held = d
	}
	q.held = max((q.held+d)/2, 1)
}
