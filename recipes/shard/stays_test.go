package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/shard"
	"github.com/gocurator/curator/zktest"
)

// Each member of four restarts once. Without a grace 32 of 16 shards move, with one none does.
func TestWithGrace_ARollingRestartMovesNothing(t *testing.T) {
	for grace, want := range map[time.Duration]int{0: 32, 30 * time.Second: 0} {
		virtual(t, func(w world) {
			var opts []shard.Option
			if grace > 0 {
				opts = append(opts, shard.WithGrace(grace))
			}
			ids, running := []string{"a", "b", "c", "d"}, make(map[string]member)
			for _, id := range ids {
				running[id] = w.join(id, 16, opts...)
			}
			w.settled(map[string]int{"a": 4, "b": 4, "c": 4, "d": 4})
			w.oracle.takeMoves()
			for _, id := range ids {
				_ = running[id].leave()
				if time.Sleep(5 * time.Second); grace > 0 { // in virtual time
					require.Zero(w, w.oracle.owned()[id])
					for _, other := range running {
						if other.ID() != id && w.now(other).Owned != nil {
							require.Equal(w, []string{id}, w.now(other).Away)
							require.NotContains(w, w.now(other).Members, id)
						}
					}
				}
				running[id] = w.join(id, 16, opts...)
				w.settled(map[string]int{"a": 4, "b": 4, "c": 4, "d": 4})
			}
			require.Equal(w, want, w.oracle.takeMoves())
		}, zktest.WithLatency(time.Millisecond))
	}
}

// The grace is over: the shards go to the others. It counts from the departure, even if planners
// follow each other.
func TestWithGrace_Ends(t *testing.T) {
	for name, planners := range map[string]bool{"one planner": false, "the planner leaves meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w world) {
				a := w.join("a", 12, shard.WithGrace(time.Hour)) // the planner
				w.settled(map[string]int{"a": 12})
				client, die := w.mortal()
				w.joinWith(client, "b", 12, w.oracle.work("b"), shard.WithGrace(time.Minute))
				w.join("c", 12, shard.WithGrace(time.Hour))
				w.settled(map[string]int{"a": 4, "b": 4, "c": 4})
				w.oracle.takeMoves()
				die()                        // its session of 10 s expires
				time.Sleep(40 * time.Second) // in virtual time
				if planners {
					_ = a.leave()
					w.join("a", 12, shard.WithGrace(time.Hour))
				}
				time.Sleep(25 * time.Second) // in virtual time: 65 s after the death, 55 after the expiry
				require.Zero(w, w.oracle.takeMoves(), "within the grace")
				time.Sleep(10 * time.Second) // in virtual time
				w.settled(map[string]int{"a": 6, "c": 6})
				require.Equal(w, 4, w.oracle.takeMoves())
			})
		})
	}
}

// mortal returns a client, and a function that ends its network for good.
func (w world) mortal() (client *framework.Client, die func()) {
	var dead atomic.Bool
	client = w.client(framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if dead.Load() {
			return nil, errors.New("crashed")
		}
		return w.server.DialContext(ctx, network, address)
	}))
	return client, func() {
		session := testbed.Session(w.T, client)
		dead.Store(true)
		w.server.Freeze(session.ID())
	}
}

// A newcomer takes its share from the members that are present.
func TestWithGrace_ANewcomerTakesNothingThatIsReserved(t *testing.T) {
	virtual(t, func(w world) {
		a, _ := w.joinBoth(12, shard.WithGrace(time.Minute))
		before := w.now(a).Owned
		_ = a.leave()
		w.join("c", 12)
		time.Sleep(time.Second) // in virtual time
		w.settled(map[string]int{"b": 3, "c": 3})
		require.Equal(w, 3, w.oracle.takeMoves())
		w.join("a", 12, shard.WithGrace(time.Minute))
		w.settled(map[string]int{"a": 4, "b": 4, "c": 4})
		require.Equal(w, 2, w.oracle.takeMoves(), "of 6 that it had %v", before)
	})
}

// Drain has no grace, whatever the option says.
func TestWithGrace_DrainHasNone(t *testing.T) {
	virtual(t, func(w world) {
		a, b := w.joinBoth(8, shard.WithGrace(time.Hour))
		require.NoError(w, b.Drain(testbed.Context(w.T)))
		w.settled(map[string]int{"a": 8})
		require.NoError(w, a.Drain(testbed.Context(w.T)), "the last one")
		w.join("c", 8)
		w.settled(map[string]int{"c": 8})
	})
}

