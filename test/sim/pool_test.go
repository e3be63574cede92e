package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
)

// pool is a semaphore whose number of leases is shared, and changes.
type pool struct {
	*world

	mu    sync.Mutex // guards what follows
	live  map[*lock.Hold]*lent
	force []*force
}

// lent is a held lease.
type lent struct {
	asked time.Time // when its holder began to acquire it
	by    *actor
}

// force is a time in which a number of leases may be in force.
type force struct {
	max      int
	from, to time.Time // to is zero while it may still be
	late     time.Time // until when a request for it may be carried out that was not answered
}

const poolMost = 4

func (p *pool) start(wg *sync.WaitGroup) error {
	p.live = make(map[*lock.Hold]*lent)
	p.force = []*force{{max: 2, from: time.Now()}}
	for _, a := range p.actors("borrower", 2) {
		s, err := semaphore.NewShared(a.client, "/sim/pool", "/sim/max")
		if err != nil {
			return err
		}
		wg.Go(func() { p.borrow(a, s) })
	}
	a := p.actors("count", 1)[0]
	count, err := shared.Int32(a.client, "/sim/max")
	if err != nil {
		return err
	}
	wg.Go(func() { p.change(a, count) })
	return nil
}

// change sets the count again and again.
func (p *pool) change(a *actor, count *shared.Value[int32]) {
	a.repeat(8*time.Second, 10*time.Second, func(ctx context.Context) { _ = p.set(ctx, a, count, int32(a.random.IntN(poolMost+1))) })
	a.once("Set", func(ctx context.Context) error { return p.set(ctx, a, count, 2) })
}

// set changes the count. During the change, and after an error, the old number may be in force as
// well as the new one. An unanswered change may be carried out after the next answered one, by a
// server at which the client's earlier session lives on.
func (p *pool) set(ctx context.Context, a *actor, count *shared.Value[int32], n int32) error {
	p.mu.Lock()
	next := &force{max: int(n), from: time.Now()}
	p.force = append(p.force, next)
	p.mu.Unlock()
	err := count.Set(ctx, n)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		next.late = now.Add(a.Session + 10*time.Second)
		p.monitor.count("count not set: " + reason(err))
		return err
	}
	p.monitor.count("counts set")
	for _, f := range p.force {
		if f != next && f.to.IsZero() {
			f.to = now
			if f.late.After(now) {
				f.to = f.late
			}
		}
	}
	return nil
}

// borrow takes leases.
func (p *pool) borrow(a *actor, s *semaphore.Semaphore) {
	a.repeat(4*time.Second, 20*time.Second, func(ctx context.Context) {
		take := either(a.random.IntN(3) > 0, s.AcquireN, s.TryAcquireN)
		if err := p.take(ctx, a, take, 1+a.random.IntN(2)); err != nil {
			a.monitor.count("lease not acquired: " + reason(err))
		}
	})
	a.once("AcquireN", func(ctx context.Context) error { return p.take(ctx, a, s.AcquireN, 1) })
}

func (p *pool) take(ctx context.Context, a *actor, take func(context.Context, int) (*lock.Group, error), n int) error {
	asked := time.Now()
	g, err := take(ctx, n)
	if errors.Is(err, semaphore.ErrTooMany) {
		return nil
	}
	if err != nil {
		return err
	}
	p.lend(a, g, asked)
	a.sleep(upTo(a.random, 4*time.Second), g.Done())
	p.mu.Lock()
	for _, h := range g.Holds() {
		delete(p.live, h)
	}
	p.mu.Unlock()
	if err := g.Release(); err != nil {
		a.monitor.count("release of a lease failed: " + reason(err))
	}
	return nil
}

// lend requires that no more leases are held than allowed at some time since the first of their
// holders asked: the last one by node got its lease when all others had their nodes, by a number
// that it read after it had asked.
func (p *pool) lend(a *actor, g *lock.Group, asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	judged := true
	for _, h := range g.Holds() {
		p.live[h] = &lent{asked, a}
		judged = judged && h.Err() == nil
	}
	held, since := 0, asked
	for h, l := range p.live {
		if h.Err() == nil && !l.by.wasEnded(l.by.Session+10*time.Second) {
			held++
			if l.asked.Before(since) {
				since = l.asked
			}
		}
	}
	most := 0
	for _, f := range p.force {
		if f.to.IsZero() || !f.to.Before(since) { // what happens at one instant has an order, too
			most = max(most, f.max)
		}
	}
	a.monitor.count("leases of a shared count")
	if judged && held > most {
		a.monitor.fail("too many leases", "%d are held, and there were at most %d since %v", held, most, since.Sub(p.monitor.began))
	}
}

func (p *pool) conclude() {}
