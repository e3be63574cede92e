package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/matrix"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/modeled"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/shard"
	"github.com/gocurator/curator/recipes/shared"
)

var leaderStories = []matrix.Story{
	{Name: "election", Run: campaigns(), Join: candidate(), Lookalikes: []string{lookalike + "latch-0000000000"}},
	{Name: "election with a selector", Run: campaigns(leader.WithSelector()), Join: candidate(leader.WithSelector()), Lookalikes: []string{lookalike + "lock-0000000000"}},
	{Name: "election with Run", Run: leads, Join: candidate(), Lookalikes: []string{lookalike + "latch-0000000000"}},
}

func candidate(opts ...leader.Option) func(s *matrix.Scene, client *framework.Client, id string) (func(), error) {
	return func(s *matrix.Scene, client *framework.Client, id string) (func(), error) {
		e, err := leader.New(client, s.Path, append(opts, leader.WithID(s.Name(id)))...)
		if err != nil {
			return nil, err
		}
		task := s.Go(func() error {
			return e.Run(s.Peer, func(ctx context.Context, _ *leader.Term) error {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
				return nil
			})
		})
		return func() { _ = task.Wait() }, nil // the others decide
	}
}

// campaigns has A lead, B wait, A resign, B lead, and A lose its session while it leads. Then both
// lead once more.
func campaigns(opts ...leader.Option) func(s *matrix.Scene) error {
	return func(s *matrix.Scene) error {
		a, err := leader.New(s.A, s.Path, append(opts, leader.WithID(s.Name("a")))...)
		s.Require(err)
		b, err := leader.New(s.B, s.Path, append(opts, leader.WithID(s.Name("b")))...)
		s.RequireOther(err)
		term, err := a.Campaign(s.Ctx)
		s.Require(err)
		defer term.Release()
		s.Middle()
		waiting := s.Go(func() error {
			second, err := b.Campaign(s.Peer)
			s.Require(err)
			alone(s, term)
			return second.Release()
		})
		s.Sleep(time.Second)
		if p, err := b.Leader(s.Peer); err != nil && !errors.Is(err, leader.ErrNoLeader) {
			return s.Other(err)
		} else if err == nil && term.Err() == nil && !s.Forced() {
			s.Check(p.ID == s.Name("a") || p.ID == "member0" || term.Err() != nil, "the leader is %q", p.ID)
		}
		s.Require(term.Release())
		s.RequireOther(waiting.Wait())
		last, err := a.Campaign(s.Ctx)
		s.Require(err)
		defer last.Release()
		s.Require(s.Expire())
		s.Await(last.Done())
		s.RequireOther(b.Lead(s.Peer, func(ctx context.Context, _ *leader.Term) error { return ctx.Err() }))
		return a.Lead(s.Ctx, func(ctx context.Context, _ *leader.Term) error { return ctx.Err() })
	}
}

// leads has A run until it is cancelled, and B after it. A third loop observes.
func leads(s *matrix.Scene) error {
	a, err := leader.New(s.A, s.Path, leader.WithID(s.Name("a")))
	s.Require(err)
	b, err := leader.New(s.B, s.Path, leader.WithID(s.Name("b")))
	s.RequireOther(err)
	watched, stop := context.WithCancel(s.Peer)
	defer stop()
	observer := s.Go(func() error {
		for _, err := range b.Observe(watched) {
			if err != nil && watched.Err() == nil {
				return err
			}
		}
		return nil
	})
	errDone := errors.New("done")
	began := make(chan struct{})
	first := s.Go(func() error {
		once := sync.OnceFunc(func() { close(began) })
		return a.Run(s.Ctx, func(ctx context.Context, _ *leader.Term) error {
			once()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(5 * time.Second):
				return errDone
			}
		})
	})
	_ = s.Eventually(s.Ctx, "a term", func() bool {
		select {
		case <-began:
			return true
		default:
			return first.Ended()
		}
	})
	s.Middle()
	err = b.Lead(s.Peer, func(ctx context.Context, _ *leader.Term) error { return ctx.Err() })
	if mine := first.Wait(); !errors.Is(mine, errDone) {
		return mine
	}
	s.RequireOther(err)
	stop()
	return s.Other(observer.Wait())
}

