package lock_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// origin is a key of the contexts that recorders are called with.
type origin struct{}

// recorder is an observer of locks that records its calls, each with the acquire that it is about:
// the value of origin, with what Acquiring and Acquired have added.
type recorder struct{ lines chan string }

func newRecorder() *recorder { return &recorder{make(chan string, 100)} }

func (r *recorder) option() framework.Option {
	say := func(ctx context.Context, format string, args ...any) {
		r.lines <- fmt.Sprintf("%v: ", ctx.Value(origin{})) + fmt.Sprintf(format, args...)
	}
	mark := func(ctx context.Context, what string) context.Context {
		return context.WithValue(ctx, origin{}, fmt.Sprint(ctx.Value(origin{}))+what)
	}
	return lock.WithObserver(lock.Observer{
		Acquiring: func(ctx context.Context, e lock.AcquiringEvent) context.Context {
			say(ctx, "acquiring %s %s", e.Path, e.Name)
			return mark(ctx, "+")
		},
		Joined: func(ctx context.Context, e lock.JoinedEvent) {
			say(ctx, "joined %s behind %d", e.Path, e.Ahead)
		},
		Acquired: func(ctx context.Context, e lock.AcquiredEvent) context.Context {
			say(ctx, "acquired %s", e.Path)
			return mark(ctx, "!")
		},
		NotAcquired: func(ctx context.Context, e lock.NotAcquiredEvent) {
			say(ctx, "not acquired %s: %v", e.Path, e.Err)
		},
		Ended: func(ctx context.Context, e lock.EndedEvent) {
			say(ctx, "ended %s: %v", e.Path, e.Cause)
		},
	})
}

// expect checks that these lines are next, in this order.
func (r *recorder) expect(t *testing.T, lines ...string) {
	t.Helper()
	for _, want := range lines {
		require.Equal(t, want, testbed.Receive(t, r.lines, want))
	}
}

// none checks that there are no more lines.
func (r *recorder) none(t *testing.T) {
	t.Helper()
	require.Empty(t, r.lines)
}

// as returns a context with a value for origin.
func as(t *testing.T, who string) context.Context {
	return context.WithValue(testbed.Context(t), origin{}, who)
}

func TestObserversAreNotifiedOfWaitsAndHolds(t *testing.T) {
	server := zktest.NewServer(t)
	recorded := newRecorder()
	q := newQueue(t, testbed.On(server).Client(t, recorded.option()), "/lock", lock.WithReentry())
	other := newQueue(t, testbed.On(server).Client(t, recorded.option()), "/lock")

	first := acquireIn(t, as(t, "a"), q)
	recorded.expect(t, "a: acquiring /lock lock-", "a+: joined /lock behind 0", "a+: acquired /lock")
	assert.Equal(t, "a+!", first.Context().Value(origin{}), "the hold goes on with the observer's values")

	require.NoError(t, acquireIn(t, first.Context(), q).Release())
	recorded.none(t) // re-entrance is not reported

	_, err := other.TryAcquire(as(t, "b"))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	recorded.expect(t, "b: acquiring /lock lock-", "b+: not acquired /lock: not free")

	second := acquiring(t, as(t, "c"), other, server, 2)
	recorded.expect(t, "c: acquiring /lock lock-", "c+: joined /lock behind 1")
	ctx, giveUp := context.WithCancel(as(t, "d"))
	third := acquiring(t, ctx, other, server, 3)
	recorded.expect(t, "d: acquiring /lock lock-", "d+: joined /lock behind 2")
	giveUp()
	require.ErrorIs(t, testbed.Receive(t, third, "d").err, context.Canceled)
	recorded.expect(t, "d+: not acquired /lock: not free: context canceled")

	require.NoError(t, first.Release())
	// The release is reported before the next one can acquire.
	recorded.expect(t, "a+!: ended /lock: already released", "c+: acquired /lock")
	hold := testbed.Receive(t, second, "c").hold
	require.NoError(t, hold.Release())
	recorded.expect(t, "c+!: ended /lock: already released")
	require.ErrorIs(t, hold.Release(), lock.ErrReleased)
	recorded.none(t)
}

