package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(memberArgs); args != "" {
		serveMember(args)
		return
	}
	goleak.VerifyTestMain(m)
}

// each is how often each contender acquires.
var each = testlevel.Pick(30, 30, 200)

const others = 2 // contenders of Java's or kazoo's, and as many of ours

const killedMembers = "java: a double barrier whose members are killed and stopped"

// cases are the tests beside other clients, most of them beside Java's Curator.
var cases = []struct {
	name string
	test func(*testing.T, stage)
}{
	{"java: a mutex", javaMutex},
	{"java: a mutex that is re-entered", javaReenters},
	{"java: a read/write lock", javaReadWriteLock},
	{"java: a semaphore, with sessions that end", javaSemaphore},
	{"java: a semaphore whose maximum changes", javaSharedMaximum},
	{"java is revoked", javaIsRevoked},
	{"java revokes", javaRevokes},
	{"java: participants", javaParticipants},
	{"java: a session that ends passes the lock on", javaSessionEnds},
	{"java: an atomic long", javaAtomicLong},
	{"java: an atomic long, with replies that are lost and sessions that end", javaCounts},
	{"java: a shared count", javaSharedCount},
	{"java: a double barrier", javaDoubleBarrier},
	{killedMembers, javaMembers},
	{"java: a barrier", javaBarrier},
	{"java: members of a group", javaGroup},
	{"java: a group with a session that ends", javaGroupSession},
	{"java: kept nodes", javaKeeps},
	{"java: a cache of our kept nodes", javaSeesKept},
	{"java: caches of one tree", javaTree},
	{"java: compressed data", javaCompressed},
	{"java: service discovery", javaDiscovery},
	{"java: a mutex with a lock delay", javaLockDelay},
	{"kazoo: a lock", kazooLock},
	{"kazoo: a lock with a lock delay", kazooLockDelay},
}

// The peers are Debian's: Curator 5.4.0 or 5.7.1, and kazoo.
func TestWithOtherClients(t *testing.T) {
	s := newStage(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// The same with Curator 5.9.0.
func TestWithCurator590(t *testing.T) {
	s := newStage(t).withCurator(t)
	for _, c := range cases {
		if !strings.HasPrefix(c.name, "java") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if c.name == killedMembers { // as long as a quarter of all the others
				testlevel.Need(t, testlevel.Nightly)
			}
			c.test(t, s)
		})
	}
	t.Run("java: typed nodes", func(t *testing.T) { javaModeled(t, s) }) // Debian has no x-async
}

func javaMutex(t *testing.T, s stage) {
	c := s.newScene(t)
	peers := s.javas(t, "mutex", c.path, c.counter, fmt.Sprint(each))
	c.count(t, s, peers, 2*others*each, func(client *framework.Client) (turn, error) {
		m, err := mutex.New(client, c.path)
		return c.increments(client, m), err
	})
}

// javaReenters has Java's threads acquire twice. Of ours, every other one re-enters, and the others
// are refused inside their own holds.
func javaReenters(t *testing.T, s stage) {
	c := s.newScene(t)
	var ours atomic.Int32
	peers := s.javas(t, "reentrant", c.path, c.counter, fmt.Sprint(each))
	c.count(t, s, peers, 2*others*each, func(client *framework.Client) (turn, error) {
		var opts []lock.Option
		var want error = lock.ErrHeld
		if ours.Add(1)%2 == 0 {
			opts, want = append(opts, lock.WithReentry()), nil
		}
		m, err := mutex.New(client, c.path, opts...)
		return func(ctx context.Context, _ int) error {
			return m.Do(ctx, func(ctx context.Context) error {
				if err := m.Do(ctx, func(context.Context) error { return nil }); !errors.Is(err, want) {
					return fmt.Errorf("inside the hold: %w", err)
				}
				return c.increment(ctx, client)
			})
		}, err
	})
}