// All members restart, after an outage that has ended all sessions: each has its shards again.
func TestWithGrace_AllRestart(t *testing.T) {
	virtual(t, func(w world) {
		with := shard.WithGrace(10 * time.Minute)
		a, b, c := w.join("a", 12, with), w.join("b", 12, with), w.join("c", 12, with)
		w.settled(map[string]int{"a": 4, "b": 4, "c": 4})
		w.oracle.takeMoves()
		w.server.Freeze()
		time.Sleep(2 * time.Minute) // in virtual time
		w.server.Thaw()
		w.settled(map[string]int{"a": 4, "b": 4, "c": 4})
		for _, m := range []member{a, b, c} {
			_ = m.leave()
		}
		for _, id := range []string{"c", "a", "b"} {
			w.join(id, 12, with)
			time.Sleep(10 * time.Second) // in virtual time
		}
		w.settled(map[string]int{"a": 4, "b": 4, "c": 4})
		require.Zero(w, w.oracle.takeMoves())
	})
}

// Twenty members start one after the other. Each plan moves shards, unless it waits until the group
// is quiet.
func TestWithSettling_AStartMovesNothing(t *testing.T) {
	moves := make(map[time.Duration]int)
	for _, settling := range []time.Duration{0, 5 * time.Second} {
		virtual(t, func(w world) {
			for i := range 20 {
				id := fmt.Sprintf("m%02d", i)
				w.join(id, 61, shard.WithSettling(settling))
				time.Sleep(time.Second) // in virtual time
			}
			time.Sleep(30 * time.Second) // in virtual time
			owned := w.oracle.owned()
			require.Len(w, owned, 20)
			moves[settling] = w.oracle.takeMoves()

			// At a scale-up too: one plan.
			for i := range 4 {
				w.join(fmt.Sprintf("n%02d", i), 61, shard.WithSettling(settling))
				time.Sleep(time.Second) // in virtual time
			}
			time.Sleep(30 * time.Second) // in virtual time
			require.Len(w, w.oracle.owned(), 24)
			moves[settling+1] = w.oracle.takeMoves()
		})
	}
	t.Log(moves)
	require.Greater(t, moves[0], 100)
	require.Zero(t, moves[5*time.Second])
	require.LessOrEqual(t, moves[5*time.Second+1], 4*3, "one plan, for four newcomers")
}

// Members that join all the time delay a plan to five times the option. A member that dies does not
// wait for that.
func TestWithSettling_HasABound(t *testing.T) {
	virtual(t, func(w world) {
		with := shard.WithSettling(10 * time.Second)
		began := time.Now()
		first := w.join("a", 8, with)
		joining, stop := context.WithCancel(w.Context())
		defer stop()
		for i := 0; len(w.oracle.owned()) == 0; i++ {
			require.Less(w, time.Since(began), 52*time.Second)
			if joining.Err() == nil {
				w.join(fmt.Sprintf("m%02d", i), 8, with)
			}
			time.Sleep(3 * time.Second) // in virtual time
		}
		require.Greater(w, time.Since(began), 48*time.Second)
		time.Sleep(time.Minute)     // in virtual time
		_ = first.leave()           // the planner
		time.Sleep(2 * time.Second) // in virtual time
		require.Equal(w, 8, w.oracle.total())
	})
}