func TestObserversAreNotifiedOfLosses(t *testing.T) {
	for name, c := range map[string]struct {
		opts []lock.Option
		lose func(t *testing.T, server *zktest.Server, client *framework.Client, hold *lock.Hold)
		want error
	}{
		"session": {[]lock.Option{lock.WithErrorPolicy(connstate.LostEndsHold)}, func(t *testing.T, server *zktest.Server, client *framework.Client, _ *lock.Hold) {
			testbed.On(server).ExpireSession(t, client)
		}, framework.ErrSessionLost},
		"connection": {nil, func(_ *testing.T, server *zktest.Server, _ *framework.Client, _ *lock.Hold) {
			server.CutConnections()
		}, framework.ErrSuspended},
		"client": {nil, func(_ *testing.T, _ *zktest.Server, client *framework.Client, _ *lock.Hold) {
			client.Close()
		}, framework.ErrClosed},
		"time": {[]lock.Option{lock.WithMaxHold(2 * time.Millisecond)}, func(*testing.T, *zktest.Server, *framework.Client, *lock.Hold) {
		}, lock.ErrMaxHold},
		"node": {nil, func(t *testing.T, server *zktest.Server, _ *framework.Client, hold *lock.Hold) {
			require.NoError(t, server.Delete(hold.Path()))
		}, lock.ErrNodeDeleted},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			ended := make(chan lock.EndedEvent, 2)
			client := w.Client(lock.WithObserver(lock.Observer{
				Ended: func(_ context.Context, e lock.EndedEvent) { ended <- e },
			}))
			hold := acquire(t, newQueue(t, client, "/lock", c.opts...))
			// Virtual time of the hold; its node is not watched yet.
			time.Sleep(time.Millisecond)
			c.lose(t, w.Server, client, hold)
			e := testbed.Receive(t, ended, "the end")
			assert.ErrorIs(t, e.Cause, c.want)
			assert.Equal(t, hold.Err(), e.Cause)
			assert.Equal(t, "/lock", e.Path)
			assert.Equal(t, "lock-", e.Name)
			assert.Equal(t, hold.Path(), e.Node)
			assert.Positive(t, e.Held)
			_ = hold.Release() // the error of the loss
			synctest.Wait()
			assert.Empty(t, ended, "reported once")
		})
	}
}

func TestASlowObserverDoesNotKeepALossFromOthers(t *testing.T) {
	bed := testbed.InProcess(t)
	entered, stuck := make(chan struct{}, 2), make(chan struct{})
	defer close(stuck)
	client := bed.Client(t, lock.WithObserver(lock.Observer{
		Ended: func(context.Context, lock.EndedEvent) {
			entered <- struct{}{}
			<-stuck
		},
	}))
	a, b := acquire(t, newQueue(t, client, "/a")), acquire(t, newQueue(t, client, "/b"))
	bed.ExpireSession(t, client)
	testbed.Receive(t, a.Done(), "the end of a")
	testbed.Receive(t, b.Done(), "the end of b")
	testbed.Receive(t, entered, "the observer")
	testbed.Receive(t, entered, "the observer, again")
}

// TestAcquiresWithAHoldsContextAreReported: they are acquires of their own, and not steps of the
// acquire of that hold.
func TestAcquiresWithAHoldsContextAreReported(t *testing.T) {
	recorded := newRecorder()
	client := testbed.InProcess(t).Client(t, recorded.option())
	leases := newQueue(t, client, "/leases", lock.WithMaxLeases(2), locks.Inside.With(locking.Settings[*lock.Queue]{Another: true}))
	first := acquire(t, leases)
	recorded.expect(t, "<nil>: acquiring /leases lock-", "<nil>+: joined /leases behind 0", "<nil>+: acquired /leases")
	second := acquireIn(t, first.Context(), leases)
	recorded.expect(t, "<nil>+!: acquiring /leases lock-", "<nil>+!+: joined /leases behind 1", "<nil>+!+: acquired /leases")
	require.NoError(t, second.Release())
	recorded.expect(t, "<nil>+!+!: ended /leases: already released")
	require.NoError(t, first.Release())
}

