package sim

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/retry"
)

// contender is a goroutine that acquires, holds and releases.
type contender struct {
	*actor
	acquire acquirer
}

// acquirer acquires once. Its results are released in reverse order.
type acquirer func(ctx context.Context, wait bool) ([]*held, error)

// kind is a recipe.
type kind struct {
	most  int      // holders at a time
	dirs  []string // below the path, with the nodes; none: they are at the path itself
	make  func(c *contender) (acquirer, error)
	plain func(p *plainClient) acquirer
}

const leases = 2

var recipeNames = []string{"mutex", "rwlock", "semaphore", "leader", "multilock"}

var recipes = map[string]kind{
	"mutex":     {most: 1, make: makeMutex, plain: func(p *plainClient) acquirer { return p.exclusive("lock-") }},
	"rwlock":    {most: 1, make: makeRWLock, plain: func(p *plainClient) acquirer { return p.readOrWrite }},
	"semaphore": {most: leases, dirs: []string{"leases", "locks"}, make: makeSemaphore, plain: func(p *plainClient) acquirer { return p.semaphore }},
	"multilock": {most: 1, dirs: []string{"a", "b"}, make: makeMultilock, plain: func(p *plainClient) acquirer { return p.exclusive("lock-") }},
	"delay":     {most: 1, make: makeDelayed, plain: func(p *plainClient) acquirer { return p.exclusive("lock-") }},
	"leader":    {most: 1, make: makeLeader, plain: func(p *plainClient) acquirer { return p.exclusive("latch-") }},
}

// long is enough for everybody to get through when all is well.
const long = 10 * time.Minute

// contend continues until there was peace for one whole round.
func (c *contender) contend() {
	if c.Kind == library {
		var err error
		if c.acquire, err = recipes[c.Recipe].make(c); err != nil {
			c.monitor.fail("simulation", "%v", err)
			return
		}
	} else {
		c.acquire = again(recipes[c.Recipe].plain(&plainClient{c}))
	}
	for !c.calm.Load() {
		if c.Kind == hidden && c.quiet.Load() {
			return // a contender that lists cannot wait for an unreadable node
		}
		c.round()
		pause := upTo(c.random, 10*time.Second)
		if c.Eager && !c.quiet.Load() { // there is nothing to find in holds without faults
			pause = upTo(c.random, 900*time.Millisecond)
		}
		c.sleep(pause, c.over)
	}
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	holds, err := c.acquire(ctx, true)
	if err != nil {
		c.monitor.fail("stuck", "%s does not get through after all is well: %v", c.name, err)
		return
	}
	c.use(holds)
}

