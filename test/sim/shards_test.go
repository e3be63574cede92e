package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/shard"
)

const (
	shardCount = 7

	// shardGrace is longer than a restart in conclude.
	shardGrace = 2 * time.Minute

	// shardSettling is longer than what follows the end of a grace in conclude.
	shardSettling = 10 * time.Minute
)

// shards are divided among members that join, leave and drain, and whose shards fail. The monitor
// of each shard knows nothing of plans or elections.
type shards struct {
	*world
	monitors [shardCount]*monitor
	members  []*shardMember

	mu    sync.Mutex // guards the rest, and the randomness of members
	calls map[*shardMember]map[int]context.Context
	began int // calls since peace
}

// shardMember is a member that joins again and again.
type shardMember struct {
	*actor
	of      *shards
	serving sync.WaitGroup     // the last Run
	stop    context.CancelFunc // ends it
	terms   map[string]int     // the owner of each term, by the path of its node; guarded by of.mu
}

func (s *shards) start(wg *sync.WaitGroup) error {
	s.calls = make(map[*shardMember]map[int]context.Context)
	for i := range s.monitors {
		s.monitors[i] = s.another(1)
	}
	for _, a := range s.actors("member", 1) {
		m := &shardMember{actor: a, of: s, terms: make(map[string]int)}
		s.members = append(s.members, m)
		s.calls[m] = make(map[int]context.Context)
		wg.Go(m.serve)
	}
	return nil
}

// draw calls f with the randomness of the member, which several functions share.
func (m *shardMember) draw(f func() time.Duration) time.Duration {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	return f()
}

// one reports whether a member does what it does once in n times.
func (m *shardMember) one(n int) bool {
	return m.draw(func() time.Duration { return time.Duration(m.random.IntN(n)) }) == 0
}

func (m *shardMember) upTo(most time.Duration) time.Duration {
	return m.draw(func() time.Duration { return upTo(m.random, most) })
}

// serve runs with an id of its own, and leaves or drains. After peace it runs until stop is
// called.
func (m *shardMember) serve() {
	m.repeat(3*time.Second, time.Minute, func(ctx context.Context) {
		opts := m.of.options()
		if m.one(3) {
			opts = append(opts, shard.WithMaxMoves(1))
		}
		member, err := shard.New(m.client, "/sim/shards", m.name, shardCount, opts...)
		if err != nil {
			m.monitor.fail("shards", "%s: %v", m.name, err)
			return
		}
		var draining sync.WaitGroup
		if m.one(2) {
			draining.Go(func() {
				m.sleep(m.upTo(30*time.Second), ctx.Done())
				if err := member.Drain(ctx); err == nil {
					m.monitor.count("members drained")
				}
			})
		}
		err = member.Run(ctx, m.work)
		draining.Wait()
		m.monitor.count("members that ran")
		if err != nil && ctx.Err() == nil {
			m.monitor.count("member ended: " + reason(err))
		}
	})
	m.once("Run", func(context.Context) error { return m.run() })
}

// options returns the options of all members: in every second world with shards they have a grace.
func (s *shards) options() []shard.Option {
	switch {
	case s.settles():
		return []shard.Option{shard.WithGrace(shardGrace), shard.WithSettling(shardSettling)}
	case s.graceful():
		return []shard.Option{shard.WithGrace(shardGrace)}
	}
	return nil
}

func (s *shards) graceful() bool { return s.Seed%2 == 0 }

// settles reports whether plans wait for newcomers, in every fourth world.
func (s *shards) settles() bool { return s.Seed%4 == 0 }

// run runs the member until stop is called.
func (m *shardMember) run() error {
	member, err := shard.New(m.client, "/sim/shards", m.name, shardCount, m.of.options()...)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.serving.Go(func() {
		if err := member.Run(running, m.work); !errors.Is(err, context.Canceled) {
			m.monitor.fail("shards", "%s: %v", m.name, err)
		}
	})
	return nil
}