func TestALostPlaceIsJoinedAgain(t *testing.T) {
	server, bed := newServer(t)
	recorded := newRecorder()
	holder := newQueue(t, bed.Client(t), "/lock")
	client := bed.Client(t, recorded.option())
	first := acquire(t, holder)
	done := acquiring(t, as(t, "a"), newQueue(t, client, "/lock"), server, 2)
	recorded.expect(t, "a: acquiring /lock lock-", "a+: joined /lock behind 1")
	bed.ExpireSession(t, client)
	recorded.expect(t, "a+: joined /lock behind 1")
	require.NoError(t, first.Release())
	recorded.expect(t, "a+: acquired /lock")
	require.NoError(t, testbed.Receive(t, done, "a").hold.Release())
	recorded.expect(t, "a+!: ended /lock: already released")
}

// TestObserver_JoinedWithAKeptNode: an acquire that takes over a kept node has one in the queue.
func TestObserver_JoinedWithAKeptNode(t *testing.T) {
	server, joined := zktest.NewServer(t), 0
	client := testbed.On(server).Client(t, lock.WithObserver(lock.Observer{
		Joined: func(context.Context, lock.JoinedEvent) { joined++ },
	}))
	q := newQueue(t, client, "/lock", lock.WithRetention(time.Minute))
	node := ""
	for range 2 {
		hold := acquire(t, q)
		require.Contains(t, []string{"", hold.Path()}, node, "the node is kept")
		node = hold.Path()
		require.NoError(t, hold.Release())
	}
	require.Equal(t, 2, joined)
}

// TestLossesAreLogged is about who looks for the reason later.
func TestLossesAreLogged(t *testing.T) {
	bed := testbed.On(zktest.NewServer(t))
	var log testbed.Output
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	q := newQueue(t, bed.Client(t, framework.WithLogger(logger)), "/lock")
	hold := acquire(t, q)
	require.NoError(t, bed.Client(t).Delete(testbed.Context(t), hold.Path()))
	testbed.Eventually(t, func() bool { return log.String() != "" }, "a line")
	line := log.String()
	require.Contains(t, line, "level=WARN")
	require.Contains(t, line, `msg="lock lost"`)
	require.Contains(t, line, hold.Path())
	require.Contains(t, line, lock.ErrNodeDeleted.Error())

	require.NoError(t, acquire(t, q).Release())
	require.Equal(t, line, log.String(), "a release is no loss")
}