var cacheStories = []matrix.Story{
	{Name: "cache", Run: follows(), Remains: []string{"/k*"}},
	{Name: "cache without data", Run: follows(cache.WithoutData()), Remains: []string{"/k*"}},
	{Name: "cache of values", Run: values, Remains: []string{"/k*"}},
}

// follows has A follow what B writes, before and after the loss of A's session.
func follows(opts ...cache.Option) func(s *matrix.Scene) error {
	return func(s *matrix.Scene) error {
		one, two := s.Path+"/k1", s.Path+"/k2"
		_, err := s.B.Create(s.Peer, one, []byte("1"), framework.OrSet(), framework.PersistentParents())
		s.RequireOther(err)
		c, err := cache.New(s.A, s.Path, opts...)
		s.Require(err)
		defer c.Close()
		s.Require(c.Sync(s.Ctx))
		s.Middle()
		_, err = s.B.Create(s.Peer, two, []byte("2"), framework.OrSet())
		s.RequireOther(err)
		s.Require(c.Sync(s.Ctx))
		n, ok := c.Get(two)
		s.Check(ok && (len(opts) > 0 || string(n.Data) == "2" || s.Forced()), "the cache does not show what was written: %v %q", ok, n.Data)
		s.Require(s.Expire())
		_, err = s.B.Set(s.Peer, two, []byte("3"))
		s.RequireOther(err)
		s.Require(c.Sync(s.Ctx))
		n, ok = c.Get(two)
		s.Check(ok && (len(opts) > 0 || string(n.Data) == "3" || s.Forced()), "the cache does not show what was written in an outage: %v %q", ok, n.Data)
		s.RequireOther(s.B.Delete(s.Peer, two))
		s.Require(c.Sync(s.Ctx))
		_, ok = c.Get(two)
		s.Check(!ok, "the cache shows what was deleted")
		return c.Close()
	}
}

func values(s *matrix.Scene) error {
	_, err := s.B.Create(s.Peer, s.Path+"/k1", []byte("1"), framework.OrSet(), framework.PersistentParents())
	s.RequireOther(err)
	c, err := cache.New(s.A, s.Path)
	s.Require(err)
	defer c.Close()
	v, err := cache.NewValues(c, cache.JSON[int])
	s.Require(err)
	s.Require(v.Sync(s.Ctx))
	s.Middle()
	_, err = s.B.Create(s.Peer, s.Path+"/k2", []byte("2"), framework.OrSet())
	s.RequireOther(err)
	s.Require(v.Sync(s.Ctx))
	two, ok := v.Get(s.Path + "/k2")
	s.Check(ok && two.Value == 2 && two.Err == nil, "the value is %v", two)
	return c.Close()
}

var nodeStories = []matrix.Story{
	{Name: "kept node", Run: keeps("/n"), Lookalikes: []string{"/n"}},
	{Name: "kept node that replaces", Run: keeps("/n", node.WithIfTaken(node.Replace)), Lookalikes: []string{"/n"}},
	{Name: "kept node that fails", Run: keeps("/n", node.WithIfTaken(node.Fail)), Lookalikes: []string{"/n"}},
	{Name: "kept persistent node", Run: keeps("/n", node.WithPersistence())},
	{Name: "kept protected node", Run: keeps("/n-", node.WithProtection(), node.WithSequence()), Lookalikes: []string{lookalike + "n-0000000000"}},
	{Name: "kept node with a TTL", Run: keeps("/n", node.WithTTL(time.Minute)), Remains: []string{"/n*"}},
	{Name: "group", Run: joins, Join: func(s *matrix.Scene, client *framework.Client, id string) (func(), error) {
		m, err := node.Join(s.Peer, client, s.Path, s.Name(id), []byte(id))
		if err != nil {
			return nil, err
		}
		return func() { _ = m.Close() }, nil // the others decide
	}},
}

