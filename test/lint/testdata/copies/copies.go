// Package copies copies values that must not be copied: see TestVet_ReportsCopies.
package copies

import (
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
)

func client(x *framework.Client) { _ = *x }

func holds(x *lock.Hold, y *lock.Group, z *revocable.Hold, t *leader.Term) {
	_, _, _, _ = *x, *y, *z, *t
}

func locks(q *lock.Queue, m *mutex.Mutex, l *rwlock.Lock, s *rwlock.Side, p *semaphore.Semaphore, a *multilock.Lock, r *revocable.Lock) {
	_, _, _, _, _, _, _ = *q, *m, *l, *s, *p, *a, *r
}

func others(e *leader.Election, b *barrier.Barrier, d *barrier.Double, v *shared.Value[int32], c *cache.Cache) {
	_, _, _, _, _ = *e, *b, *d, *v, *c
}