func TestSeveralObserversAreNotifiedInOrder(t *testing.T) {
	var notified []string
	report := func(name string) framework.Option {
		say := func(ctx context.Context, what string) context.Context {
			notified = append(notified, fmt.Sprintf("%s %s after %v", name, what, ctx.Value(origin{})))
			return context.WithValue(ctx, origin{}, name)
		}
		return lock.WithObserver(lock.Observer{
			Acquiring:   func(ctx context.Context, _ lock.AcquiringEvent) context.Context { return say(ctx, "acquiring") },
			Joined:      func(ctx context.Context, _ lock.JoinedEvent) { say(ctx, "joined") },
			Acquired:    func(ctx context.Context, _ lock.AcquiredEvent) context.Context { return say(ctx, "acquired") },
			NotAcquired: func(ctx context.Context, _ lock.NotAcquiredEvent) { say(ctx, "not acquired") },
			Ended:       func(ctx context.Context, _ lock.EndedEvent) { say(ctx, "ended") },
		})
	}
	nothing := lock.WithObserver(lock.Observer{Acquiring: func(context.Context, lock.AcquiringEvent) context.Context { return nil }})
	none := lock.WithObserver(lock.Observer{})
	bed := testbed.InProcess(t)
	a, b := report("a"), report("b")
	q := newQueue(t, bed.Client(t, a, none, nothing, b), "/lock")
	hold := acquireIn(t, as(t, "c"), q)
	require.ErrorIs(t, testbed.Err(q.TryAcquire(as(t, "d"))), lock.ErrNotAcquired)
	require.NoError(t, hold.Release())
	assert.Equal(t, []string{
		"a acquiring after c", "b acquiring after a",
		"a joined after b", "b joined after b",
		"a acquired after b", "b acquired after a",
		"a acquiring after d", "b acquiring after a",
		"a not acquired after b", "b not acquired after b",
		"a ended after b", "b ended after b",
	}, notified)

	notified = nil
	require.NoError(t, newQueue(t, bed.Client(t, b), "/lock").Do(as(t, "e"), func(context.Context) error { return nil }))
	assert.Equal(t, []string{"b acquiring after e", "b joined after b", "b acquired after b", "b ended after b"}, notified,
		"an option may be given to several clients")
	notified = nil
	require.NoError(t, newQueue(t, bed.Client(t), "/lock").Do(as(t, "f"), func(context.Context) error { return nil }))
	assert.Empty(t, notified)
}

// TestNoHoldIsReturnedThatWasLostMeanwhile has an observer take its time, until the lease is lost.
func TestNoHoldIsReturnedThatWasLostMeanwhile(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(lock.WithObserver(lock.Observer{
			Acquired: func(ctx context.Context, e lock.AcquiredEvent) context.Context {
				assert.NoError(t, w.Server.Delete(e.Node))
				time.Sleep(time.Second) // virtual time, in which the loss is reported
				return ctx
			},
		})), "/lock")
		called := false
		require.ErrorIs(t, q.Do(t.Context(), func(context.Context) error { called = true; return nil }), lock.ErrNodeDeleted)
		require.False(t, called)
	})
}

func TestNothingIsBegunForAHoldThatHasEnded(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := newQueue(t, w.Client(), "/lock")
		work := func(context.Context) error { t.Error("it has ended"); return nil }
		hold := acquire(t, q)
		w.Server.CutConnections()
		testbed.Receive(t, hold.Done(), "word of the loss")
		require.ErrorIs(t, hold.Do(t.Context(), work), framework.ErrSuspended)
		group := lock.NewGroup([]*lock.Hold{acquire(t, q)})
		require.NoError(t, group.Release())
		require.ErrorIs(t, group.Do(t.Context(), work), lock.ErrReleased)
		require.NoError(t, acquire(t, q).Release())
	})
}

// TestRefusalNamesReentry: users of Curator for Java expect that a thread re-enters.
func TestRefusalNamesReentry(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		q, other := newQueue(t, client, "/lock", lock.WithReentry()), newQueue(t, w.Client(), "/lock")
		hold := acquire(t, q)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := start(ctx, q.Acquire)
		synctest.Wait() // it waits, and knows for whom
		_, err := q.TryAcquire(t.Context())
		require.EqualError(t, err, "try /lock: not free: held by this client (pass hold.Context() to re-enter)")
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.EqualError(t, testbed.Err(other.TryAcquire(t.Context())), "try /lock: not free")
		cancel()
		err = testbed.Receive(t, waiting, "the end of waiting").err
		require.EqualError(t, err, "acquire /lock: not free: held by this client (pass hold.Context() to re-enter): context canceled")
		require.NoError(t, hold.Release())

		passed := handingOff(t, client)
		hold = acquire(t, passed)
		_, err = passed.TryAcquire(t.Context())
		require.EqualError(t, err, "try /lock: not free: held by this client", "without the option")
		require.NoError(t, hold.Release())
	})
}