func javaReadWriteLock(t *testing.T, s stage) {
	c := s.newScene(t)
	peers := s.javas(t, "rwlock", c.path, c.counter, fmt.Sprint(each))
	c.count(t, s, peers, 2*others*((each+2)/3), func(client *framework.Client) (turn, error) {
		l, err := rwlock.New(client, c.path)
		return func(ctx context.Context, n int) error {
			if n%3 == 0 {
				return l.Write().Do(ctx, func(ctx context.Context) error { return c.increment(ctx, client) })
			}
			return l.Read().Do(ctx, func(ctx context.Context) error { return c.unchanged(ctx, client) })
		}, err
	})
}

// unchanged looks twice at the counter.
func (c scene) unchanged(ctx context.Context, client *framework.Client) error {
	before, _, err := client.Get(ctx, c.counter)
	if err != nil {
		return err
	}
	time.Sleep(rand.N(2 * time.Millisecond)) // the work
	if err := client.Sync(ctx); err != nil {
		return err
	}
	after, _, err := client.Get(ctx, c.counter)
	if err == nil && string(before) != string(after) {
		err = fmt.Errorf("a reader saw %s and then %s", before, after)
	}
	return err
}

// mark leaves a mark while it holds, and counts those of all.
func (c scene) mark(ctx context.Context, client *framework.Client, max int) error {
	node, err := client.Create(ctx, c.marks+"/mark-", nil, framework.As(framework.EphemeralSequential))
	if err != nil {
		return err
	}
	children, _, err := client.Children(ctx, c.marks)
	if err != nil {
		return err
	}
	if len(children) > max {
		return fmt.Errorf("%d hold, and %d may", len(children), max)
	}
	time.Sleep(rand.N(3 * time.Millisecond)) // the work
	err = client.Delete(ctx, node, framework.IfExists(), framework.Guaranteed())
	return err
}

func javaSemaphore(t *testing.T, s stage) {
	const max = 3
	c, ctx := s.begin(t)
	peers := s.javas(t, "semaphore", c.path, c.marks, fmt.Sprint(each), fmt.Sprint(max))
	peers.hear(t, ctx, "session")
	// Sessions of ours end now and then: their leases and marks go with them.
	victim := s.client(t)
	over := make(chan struct{})
	var killing sync.WaitGroup
	killing.Go(func() {
		pool, err := semaphore.New(victim, c.path, max)
		if !assert.NoError(t, err) {
			return
		}
		for n := 1; ; n++ {
			hold, err := pool.Acquire(ctx)
			if !assert.NoError(t, err) {
				return
			}
			_, err = victim.In(hold.Session()).Create(ctx, c.marks+"/mark-", nil, framework.As(framework.EphemeralSequential))
			assert.NoError(t, err)
			assert.NoError(t, s.ensemble.ExpireSession(ctx, hold.Session().ID()))
			<-hold.Done()
			_ = hold.Release() // it says that the session was lost
			select {
			case <-over:
				t.Logf("%d sessions ended while they held", n)
				return
			default:
			}
		}
	})
	s.contend(t, ctx, peers, func(client *framework.Client) (turn, error) {
		pool, err := semaphore.New(client, c.path, max)
		return func(ctx context.Context, _ int) error {
			return pool.Do(ctx, func(ctx context.Context) error { return c.mark(ctx, client, max) })
		}, err
	})
	close(over)
	killing.Wait()
	c.check(t, ctx, 0, c.path+"/leases", c.path+"/locks")
}