// work is the function of a shard.
func (m *shardMember) work(ctx context.Context, index int) error {
	var running atomic.Bool
	running.Store(true)
	term := shard.Term(ctx)
	h := m.hold(ctx, m.owner(term.Path()), term.Session(), term.Path())
	h.believe = func() bool {
		if ctx.Err() == nil {
			return true
		}
		// The shard is released when the function has returned, unless the session ends.
		lost := errors.Is(context.Cause(ctx), framework.ErrLost) || errors.Is(context.Cause(ctx), framework.ErrClosed)
		return running.Load() && !lost && m.serves(h.session)
	}
	m.of.monitors[index].enter(h)
	defer m.of.monitors[index].leave(h)
	defer running.Store(false)
	m.note(index, ctx)
	defer m.note(index, nil)
	if m.one(3) {
		if token, err := term.FencingToken(ctx); err == nil {
			m.of.monitors[index].learn(h, token)
		}
	}
	if m.calm.Load() {
		<-ctx.Done()
		return nil
	}
	switch {
	case m.one(20):
		m.sleep(m.upTo(10*time.Second), ctx.Done())
		m.monitor.count("shards that failed")
		return errEnough
	case m.one(5):
		m.sleep(m.upTo(10*time.Second), ctx.Done())
	default:
		<-ctx.Done()
	}
	if m.one(3) {
		m.sleep(m.upTo(3*time.Second), nil) // what a function does that is slow to end
	}
	return nil
}

// owner returns the owner of a term. A function that has failed is called again in the same term.
func (m *shardMember) owner(path string) int {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if m.terms[path] == 0 {
		m.terms[path] = int(m.owners.Add(1))
	}
	return m.terms[path]
}

// note notes that the function of a shard begins with ctx, or for nil that it ends.
func (m *shardMember) note(index int, ctx context.Context) {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if ctx == nil {
		delete(m.of.calls[m], index)
		return
	}
	if m.of.calls[m][index] != nil {
		m.monitor.fail("shards", "%s: two calls for shard %d", m.name, index)
	}
	m.of.calls[m][index] = ctx
	m.of.began++
	m.monitor.count("shards owned")
}

// require requires that the members own all shards, in equal numbers but for one, and returns the
// calls so far.
func (s *shards) require(members []*shardMember, when string) (began int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []int
	owned := make(map[int]bool)
	for _, m := range members {
		n := 0
		for index, ctx := range s.calls[m] {
			if ctx.Err() == nil {
				n++
				owned[index] = true
			}
		}
		counts = append(counts, n)
	}
	if len(owned) != shardCount || slices.Max(counts)-slices.Min(counts) > 1 {
		s.monitor.fail("shards", "%s members own %v", when, counts)
	}
	return s.began
}

// owners returns the name of the owner of each shard.
func (s *shards) owners() (owners [shardCount]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m, calls := range s.calls {
		for index, ctx := range calls {
			if ctx.Err() == nil {
				owners[index] = m.name
			}
		}
	}
	return owners
}

// conclude requires that the shards are balanced, and that no others move when a member leaves.
// With a grace the shards of that member are owned by none until it is back, and none moves.
func (s *shards) conclude() {
	var all []*shardMember
	for _, m := range s.members {
		if m.stop != nil {
			all = append(all, m)
		}
	}
	defer func() {
		for _, m := range all {
			m.stop()
		}
		for _, m := range all {
			m.serving.Wait()
		}
	}()
	if len(all) < len(s.members) {
		return // which was a failure
	}
	time.Sleep(40 * time.Second) // virtual time: longer than any session
	if s.settles() {
		time.Sleep(5 * shardSettling) // virtual time: a planner that has just started waits for that at most
	}
	began := s.require(all, "in peace")
	before := s.owners()
	all[0].stop()
	all[0].serving.Wait()
	pause := time.Second + 20*(s.Lag+s.Latency+s.MemberLatency)
	time.Sleep(pause) // virtual time
	if s.graceful() {
		away := s.owners()
		if err := all[0].run(); err != nil {
			s.monitor.fail("shards", "%v", err)
		}
		time.Sleep(pause) // virtual time
		after := s.owners()
		for index := range before {
			if gone := before[index] == all[0].name; gone && away[index] != "" || !gone && away[index] != before[index] || after[index] != before[index] {
				s.monitor.fail("shards", "a restart of %s moves shards: from %q to %q to %q", all[0].name, before, away, after)
				break
			}
		}
		s.monitor.count("restarts with a grace")
		if !s.settles() {
			return
		}
		all[0].stop()
		all[0].serving.Wait()
		time.Sleep(shardGrace + pause) // virtual time: the grace, and the planner's pause
		s.require(all[1:], fmt.Sprintf("when the grace of one of %d is over,", len(all)))
		return
	}
	moved := s.require(all[1:], fmt.Sprintf("when one of %d has left,", len(all))) - began
	if most := (shardCount + len(all) - 1) / len(all); moved > most {
		s.monitor.fail("shards", "%d of %d moved when one of %d members left", moved, shardCount, len(all))
	}
}
