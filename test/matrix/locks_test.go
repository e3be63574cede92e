package matrix_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/matrix"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
)

// newLock creates a contender of a story.
type newLock func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error)

// lockDay is the day of a lock with one lease: A acquires and B waits, A releases and B acquires, A
// acquires again and loses its session, and B acquires.
func lockDay(create newLock) func(s *matrix.Scene) error {
	return func(s *matrix.Scene) (err error) {
		a, err := create(s, s.A)
		if err != nil {
			return err
		}
		b, err := create(s, s.B)
		if err != nil {
			return s.Other(err)
		}
		if err := hand(s, a, b); err != nil {
			return err
		}
		if err := a.Do(s.Ctx, func(ctx context.Context) error { return ctx.Err() }); err != nil {
			return err
		}
		return lose(s, a, b)
	}
}

// hand has B wait for A.
func hand(s *matrix.Scene, a, b locksuite.Contender) (err error) {
	hold, err := a.Acquire(s.Ctx)
	if err != nil {
		return err
	}
	released := false
	defer func() {
		if !released {
			_ = hold.Release() // the first error is returned
		}
	}()
	s.Middle()
	second, err := b.TryAcquire(s.Peer)
	if err == nil {
		alone(s, hold)
		_ = second.Release() // as above
		return hold.Err()
	}
	if !errors.Is(err, lock.ErrNotAcquired) {
		return s.Other(err)
	}
	waiting := s.Go(func() error {
		second, err := b.Acquire(s.Peer)
		if err != nil {
			return err
		}
		defer second.Release()
		alone(s, hold)
		if third, err := a.TryAcquire(s.Ctx); err == nil {
			s.Check(second.Err() != nil || s.Forced(), "A acquires what B holds")
			_ = third.Release() // as above
		}
		return second.Release()
	})
	s.Sleep(time.Second)
	released = true
	if err := hold.Release(); err != nil {
		return err
	}
	return s.Other(waiting.Wait())
}

// alone requires that a hold has ended, since another client holds. Holds that are ended by force
// learn it afterwards.
func alone(s *matrix.Scene, hold locksuite.Hold) {
	if s.Forced() {
		s.Sleep(30 * time.Second)
	}
	s.Check(hold.Err() != nil, "two holders")
}

// lose has A lose its session.
func lose(s *matrix.Scene, a, b locksuite.Contender) error {
	hold, err := a.Acquire(s.Ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	if err := s.Expire(); err != nil {
		return err
	}
	select {
	case <-hold.Done():
	case <-s.Ctx.Done():
		return context.Cause(s.Ctx)
	}
	s.Check(hold.Release() != nil, "the release of a lost hold returns nil")
	return s.Other(b.Do(s.Peer, func(ctx context.Context) error { return ctx.Err() }))
}

// join lets one more client wait for the lock.
func join(create newLock) func(s *matrix.Scene, client *framework.Client, id string) (func(), error) {
	return func(s *matrix.Scene, client *framework.Client, _ string) (func(), error) {
		c, err := create(s, client)
		if err != nil {
			return nil, err
		}
		task := s.Go(func() error {
			for {
				err := c.Do(s.Peer, func(ctx context.Context) error { return ctx.Err() })
				if err != nil {
					return err
				}
				select {
				case <-s.Peer.Done():
					return nil
				case <-time.After(time.Minute):
				}
			}
		})
		return func() { _ = task.Wait() }, nil // the others decide
	}
}

func mutexAt(opts ...lock.Option) newLock {
	return func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
		m, err := mutex.New(client, s.Path, opts...)
		if err != nil {
			return locksuite.Contender{}, err
		}
		return locksuite.Of(m, m.Participants), nil
	}
}

const lookalike = "/_c_5e3d2f5e-0000-4000-8000-000000000002-"

func lockStory(name string, create newLock, nodes ...string) matrix.Story {
	st := matrix.Story{Name: name, Run: lockDay(create), Join: join(create)}
	for _, n := range nodes {
		st.Lookalikes = append(st.Lookalikes, lookalike+n+"0000000000")
	}
	return st
}

var mutexStories = []matrix.Story{
	lockStory("mutex", mutexAt(), "lock-"),
	lockStory("mutex with data", mutexAt(lock.WithData([]byte("me"))), "lock-"),
	lockStory("mutex with retention", mutexAt(lock.WithRetention(5*time.Second)), "lock-"),
	{
		Name: "mutex with lock delay", Run: delays, Join: join(mutexAt(lock.WithLockDelay(delay))),
		Lookalikes: []string{lookalike + "lock-0000000000", "/held-mark"}, Remains: []string{"/held-mark*"},
	},
	lockStory("mutex with max hold", mutexAt(lock.WithMaxHold(time.Hour)), "lock-"),
}