func javaSharedMaximum(t *testing.T, s stage) {
	const most = 4
	c, ctx := s.begin(t)
	count := testbed.Must(shared.Int32(c.client, c.path+"-max"))
	require.NoError(t, count.Set(ctx, 1))
	peers := s.javas(t, "shared", c.path, c.marks, fmt.Sprint(each), fmt.Sprint(most), count.Path())
	peers.hear(t, ctx, "session")
	over := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := int32(1); ; n = n%most + 1 {
			assert.NoError(t, count.Set(ctx, n))
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	s.contend(t, ctx, peers, func(client *framework.Client) (turn, error) {
		pool, err := semaphore.NewShared(client, c.path, count.Path())
		return func(ctx context.Context, _ int) error {
			return pool.Do(ctx, func(ctx context.Context) error { return c.mark(ctx, client, most) })
		}, err
	})
	close(over)
	changing.Wait()
	c.check(t, ctx, 0, c.path+"/leases", c.path+"/locks")
}

func javaIsRevoked(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	p := s.java(t, "hold", c.path)
	p.hears(t, ctx, "held")
	m := testbed.Must(mutex.New(c.client, c.path))
	testbed.CatchUp(t, c.client)
	require.Equal(t, 1, testbed.Must(revocable.RevokeAll(ctx, m)))
	p.hears(t, ctx, "revoked")
	hold := testbed.Must(m.Acquire(ctx))
	require.NoError(t, hold.Release())
	p.hears(t, ctx, "done")
	c.check(t, ctx, 0)
}

func javaRevokes(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	m := testbed.Must(mutex.New(c.client, c.path))
	l := testbed.Must(revocable.New(m))
	hold := testbed.Must(l.Acquire(ctx))
	p := s.java(t, "revoke", hold.Path())
	p.hears(t, ctx, "done")
	testbed.Receive(t, hold.Revoked(), "word from Java")
	require.NoError(t, hold.Err(), "to be asked takes nothing away")
	require.NoError(t, hold.Release())
	c.check(t, ctx, 0)
}

func javaParticipants(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	m := testbed.Must(mutex.New(c.client, c.path))
	hold := testbed.Must(m.Acquire(ctx))
	waiter := s.java(t, "hold", c.path)
	waiter.hears(t, ctx, "session")
	var ps []lock.Participant
	testbed.Eventually(t, func() bool {
		var err error
		ps, err = m.Participants(ctx)
		return err == nil && len(ps) == 2
	}, "Java waits")
	require.Equal(t, hold.Path(), ps[0].Path)
	require.True(t, ps[0].Holds)
	require.False(t, ps[1].Holds)
	lister := s.java(t, "participants", c.path)
	for _, p := range ps {
		require.Equal(t, p.Path, lister.hears(t, ctx, "participant"), "Java sees the same, in the same order")
	}
	lister.hears(t, ctx, "done")
	require.NoError(t, hold.Release())
	waiter.hears(t, ctx, "held")
	testbed.Must(revocable.RevokeAll(ctx, m))
	waiter.hears(t, ctx, "done")
	c.check(t, ctx, 0)
}

func javaSessionEnds(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	p := s.java(t, "hold", c.path)
	session := p.hearsSession(t, ctx)
	p.hears(t, ctx, "held")
	m := testbed.Must(mutex.New(c.client, c.path))
	testbed.CatchUp(t, c.client)
	require.ErrorIs(t, testbed.Err(m.TryAcquire(ctx)), lock.ErrNotAcquired)
	require.NoError(t, s.ensemble.ExpireSession(ctx, session))
	hold := testbed.Must(m.Acquire(ctx))

	// And the other way round.
	next := s.java(t, "hold", c.path)
	next.hears(t, ctx, "session")
	require.NoError(t, s.ensemble.ExpireSession(ctx, hold.Session().ID()))
	next.hears(t, ctx, "held")
	testbed.Receive(t, hold.Done(), "word of the loss")
}

// kazooLock needs no driver of its own: kazoo orders by the digits after "__lock__", whatever is
// before that, and so do we.
func kazooLock(t *testing.T, s stage) {
	c := s.newScene(t)
	peers := company(func() *peer { return s.kazoo(t, c.path, c.counter, fmt.Sprint(each)) })
	c.count(t, s, peers, 2*others*each, func(client *framework.Client) (turn, error) {
		q, err := lock.New(client, c.path, "__lock__", nil)
		return c.increments(client, q), err
	})
}
