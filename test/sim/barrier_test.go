package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/barrier"
)

// barriers is members of double barriers, one after the other, and others that wait at a barrier
// that one of them sets.
type barriers struct {
	*world
	n int // members

	mu      sync.Mutex // guards what follows
	newest  int
	coming  map[int]map[string]bool           // by round: callers of Enter
	inside  map[int]map[string]*barrier.Entry // by round: members between Enter and Leave
	gate    int                               // the number of the path at which the barrier is
	closed  int                               // confirmed sets of the barrier; 0 while uncertain
	sets    int
	removed bool // for good
}

func (b *barriers) start(wg *sync.WaitGroup) error {
	b.coming, b.inside = make(map[int]map[string]bool), make(map[int]map[string]*barrier.Entry)
	actors := b.actors("member", 1)
	b.n = len(actors)
	for _, a := range actors {
		wg.Go(func() { b.member(a) })
	}
	waiters := b.actors("waiter", 1)
	for _, a := range waiters[1:] {
		wg.Go(func() { b.wait(a) })
	}
	wg.Go(func() { b.set(waiters[0]) })
	return nil
}

// member enters and leaves, each round at its own path. A late member continues with the newest
// round.
func (b *barriers) member(a *actor) {
	last := 0
	a.repeat(2*time.Second, 20*time.Second, func(ctx context.Context) {
		b.mu.Lock()
		round := max(last+1, b.newest)
		b.newest = round
		b.mu.Unlock()
		last = round
		if err := b.round(ctx, a, round); err != nil {
			a.monitor.count("double barrier: " + reason(err))
			return
		}
		a.monitor.count("double barriers")
	})
	a.once("a double barrier", func(ctx context.Context) error { return b.round(ctx, a, 0) })
}

// round is one double barrier. No member enters before all have called Enter. No member leaves
// while another that was inside at the time is still inside.
func (b *barriers) round(ctx context.Context, a *actor, round int) error {
	d, err := barrier.NewDouble(a.client, fmt.Sprintf("/sim/barriers/%d", round), b.n)
	if err != nil {
		return err
	}
	b.come(round, a)
	e, err := d.Enter(ctx)
	if err != nil {
		return err
	}
	b.enter(round, a, e)
	a.sleep(upTo(a.random, 2*time.Second), e.Context().Done())
	limit := 20 * time.Second
	if a.calm.Load() {
		limit = long
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	others := b.leave(round, a)
	if err := e.Leave(ctx); err != nil {
		return err
	}
	b.through(round, a, others)
	return nil
}

func (b *barriers) come(round int, a *actor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.coming[round] == nil {
		b.coming[round], b.inside[round] = make(map[string]bool), make(map[string]*barrier.Entry)
	}
	b.coming[round][a.name] = true
}

func (b *barriers) enter(round int, a *actor, e *barrier.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.coming[round]) < b.n {
		a.monitor.fail("barrier", "%s is inside in round %d with %v of %d", a.name, round, b.coming[round], b.n)
	}
	b.inside[round][a.name] = e
}

// leave returns who else is inside.
func (b *barriers) leave(round int, a *actor) map[string]*barrier.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.inside[round], a.name)
	return maps.Clone(b.inside[round])
}

func (b *barriers) through(round int, a *actor, others map[string]*barrier.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, e := range others {
		if b.inside[round][name] == e && e.Context().Err() == nil && !b.forced() {
			a.monitor.fail("barrier", "%s is through in round %d while %s is inside", a.name, round, name)
		}
	}
}

// forced reports whether some session was ended by force a moment ago: a member is not notified at
// once that it is inside no more.
func (b *barriers) forced() bool {
	return slices.ContainsFunc(b.clients, func(u *user) bool { return u.wasEnded(u.Session + 10*time.Second) })
}

// set sets and removes the barrier. After an error it is not certain whether that was done, and
// another path is used.
func (b *barriers) set(a *actor) {
	a.repeat(4*time.Second, 10*time.Second, func(ctx context.Context) { _ = b.setOnce(ctx, a) })
	a.once("a barrier", func(ctx context.Context) error { return b.setOnce(ctx, a) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removed = true
}

func (b *barriers) setOnce(ctx context.Context, a *actor) (err error) {
	b.mu.Lock()
	path := fmt.Sprintf("/sim/gate%d", b.gate)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.closed = 0
		if err != nil {
			b.gate++
			a.monitor.count("barrier: " + reason(err))
		}
	}()
	x, err := barrier.New(a.client, path)
	if err != nil {
		return err
	}
	if err := x.Set(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	b.sets++
	b.closed = b.sets
	b.mu.Unlock()
	a.monitor.count("barriers set")
	a.sleep(upTo(a.random, 5*time.Second), nil)
	b.mu.Lock()
	b.closed = 0
	b.mu.Unlock()
	found, err := x.Remove(ctx)
	if err == nil && !found {
		a.monitor.fail("barrier", "%s is not set when it is removed", path)
	}
	return err
}

// wait waits at the barrier. If it was set before and still is, no waiter passes.
func (b *barriers) wait(a *actor) {
	a.repeat(2*time.Second, 10*time.Second, func(ctx context.Context) {
		if err := b.waitOnce(ctx, a); err != nil {
			a.monitor.count("wait at a barrier: " + reason(err))
		}
	})
	a.once("Wait", func(ctx context.Context) error {
		for !b.isRemoved() {
			a.sleep(time.Second, nil)
		}
		return b.waitOnce(ctx, a)
	})
}

func (b *barriers) isRemoved() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.removed
}

func (b *barriers) waitOnce(ctx context.Context, a *actor) error {
	b.mu.Lock()
	path, before := fmt.Sprintf("/sim/gate%d", b.gate), b.closed
	b.mu.Unlock()
	x, err := barrier.New(a.client, path)
	if err != nil {
		return err
	}
	if err = x.Wait(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if before != 0 && b.closed == before {
		a.monitor.fail("barrier", "%s passes %s, which is set", a.name, path)
	}
	return nil
}

func (b *barriers) conclude() {
	names, err := b.leader().Children("/sim/barriers/0")
	if err == nil && len(names) > 0 {
		b.monitor.fail("barrier", "%v stay of a double barrier that all have left", names)
	}
}