const delay = 5 * time.Second

// delays has A die while it holds. B tries, with a new lock each time, and acquires after the delay.
func delays(s *matrix.Scene) error {
	create := mutexAt(lock.WithLockDelay(delay))
	if err := lockDay(create)(s); err != nil {
		return err
	}
	a, err := mutex.New(s.A, s.Path, lock.WithLockDelay(delay))
	if err != nil {
		return err
	}
	hold, err := a.Acquire(s.Ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	died := time.Now()
	if err := s.Expire(); err != nil {
		return err
	}
	for {
		b, err := mutex.New(s.B, s.Path, lock.WithLockDelay(delay))
		if err != nil {
			return s.Other(err)
		}
		second, err := b.TryAcquire(s.Peer)
		if err == nil {
			s.Check(time.Since(died) >= delay || s.Forced(), "B acquires %v after the death of A", time.Since(died))
			return s.Other(second.Release())
		}
		if !errors.Is(err, lock.ErrNotAcquired) {
			return s.Other(err)
		}
		select {
		case <-s.Peer.Done():
			return s.Other(context.Cause(s.Peer))
		case <-time.After(time.Second):
		}
	}
}

var queueStories = []matrix.Story{
	lockStory("queue", func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
		q, err := lock.New(client, s.Path, "job-", nil)
		if err != nil {
			return locksuite.Contender{}, err
		}
		return locksuite.Of(q, q.Participants), nil
	}, "job-"),
}

func writer(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
	l, err := rwlock.New(client, s.Path)
	if err != nil {
		return locksuite.Contender{}, err
	}
	return locksuite.Of(l.Write(), l.Participants), nil
}

func reader(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
	l, err := rwlock.New(client, s.Path)
	if err != nil {
		return locksuite.Contender{}, err
	}
	return locksuite.Of(l.Read(), l.Participants), nil
}

var rwlockStories = []matrix.Story{
	lockStory("write lock", writer, "__WRIT__", "__READ__"),
	{
		Name: "read lock", Run: readers, Join: join(reader),
		Lookalikes: []string{lookalike + "__WRIT__0000000000", lookalike + "__READ__0000000000"},
	},
}

// readers has A write, continue as a reader, and read beside B. Then B writes.
func readers(s *matrix.Scene) (err error) {
	a, err := rwlock.New(s.A, s.Path)
	if err != nil {
		return err
	}
	b, err := rwlock.New(s.B, s.Path)
	if err != nil {
		return s.Other(err)
	}
	write, err := a.Write().Acquire(s.Ctx)
	if err != nil {
		return err
	}
	defer write.Release()
	read, err := a.Downgrade(write.Context())
	if err != nil {
		return err
	}
	defer read.Release()
	if err := write.Release(); err != nil {
		return err
	}
	s.Middle()
	beside, err := b.Read().Acquire(s.Peer)
	if err != nil {
		return s.Other(err)
	}
	if err := beside.Release(); err != nil {
		return s.Other(err)
	}
	waiting := s.Go(func() error {
		return b.Write().Do(s.Peer, func(ctx context.Context) error {
			alone(s, read)
			return ctx.Err()
		})
	})
	s.Sleep(time.Second)
	if err := read.Release(); err != nil {
		return err
	}
	return s.Other(waiting.Wait())
}

func semaphoreOf(max int) newLock {
	return func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
		x, err := semaphore.New(client, s.Path, max)
		if err != nil {
			return locksuite.Contender{}, err
		}
		return locksuite.Of(x, x.Participants), nil
	}
}

var (
	semaphoreDirs   = []string{"/locks", "/leases"}
	semaphoreRivals = []string{"/locks" + lookalike + "lock-0000000000", "/leases" + lookalike + "lease-0000000000"}
)

var semaphoreStories = []matrix.Story{
	{Name: "semaphore of one", Run: lockDay(semaphoreOf(1)), Join: join(semaphoreOf(1)), Dirs: semaphoreDirs, Lookalikes: semaphoreRivals},
	{Name: "semaphore", Run: leases, Join: join(semaphoreOf(3)), Dirs: semaphoreDirs, Lookalikes: semaphoreRivals},
	{
		Name: "semaphore with a shared maximum", Logs: "semaphore waits for its shared maximum", Dirs: semaphoreDirs, Lookalikes: semaphoreRivals, Values: []string{"-max"}, Remains: []string{"-max"},
		Run: func(s *matrix.Scene) error {
			max, err := shared.Int32(s.B, s.Path+"-max")
			if err != nil {
				return s.Other(err)
			}
			if err := max.Set(s.Peer, 1); err != nil {
				return s.Other(err)
			}
			err = lockDay(func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
				x, err := semaphore.NewShared(client, s.Path, s.Path+"-max")
				if err != nil {
					return locksuite.Contender{}, err
				}
				return locksuite.Of(x, x.Participants), nil
			})(s)
			if err != nil {
				return err
			}
			return raises(s, max)
		},
	},
}