// keeps has A keep a node, lose its session, and close it. B sees the data.
func keeps(name string, opts ...node.Option) func(s *matrix.Scene) error {
	return func(s *matrix.Scene) error {
		n, err := node.Keep(s.Ctx, s.A, s.Path+name, []byte("one"), opts...)
		s.Require(err)
		defer n.Close()
		s.Middle()
		s.Require(n.Set(s.Ctx, []byte("two")))
		has := func(what string) { // B sees the data
			s.Require(s.CatchUp())
			data, _, err := s.B.Get(s.Peer, n.Path())
			s.Require(n.Err())
			if !s.Forced() {
				s.RequireOther(err)
				s.Check(string(data) == "two", "%s has %q", what, data)
			}
		}
		has("the node")
		s.Require(s.Expire())
		if err := s.Eventually(s.Ctx, "the node", func() bool { there, _ := n.Present(); return there || n.Err() != nil }); err != nil {
			return errors.Join(err, n.Problem())
		}
		has("the recreated node")
		return n.Close()
	}
}

// joins has A and B be members of a group.
func joins(s *matrix.Scene) error {
	b, err := node.Join(s.Peer, s.B, s.Path, s.Name("b"), []byte("beta"))
	s.RequireOther(err)
	defer b.Close()
	a, err := node.Join(s.Ctx, s.A, s.Path, s.Name("a"), []byte("alpha"))
	s.Require(err)
	defer a.Close()
	sees := func(data string) {
		s.RequireOther(s.Eventually(s.Peer, "A among B's members, with "+data, func() bool {
			return string(b.Members()[s.Name("a")]) == data || a.Err() != nil
		}))
	}
	sees("alpha")
	s.Require(a.Err())
	s.Middle()
	s.Require(s.Expire())
	s.Require(a.Set(s.Ctx, []byte("again")))
	sees("again")
	s.Require(a.Close())
	s.RequireOther(s.Eventually(s.Peer, "B without A", func() bool { _, ok := b.Members()[s.Name("a")]; return !ok }))
	return s.Other(b.Close())
}

var sharedStories = []matrix.Story{
	{Name: "shared number", Run: func(s *matrix.Scene) error { return counts(s) }, Values: []string{"/v"}, Remains: []string{"/v"}},
	{Name: "shared number with a mutex", Run: func(s *matrix.Scene) error {
		return counts(s, shared.WithMutex(s.Path+"/lock"))
	}, Values: []string{"/v"}, Remains: []string{"/v"}},
	{Name: "shared bytes", Run: swaps, Values: []string{"/v"}, Remains: []string{"/v"}},
	{Name: "shared JSON", Run: documents, Values: []string{"/v"}, Remains: []string{"/v"}},
}

// counts has A and B add, and counts the confirmed additions.
func counts(s *matrix.Scene, opts ...shared.Option) error {
	a, b := both(s, func(client *framework.Client) (*shared.Value[int64], error) {
		return shared.Int64(client, s.Path+"/v", opts...)
	})
	before, _, err := b.Get(s.Peer)
	s.RequireOther(err)
	add := func(x int64) (int64, error) { return x + 1, nil }
	_, err = a.Update(s.Ctx, add)
	s.Require(err)
	s.Middle()
	beside := s.Go(func() error {
		for range 5 {
			_, err := b.Update(s.Peer, add)
			s.Require(err)
		}
		return nil
	})
	for range 5 {
		if _, err := a.Update(s.Ctx, add); err != nil {
			return matrix.First(err, beside.Wait())
		}
	}
	s.RequireOther(beside.Wait())
	first, err := shared.Reserve(s.Ctx, a, 10)
	s.Require(err)
	s.Check(first == before+11 || s.Forced(), "after 11 increments of %d the next number is %d", before, first)
	return nil
}