// round is one try.
func (c *contender) round() {
	wait, limit := c.random.IntN(6) > 0, 40*time.Second
	switch c.random.IntN(8) {
	case 0, 1:
		limit = upTo(c.random, 3*time.Second)
	case 2:
		limit = long
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if limit < long && c.random.IntN(20) == 0 { // a contender gives up
		time.AfterFunc(upTo(c.random, time.Second), cancel)
	}
	c.monitor.note("%s acquires (wait %v, for %v)", c.name, wait, limit)
	holds, err := c.acquire(ctx, wait)
	if err != nil {
		c.monitor.note("%s: %v", c.name, err)
		c.monitor.count("acquire failed: " + reason(err))
		if c.ACL != "" && errors.Is(err, zk.ErrNoAuth) {
			c.monitor.fail("no auth", "%s asked on a connection whose server has not taken its credentials: %v", c.name, err)
		}
		if limit == long && errors.Is(err, context.DeadlineExceeded) {
			c.monitor.fail("stuck", "%s waits in vain since before all was well: %v", c.name, err)
		}
		return
	}
	c.use(holds)
}

// use is what a holder does.
func (c *contender) use(holds []*held) {
	for _, h := range holds {
		c.monitor.enter(h)
	}
	for i := len(holds) - 1; i >= 0; i-- {
		h := holds[i]
		c.work(h)
		c.end(h)
	}
}

// work is done with a lock.
func (c *contender) work(h *held) {
	ctx, cancel := context.WithTimeout(h.ctx, 30*time.Second)
	defer cancel()
	if c.random.IntN(2) == 0 {
		if token, err := h.token(ctx); err == nil {
			c.monitor.learn(h, token)
		}
	}
	writes := !h.shared && h.guard != nil && c.random.IntN(3) == 0
	if writes {
		c.write(ctx, h)
	}
	stay := upTo(c.random, c.StayMost)
	if c.random.IntN(15) == 0 {
		stay = upTo(c.random, 25*time.Second) // through a fault or two
	}
	if c.calm.Load() {
		stay = min(stay, time.Second)
	}
	if c.MaxHold > 0 && c.random.IntN(4) == 0 {
		// it releases at the moment at which its time is over
		stay = max(0, c.MaxHold-time.Since(h.since))
	}
	c.sleep(stay, h.ctx.Done())
	if pinned := c.monitor.pinOf(h); pinned != nil {
		select {
		case <-pinned:
		case <-h.revoked:
			c.monitor.count("revocations")
		case <-h.ctx.Done():
		}
	}
	if writes && h.ctx.Err() != nil {
		// What a holder does that does not look at its context. The guard decides.
		blind, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c.write(blind, h)
	}
}

// write writes with the guard.
func (c *contender) write(ctx context.Context, h *held) {
	value, err := guardedWrite(ctx, c.client, h.guard(), recipes[c.Recipe].most > 1)
	switch {
	case err == nil:
		c.monitor.wrote(h, value)
	case errors.Is(err, zk.ErrNoNode):
		c.monitor.count("guarded writes refused")
	case retry.Unknown(err):
		c.monitor.count("guarded writes of unknown outcome")
	}
}

// reason is the part of an error that is worth counting.
func reason(err error) string {
	for _, known := range []error{
		framework.ErrSuspended, framework.ErrSessionLost, lock.ErrNodeDeleted, lock.ErrMaxHold, lock.ErrSequenceExhausted, errQueueLost,
		context.DeadlineExceeded, context.Canceled, lock.ErrNotAcquired, retry.ErrExhausted, zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrNoNode, zk.ErrNoServer, zk.ErrConnectionClosed,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// of is a hold of the library.
func (c *contender) of(h *lock.Hold, owner int64, shared bool, node string) *held {
	out := c.hold(h.Context(), int(owner), h.Session(), node)
	out.shared, out.release, out.token, out.guard, out.hold = shared, h.Release, h.FencingToken, h.Guard, h
	out.watches, out.trusting = true, c.Trusting
	if c.Revocable {
		r, err := revocable.Watch(h)
		if err != nil {
			c.monitor.fail("simulation", "%v", err)
			return out
		}
		out.revoked = r.Revoked()
	}
	return out
}

// withNode returns a context that learns the path of the lock's node from the observer: to ask the
// hold for it would keep it from being passed on in memory.
func withNode(ctx context.Context) (context.Context, *string) {
	node := new(string)
	return context.WithValue(ctx, nodeKey{}, node), node
}

func (c *contender) options() (opts []lock.Option) {
	if c.MaxHold > 0 {
		opts = append(opts, lock.WithMaxHold(c.MaxHold))
	}
	if c.Retention > 0 {
		opts = append(opts, lock.WithRetention(c.Retention))
	}
	return opts
}

func makeMutex(c *contender) (acquirer, error) {
	c.user.mu.Lock()
	defer c.user.mu.Unlock()
	m := c.user.mutex
	if m == nil {
		var err error
		if m, err = mutex.New(c.client, lockPath, append(c.options(), lock.WithReentry())...); err != nil {
			return nil, err
		}
		c.user.mutex = m // all goroutines of a client, for the hand-off
	}
	return func(ctx context.Context, wait bool) ([]*held, error) {
		ctx, node := withNode(ctx)
		acquire := either(wait, m.Acquire, m.TryAcquire)
		h, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		first := c.of(h, c.owners.Add(1), false, *node)
		if c.random.IntN(8) == 0 {
			return c.reenter(first, acquire), nil
		}
		return []*held{first}, nil
	}, nil
}

func makeRWLock(c *contender) (acquirer, error) {
	l, err := rwlock.New(c.client, lockPath, c.options()...)
	return func(ctx context.Context, wait bool) ([]*held, error) {
		side, shared := l.Read(), true
		if c.random.IntN(2) == 0 {
			side, shared = l.Write(), false
		}
		h, err := either(wait, side.Acquire, side.TryAcquire)(ctx)
		if err != nil {
			return nil, err
		}
		owner := c.owners.Add(1)
		first := c.of(h, owner, shared, h.Path())
		if shared || c.random.IntN(3) > 0 {
			return []*held{first}, nil
		}
		// A downgrade: the write side is released first, so it is the last.
		r, err := l.Downgrade(h.Context())
		if err != nil {
			c.monitor.count("downgrade failed: " + reason(err))
			return []*held{first}, nil
		}
		c.monitor.count("downgrades")
		return []*held{c.of(r, owner, true, r.Path()), first}, nil
	}, err
}

func makeSemaphore(c *contender) (acquirer, error) {
	s, err := semaphore.New(c.client, lockPath, leases, c.options()...)
	return func(ctx context.Context, wait bool) ([]*held, error) {
		n := 1
		if c.MaxHold == 0 { // or the first lease may end before there is another
			n += c.random.IntN(8) / 7
		}
		if owner := c.owners.Add(1); n == 1 && owner%2 == 0 {
			h, err := either(wait, s.Acquire, s.TryAcquire)(ctx)
			if err != nil {
				return nil, err
			}
			return []*held{c.of(h, owner, false, h.Path())}, nil
		}
		g, err := either(wait, s.AcquireN, s.TryAcquireN)(ctx, n)
		if err != nil {
			return nil, err
		}
		var list []*held
		for _, h := range g.Holds() {
			list = append(list, c.of(h, c.owners.Add(1), false, h.Path()))
		}
		return list, nil
	}, err
}

func makeLeader(c *contender) (acquirer, error) {
	e, err := leader.New(c.client, lockPath)
	return func(ctx context.Context, wait bool) ([]*held, error) {
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return []*held{{
			who: c.name, owner: int(c.owners.Add(1)), ctx: term.Context(), node: term.Path(),
			session: term.Session().ID(), timeout: term.Session().Timeout(),
			release: term.Release, token: term.FencingToken, guard: term.Guard, watches: true,
		}}, nil
	}, err
}
