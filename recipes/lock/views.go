package lock

import (
	"context"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock/internal/queueview"
)

// When a Queue looks in a view instead of listing.
const (
	// soon: a Queue that is used again within this time gets a view. A Queue whose waiters would have to watch
	// more than maxWatched nodes, and one with a local hand-off, get it at the first acquire.
	soon = time.Second

	// longHold: the waiter that is next does not begin a view if holds are shorter. There would be no time for it.
	longHold = time.Millisecond
)

// view returns the view to acquire with, which may have to be waited for. It is nil if the path is to be listed. A view that
// is there is used by all; a new one begins if the Queue is worth it.
func (q *Queue) view(session *framework.Session) *queueview.View {
	now := time.Now()
	q.mu.Lock()
	worth := q.local != nil || q.maxLeases > maxWatched || now.Sub(q.used) < soon
	purpose := queueview.Nothing
	if worth && q.others <= queueview.MaxOthers {
		purpose = queueview.ForAll
	}
	q.used = now
	q.mu.Unlock()
	v := q.views.Get(q.client, session, q.base, purpose)
	if v != nil {
		v.Use(now)
	}
	return v
}

// prepare is for the waiter that is next in a long queue. Without a view it has to list when the holder releases, which is a
// round trip in which nobody holds. So it begins a view as soon as nobody is left between it and the holder. The view ends
// soon after the waiter's own hold. The waiter looks in the view as everybody does: there is no other rule for it.
//
// prepare returns when the view is there, at once if it is not worth it, and when fired or changed is closed. An error
// means that waiting is useless.
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
	q := e.queue
	if v := q.views.Get(q.client, e.session, q.base, queueview.ForNext); v != nil {
		_ = e.enterView(ctx, v) // it fails with ctx, of which the caller takes notice
	}
	return nil
}

// isLong reports whether so many others are in the queue that a view costs more than lists.
func (q *Queue) isLong() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > queueview.MaxOthers
}

func (q *Queue) isWorthPreparing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > queueview.MaxOthers && (q.held == 0 || q.held >= longHold)
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