// swaps has A compare and swap, and B observe.
func swaps(s *matrix.Scene) error {
	a, b := both(s, func(client *framework.Client) (*shared.Value[[]byte], error) {
		return shared.Bytes(client, s.Path+"/v")
	})
	s.Require(a.Set(s.Ctx, []byte("one")))
	s.Middle()
	_, version, err := a.Get(s.Ctx)
	s.Require(err)
	s.Require(a.CompareAndSwap(s.Ctx, version, []byte("two")))
	for x, err := range b.Observe(s.Peer) {
		if err != nil {
			return s.Other(err)
		}
		if string(x) == "two" {
			break
		}
	}
	s.RequireOther(b.Set(s.Peer, []byte("three")))
	err = a.CompareAndSwap(s.Ctx, version, []byte("four"))
	s.Check(err != nil, "an old version is swapped")
	if errors.Is(err, shared.ErrChanged) {
		return nil
	}
	return err
}

func documents(s *matrix.Scene) error {
	type document struct{ Text string }
	a, err := shared.JSON[document](s.A, s.Path+"/v")
	s.Require(err)
	s.Require(a.Set(s.Ctx, document{s.Name("text")}))
	s.Middle()
	x, err := a.Update(s.Ctx, func(d document) (document, error) { return document{d.Text + "!"}, nil })
	s.Require(err)
	s.Check(x.Text == s.Name("text")+"!" || s.Forced(), "the document is %q", x.Text)
	return nil
}

var barrierStories = []matrix.Story{
	{Name: "barrier", Run: blocks, None: true},
	{Name: "double barrier", Run: enters, Lookalikes: []string{"/5e3d2f5e-0000-4000-8000-000000000003"}},
}

func blocks(s *matrix.Scene) error {
	a, b := both(s, func(client *framework.Client) (*barrier.Barrier, error) { return barrier.New(client, s.Path) })
	s.RequireOther(b.Set(s.Peer))
	removed := false
	waiting := s.Go(func() error {
		err := a.Wait(s.Ctx)
		s.Check(err != nil || removed || s.Forced(), "the barrier is open")
		return err
	})
	s.Sleep(time.Second)
	s.Middle()
	removed = true
	_, err := b.Remove(s.Peer)
	s.RequireOther(err)
	return waiting.Wait()
}

// enters has two members start and finish together, twice.
func enters(s *matrix.Scene) error {
	a, b := both(s, func(client *framework.Client) (*barrier.Double, error) {
		return barrier.NewDouble(client, s.Path, 2)
	})
	round := func(ctx context.Context, d *barrier.Double) error {
		e, err := d.Enter(ctx)
		if err != nil {
			return err
		}
		return e.Leave(ctx)
	}
	peer, stop := context.WithCancel(s.Peer)
	defer stop() // a round of B ends with the round of A, which alone cannot enter
	for range 2 {
		beside := s.Go(func() error { return round(peer, b) })
		s.Sleep(time.Second)
		s.Middle()
		s.Require(round(s.Ctx, a))
		s.RequireOther(beside.Wait())
	}
	return nil
}

var shardStories = []matrix.Story{{
	Name: "shards", Run: divides, Dirs: []string{"/members", "/planner", "/shards", "/shards/0", "/shards/1", "/shards/2", "/shards/3"}, Values: []string{"/plan"}, Remains: []string{"/plan"},
	LookalikeData: `{"weight":1}`,
	Lookalikes:    []string{"/members/other", "/planner" + lookalike + "latch-0000000000", "/shards/0" + lookalike + "latch-0000000000"},
	Join: func(s *matrix.Scene, client *framework.Client, id string) (func(), error) {
		m, err := shard.New(client, s.Path, s.Name(id), 4)
		if err != nil {
			return nil, err
		}
		task := s.Go(func() error { return m.Run(s.Peer, until) })
		return func() { _ = task.Wait() }, nil // the others decide
	},
}}

// until works until the shard is lost.
func until(ctx context.Context, _ int) error {
	<-ctx.Done()
	return nil
}