// A plan waits for newcomers only. The end of a grace, a member that returns within its grace, and a
// shard that is refused do not wait.
func TestWithSettling_DelaysNothingElse(t *testing.T) {
	virtual(t, func(w world) {
		with := []shard.Option{shard.WithGrace(20 * time.Second), shard.WithSettling(time.Minute)}
		refusing := "" // the id of the member in which shard 0 fails when broken is closed
		broken := make(chan struct{})
		join := func(id string) member {
			work := w.oracle.work(id)
			return w.joinWith(w.client(), id, 12, func(ctx context.Context, index int) error {
				if index == 0 {
					working, stop := context.WithCancel(ctx)
					go func() { // ends with the call
						select {
						case <-broken:
							if id == refusing {
								stop()
							}
						case <-working.Done():
						}
					}()
					defer stop()
					if err := work(working, index); err != nil || ctx.Err() != nil {
						return err
					}
					return errors.New("failed")
				}
				return work(ctx, index)
			}, with...)
		}
		members := map[string]member{"a": join("a"), "b": join("b")}
		c := join("c")
		thirds, halves := map[string]int{"a": 4, "b": 4, "c": 4}, map[string]int{"a": 6, "b": 6}
		w.settled(thirds)
		time.Sleep(10 * time.Minute) // in virtual time: the planner has not just started

		_ = c.leave()
		time.Sleep(19 * time.Second) // in virtual time
		require.Equal(w, map[string]int{"a": 4, "b": 4}, w.oracle.owned())
		time.Sleep(2 * time.Second) // in virtual time
		require.Equal(w, halves, w.oracle.owned(), "the grace is over")

		c = join("c")
		time.Sleep(59 * time.Second) // in virtual time
		require.Equal(w, halves, w.oracle.owned(), "a newcomer waits")
		w.settled(thirds)

		// It is absent twice: the second grace counts from the second absence.
		_ = c.leave()
		time.Sleep(5 * time.Second) // in virtual time
		c = join("c")
		time.Sleep(30 * time.Second) // in virtual time
		require.Equal(w, thirds, w.oracle.owned())
		_ = c.leave()
		time.Sleep(19 * time.Second) // in virtual time
		require.Equal(w, map[string]int{"a": 4, "b": 4}, w.oracle.owned())
		time.Sleep(2 * time.Second) // in virtual time
		require.Equal(w, halves, w.oracle.owned())

		for id, m := range members {
			if slices.Contains(m.Owned(), 0) {
				refusing = id
			}
		}
		close(broken)
		time.Sleep(30 * time.Second) // in virtual time: five failures take 15 s
		require.NotContains(w, members[refusing].Owned(), 0)
		require.Equal(w, 12, w.oracle.total())
	})
}

// A shard whose function fails in its member is offered to each of the others once, and no other
// shard moves. It stays with the last one, which tries once a minute, and State names it.
func TestRun_AFailingShardIsOfferedToEachOnce(t *testing.T) {
	virtual(t, func(w world) {
		failure := errors.New("corrupt")
		var healthy atomic.Bool
		var mu sync.Mutex // guards tried
		var tried []string
		work := func(id string) func(context.Context, int) error {
			return func(ctx context.Context, index int) error {
				if index == 4 && !healthy.Load() {
					mu.Lock()
					defer mu.Unlock()
					if len(tried) == 0 || tried[len(tried)-1] != id {
						tried = append(tried, id)
					}
					return failure
				}
				return w.oracle.work(id)(ctx, index)
			}
		}
		var all []member
		for _, id := range []string{"a", "b", "c"} {
			all = append(all, w.joinWith(w.client(), id, 9, work(id)))
		}
		time.Sleep(5 * time.Minute) // in virtual time
		w.oracle.takeMoves()
		mu.Lock()
		require.Len(w, tried, 3, "each once: %v", tried)
		last := tried[2]
		mu.Unlock()
		for _, m := range all {
			state := w.now(m)
			if m.ID() == last {
				require.ErrorIs(w, state.Failing[4], failure)
				require.Contains(w, state.Assigned, 4)
				require.NotContains(w, state.Owned, 4)
			} else {
				require.Empty(w, state.Failing)
			}
		}
		time.Sleep(time.Hour) // in virtual time
		mu.Lock()
		require.Len(w, tried, 3)
		mu.Unlock()
		healthy.Store(true)
		time.Sleep(3 * time.Minute) // in virtual time
		require.Zero(w, w.oracle.takeMoves(), "no other shard moves, and it stays where it is")
		for _, m := range all {
			require.Empty(w, w.now(m).Failing)
		}
		require.Equal(w, 9, w.oracle.total())
	})
}

// State names a shard whose function does not return.
func TestObserve_NamesAStuckShard(t *testing.T) {
	virtual(t, func(w world) {
		finish := make(chan struct{})
		a := w.joinWith(w.client(framework.WithLogger(slog.New(slog.DiscardHandler))), "a", 2, func(ctx context.Context, shard int) error {
			<-ctx.Done()
			if shard == 0 {
				<-finish
			}
			return nil
		})
		time.Sleep(time.Second) // in virtual time
		w.server.Freeze()
		time.Sleep(30 * time.Second) // in virtual time
		require.Equal(w, []int{0}, w.now(a).Stuck)
		w.server.Thaw()
		close(finish)
		time.Sleep(30 * time.Second) // in virtual time
		require.Empty(w, w.now(a).Stuck)
		require.Len(w, a.Owned(), 2)
	})
}
