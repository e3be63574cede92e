package lock

import (
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock/internal/queueview"
)

// soon: a Queue that is used again within this time looks in a view instead of listing. A Queue whose waiters would have to
// watch more than maxWatched nodes, and one with a local hand-off, get a view at the first acquire.
const soon = time.Second

// view returns the view to acquire with, which may have to be waited for. It is nil if the path is to be listed. A view that
// is there is used by all; a new one begins if the Queue is worth it.
func (q *Queue) view(session *framework.Session) *queueview.View {
	now := time.Now()
	q.mu.Lock()
	worth := q.local != nil || q.maxLeases > maxWatched || now.Sub(q.used) < soon
	begin := worth && q.others <= queueview.MaxOthers
	q.used = now
	own := len(q.nodes)
	q.mu.Unlock()
	v := q.views.Get(q.client, session, q.base, begin, own)
	if v != nil {
		v.Use(now)
	}
	return v
}

// isLong reports whether so many others are in the queue that a view costs more than lists.
func (q *Queue) isLong() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.others > queueview.MaxOthers
}