// raises has A wait for two leases until B raises the maximum.
func raises(s *matrix.Scene, max *shared.Value[int32]) error {
	a, err := semaphore.NewShared(s.A, s.Path, s.Path+"-max")
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(s.Ctx, time.Minute)
	defer cancel()
	two, err := a.AcquireN(limited, 2)
	switch {
	case err == nil:
		s.Check(s.Forced(), "two leases of one")
		return two.Release()
	case s.Ctx.Err() != nil:
		return context.Cause(s.Ctx)
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	s.Check(!errors.Is(err, lock.ErrNotAcquired) || strings.Contains(err.Error(), "-max is 1"), "the error does not name the maximum: %v", err)
	waiting := s.Go(func() error {
		two, err := a.AcquireN(s.Ctx, 2)
		if err != nil {
			return err
		}
		return two.Release()
	})
	s.Sleep(time.Second)
	if err := max.Set(s.Peer, 2); err != nil {
		return s.Other(err)
	}
	return waiting.Wait()
}

// leases has A hold two leases of three, B one, and B wait for two.
func leases(s *matrix.Scene) error {
	a, err := semaphore.New(s.A, s.Path, 3)
	if err != nil {
		return err
	}
	b, err := semaphore.New(s.B, s.Path, 3)
	if err != nil {
		return s.Other(err)
	}
	two, err := a.AcquireN(s.Ctx, 2)
	if err != nil {
		return err
	}
	defer two.Release()
	s.Middle()
	waiting := s.Go(func() error {
		group, err := b.AcquireN(s.Peer, 2)
		if err != nil {
			return err
		}
		alone(s, two)
		return group.Release()
	})
	s.Sleep(time.Second)
	if err := two.Release(); err != nil {
		return err
	}
	if err := waiting.Wait(); err != nil {
		return s.Other(err)
	}
	one, err := locksuite.Of(a, a.Participants), error(nil)
	if err != nil {
		return err
	}
	return lose(s, one, locksuite.Of(b, b.Participants))
}

var multilockStories = []matrix.Story{{
	Name: "multilock", Dirs: []string{"/m", "/s/locks", "/s/leases"},
	Lookalikes: []string{"/m" + lookalike + "lock-0000000000", "/s/leases" + lookalike + "lease-0000000000"},
	Run: lockDay(func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
		m, err := mutex.New(client, s.Path+"/m")
		if err != nil {
			return locksuite.Contender{}, err
		}
		x, err := semaphore.New(client, s.Path+"/s", 1)
		if err != nil {
			return locksuite.Contender{}, err
		}
		l, err := multilock.New(m, x)
		if err != nil {
			return locksuite.Contender{}, err
		}
		return locksuite.Of(l, m.Participants), nil
	}),
}}

var revocableStories = []matrix.Story{{
	Name: "revocable", Run: revokes, Lookalikes: []string{lookalike + "lock-0000000000"},
}}

// revokes has B ask A for the lock.
func revokes(s *matrix.Scene) error {
	m, err := mutex.New(s.A, s.Path)
	if err != nil {
		return err
	}
	a, err := revocable.New(m)
	if err != nil {
		return err
	}
	b, err := mutex.New(s.B, s.Path)
	if err != nil {
		return s.Other(err)
	}
	hold, err := a.Acquire(s.Ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	s.Middle()
	if err := s.CatchUp(); err != nil {
		return err
	}
	n, err := revocable.RevokeAll(s.Peer, b)
	if err != nil {
		return s.Other(err)
	}
	s.Check(n == 1 || hold.Err() != nil || s.Forced(), "%d holders were asked", n)
	select {
	case <-hold.Revoked():
	case <-hold.Done():
		return hold.Err()
	case <-s.Ctx.Done():
		return context.Cause(s.Ctx)
	}
	waiting := s.Go(func() error {
		return b.Do(s.Peer, func(ctx context.Context) error {
			alone(s, hold)
			return ctx.Err()
		})
	})
	s.Sleep(time.Second)
	if err := hold.Release(); err != nil {
		return err
	}
	if err := waiting.Wait(); err != nil {
		return s.Other(err)
	}
	ps, err := b.Participants(s.Peer)
	s.Check(err != nil || !slices.ContainsFunc(ps, func(p lock.Participant) bool { return p.Holds }) || s.Forced() || len(ps) > 1, "participants without a hold: %v", ps)
	return s.Other(err)
}
