package sim

import (
	"context"
	"errors"
	"time"

	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
)

// The two locks of a multilock. The monitor of the world is for the first; some take only the
// second.
const (
	firstLock  = lockPath + "/a"
	secondLock = lockPath + "/b"
)

// pair is a contender that acquires two locks as one.
type pair struct {
	*contender
	second *mutex.Mutex
	both   *multilock.Lock
}

func makeMultilock(c *contender) (acquirer, error) {
	first, err := mutex.New(c.client, firstLock, c.options()...)
	second, err2 := mutex.New(c.client, secondLock, c.options()...)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	both, err := multilock.New(first, second)
	return (&pair{c, second, both}).acquireBoth, err
}

func (p *pair) acquireBoth(ctx context.Context, wait bool) ([]*held, error) {
	if p.random.IntN(4) == 0 {
		p.acquireSecond(ctx)
	}
	g, err := either(wait, p.both.Acquire, p.both.TryAcquire)(ctx)
	if err != nil {
		return nil, err
	}
	h := p.of(g.Holds()[0], p.owners.Add(1), false, g.Holds()[0].Path())
	h.hold = nil // it is released with the other
	other := p.enterSecond(g.Holds()[1])
	h.release = func() error {
		p.checkGroup(g)
		err := g.Release()
		p.seconds.leave(other)
		return err
	}
	return []*held{h}, nil
}

// acquireSecond acquires the second lock alone, for a moment.
func (p *pair) acquireSecond(ctx context.Context) {
	h, err := p.second.Acquire(ctx)
	if err != nil {
		p.monitor.count("second lock not acquired: " + reason(err))
		return
	}
	other := p.enterSecond(h)
	p.sleep(upTo(p.random, 300*time.Millisecond), h.Done())
	_ = h.Release() // it may have been lost
	p.seconds.leave(other)
}

func (p *pair) enterSecond(h *lock.Hold) *held {
	out := p.actor.hold(h.Context(), int(p.owners.Add(1)), h.Session(), h.Path())
	p.seconds.enter(out)
	return out
}

// checkGroup requires that a group has ended if one of its holds has.
func (p *pair) checkGroup(g *lock.Group) {
	for _, h := range g.Holds() {
		if h.Err() == nil {
			continue
		}
		p.sleep(time.Second, g.Done())
		if g.Err() == nil {
			p.monitor.fail("group", "%s still holds %v, although %v has ended: %v", p.name, g.Holds(), h, h.Err())
		}
	}
}

// queue returns the path at which foreign contenders create their nodes.
func (w *world) queue() string {
	if w.Recipe == "multilock" {
		return firstLock
	}
	return lockPath
}

// reenter acquires a lock once more with the context of a hold. Both are released, in any order,
// and the lock with the last.
func (c *contender) reenter(outer *held, acquire func(context.Context) (*lock.Hold, error)) []*held {
	h, err := acquire(outer.ctx)
	if err != nil {
		c.monitor.count("re-entry failed: " + reason(err))
		return []*held{outer}
	}
	c.monitor.count("re-entries")
	inner := c.of(h, int64(outer.owner), false, outer.node)
	outer.hold, inner.hold = nil, nil // a lock with several holds is released in one way only
	list := []*held{outer, inner}
	if c.random.IntN(2) == 0 {
		list = []*held{inner, outer}
	}
	list[1].guard = nil // is released first, and its guard is the other's
	return list
}
