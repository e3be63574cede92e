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

// contender returns the contender of a lock that a constructor has returned.
func contender[H locksuite.Hold, L interface {
	locksuite.Locker[H]
	Participants(ctx context.Context) ([]lock.Participant, error)
}](l L, err error) (locksuite.Contender, error) {
	if err != nil {
		return locksuite.Contender{}, err
	}
	return locksuite.Of(l, l.Participants), nil
}

// both creates an object for A and one for B.
func both[T any](s *matrix.Scene, create func(client *framework.Client) (T, error)) (a, b T) {
	a, err := create(s.A)
	s.Require(err)
	b, err = create(s.B)
	s.RequireOther(err)
	return a, b
}

// lockDay is the day of a lock with one lease: A acquires and B waits, A releases and B acquires, A
// acquires again and loses its session, and B acquires.
func lockDay(create newLock) func(s *matrix.Scene) error {
	return func(s *matrix.Scene) error {
		a, b := both(s, func(client *framework.Client) (locksuite.Contender, error) { return create(s, client) })
		s.Require(hand(s, a, b))
		s.Require(a.Do(s.Ctx, func(ctx context.Context) error { return ctx.Err() }))
		return lose(s, a, b)
	}
}

// hand has B wait for A.
func hand(s *matrix.Scene, a, b locksuite.Contender) (err error) {
	hold, err := a.Acquire(s.Ctx)
	s.Require(err)
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
		s.Require(err)
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
	s.Require(hold.Release())
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
	s.Require(err)
	defer hold.Release()
	s.Require(s.Expire())
	s.Await(hold.Done())
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
				s.Require(err)
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
		return contender(mutex.New(client, s.Path, opts...))
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
	s.Require(lockDay(create)(s))
	a, err := mutex.New(s.A, s.Path, lock.WithLockDelay(delay))
	s.Require(err)
	hold, err := a.Acquire(s.Ctx)
	s.Require(err)
	defer hold.Release()
	died := time.Now()
	s.Require(s.Expire())
	for {
		b, err := mutex.New(s.B, s.Path, lock.WithLockDelay(delay))
		s.RequireOther(err)
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
		return contender(lock.New(client, s.Path, "job-", nil))
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
func readers(s *matrix.Scene) error {
	a, b := both(s, func(client *framework.Client) (*rwlock.Lock, error) { return rwlock.New(client, s.Path) })
	write, err := a.Write().Acquire(s.Ctx)
	s.Require(err)
	defer write.Release()
	read, err := a.Downgrade(write.Context())
	s.Require(err)
	defer read.Release()
	s.Require(write.Release())
	s.Middle()
	beside, err := b.Read().Acquire(s.Peer)
	s.RequireOther(err)
	s.RequireOther(beside.Release())
	waiting := s.Go(func() error {
		return b.Write().Do(s.Peer, func(ctx context.Context) error {
			alone(s, read)
			return ctx.Err()
		})
	})
	s.Sleep(time.Second)
	s.Require(read.Release())
	return s.Other(waiting.Wait())
}

func semaphoreOf(max int) newLock {
	return func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
		return contender(semaphore.New(client, s.Path, max))
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
			s.RequireOther(err)
			s.RequireOther(max.Set(s.Peer, 1))
			day := lockDay(func(s *matrix.Scene, client *framework.Client) (locksuite.Contender, error) {
				return contender(semaphore.NewShared(client, s.Path, s.Path+"-max"))
			})
			s.Require(day(s))
			return raises(s, max)
		},
	},
}

// raises has A wait for two leases until B raises the maximum.
func raises(s *matrix.Scene, max *shared.Value[int32]) error {
	a, err := semaphore.NewShared(s.A, s.Path, s.Path+"-max")
	s.Require(err)
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
		s.Require(err)
		return two.Release()
	})
	s.Sleep(time.Second)
	s.RequireOther(max.Set(s.Peer, 2))
	return waiting.Wait()
}

// leases has A hold two leases of three, B one, and B wait for two.
func leases(s *matrix.Scene) error {
	a, b := both(s, func(client *framework.Client) (*semaphore.Semaphore, error) {
		return semaphore.New(client, s.Path, 3)
	})
	two, err := a.AcquireN(s.Ctx, 2)
	s.Require(err)
	defer two.Release()
	s.Middle()
	waiting := s.Go(func() error {
		group, err := b.AcquireN(s.Peer, 2)
		s.Require(err)
		alone(s, two)
		return group.Release()
	})
	s.Sleep(time.Second)
	s.Require(two.Release())
	s.RequireOther(waiting.Wait())
	return lose(s, locksuite.Of(a, a.Participants), locksuite.Of(b, b.Participants))
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
	s.Require(err)
	a, err := revocable.New(m)
	s.Require(err)
	b, err := mutex.New(s.B, s.Path)
	s.RequireOther(err)
	hold, err := a.Acquire(s.Ctx)
	s.Require(err)
	defer hold.Release()
	s.Middle()
	s.Require(s.CatchUp())
	n, err := revocable.RevokeAll(s.Peer, b)
	s.RequireOther(err)
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
	s.Require(hold.Release())
	s.RequireOther(waiting.Wait())
	ps, err := b.Participants(s.Peer)
	s.Check(err != nil || !slices.ContainsFunc(ps, func(p lock.Participant) bool { return p.Holds }) || s.Forced() || len(ps) > 1, "participants without a hold: %v", ps)
	return s.Other(err)
}