// divides has A and B divide four shards. A drains, and B has all.
func divides(s *matrix.Scene) error {
	const shards = 4
	var mu sync.Mutex
	owners := map[int]context.Context{}
	work := func(ctx context.Context, n int) error {
		mu.Lock()
		if other := owners[n]; other != nil && other.Err() == nil && !s.Forced() {
			s.Check(false, "shard %d has two owners", n)
		}
		owners[n] = ctx
		mu.Unlock()
		return until(ctx, n)
	}
	b, err := shard.New(s.B, s.Path, s.Name("b"), shards)
	s.RequireOther(err)
	peer, stop := context.WithCancel(s.Peer)
	beside := s.Go(func() error { return b.Run(peer, work) })
	defer func() {
		stop()
		_ = beside.Wait() // it was stopped
	}()
	a, err := shard.New(s.A, s.Path, s.Name("a"), shards)
	s.Require(err)
	mine := s.Go(func() error { return a.Run(s.Ctx, work) })
	ended := func() error {
		if beside.Ended() {
			return s.Other(matrix.First(beside.Wait(), errors.New("Run has returned")))
		}
		if mine.Ended() {
			return matrix.First(mine.Wait(), nil)
		}
		return nil
	}
	all := func(names ...*shard.Member) func() bool {
		return func() bool {
			var owned []int
			for _, m := range names {
				owned = append(owned, m.Owned()...)
			}
			slices.Sort(owned)
			return s.Crowded() || slices.Equal(owned, []int{0, 1, 2, 3}) || beside.Ended() || mine.Ended() && len(names) > 1
		}
	}
	if err := s.Eventually(s.Ctx, "the shards", all(a, b)); err != nil || ended() != nil {
		_ = mine // it ends with s.Ctx
		return matrix.First(ended(), err)
	}
	s.Middle()
	s.Sleep(30 * time.Second)
	if err := s.Eventually(s.Ctx, "the shards after the middle", all(a, b)); err != nil || ended() != nil {
		return matrix.First(ended(), err)
	}
	s.Require(a.Drain(s.Ctx))
	s.Require(mine.Wait())
	if err := s.Eventually(s.Peer, "all shards of B", all(b)); err != nil || beside.Ended() {
		return s.Other(matrix.First(err, fmt.Errorf("B has left: %w", beside.Wait())))
	}
	return nil
}

var modeledStories = []matrix.Story{
	{Name: "typed nodes", Run: typed(), Remains: []string{"/ann*", "/bob*"}, Values: []string{"/ann"}, Lookalikes: []string{"/carl"}},
	{
		Name: "typed nodes, compressed", Run: typed(modeled.WithCodec(modeled.Compressed[user](modeled.JSON[user]{}))),
		Remains: []string{"/ann*", "/bob*"},
	},
}

type user struct{ Age int }

// typed has A write, and B list and view.
func typed(opts ...modeled.Option) func(s *matrix.Scene) error {
	return func(s *matrix.Scene) error {
		a, b := both(s, func(client *framework.Client) (*modeled.Nodes[user], error) {
			return modeled.New[user](client, s.Path, opts...)
		})
		ann, bob := s.Name("ann"), s.Name("bob")
		_, err := a.Set(s.Ctx, ann, user{1})
		s.Require(err)
		if err := a.Create(s.Ctx, bob, user{2}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		s.Middle()
		u, err := a.Update(s.Ctx, ann, func(u user) (user, error) { return user{u.Age + 1}, nil })
		s.Require(err)
		s.Check(u.Age == 2 || s.Forced(), "ann is %v", u)
		s.Require(s.CatchUp())
		list, err := b.List(s.Peer)
		s.RequireOther(err)
		s.Check(slices.ContainsFunc(list, func(e modeled.Entry[user]) bool { return e.Name == ann && e.Value == u && e.Err == nil }) || s.Forced(), "List has %v", list)
		view, err := b.View(s.Peer)
		s.RequireOther(err)
		defer view.Close()
		e, ok := view.Get(ann)
		s.Check(ok && e.Value == u || s.Forced(), "the view has %v", e)
		s.Require(a.Delete(s.Ctx, bob, framework.Idempotent()))
		s.RequireOther(view.Sync(s.Peer))
		_, ok = view.Get(bob)
		s.Check(!ok, "the view has bob")
		return nil
	}
}
