package queue_test

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
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// origin is a key of the contexts that recorders are called with.
type origin struct{}

// recorder is an observer of locks that records its calls, each with the acquire that it is about: the value
// of origin, with what Acquiring and Acquired have added.
type recorder struct{ lines chan string }

func newRecorder() *recorder { return &recorder{make(chan string, 100)} }

func (r *recorder) option() framework.Option {
	say := func(ctx context.Context, format string, args ...any) {
		r.lines <- fmt.Sprintf("%v: ", ctx.Value(origin{})) + fmt.Sprintf(format, args...)
	}
	mark := func(ctx context.Context, what string) context.Context {
		return context.WithValue(ctx, origin{}, fmt.Sprint(ctx.Value(origin{}))+what)
	}
	return framework.WithObserver(framework.Observer{
		Acquiring: func(ctx context.Context, e framework.AcquiringEvent) context.Context {
			say(ctx, "acquiring %s %s", e.Path, e.Name)
			return mark(ctx, "+")
		},
		Joined: func(ctx context.Context, e framework.JoinedEvent) {
			say(ctx, "joined %s behind %d", e.Path, e.Ahead)
		},
		Acquired: func(ctx context.Context, e framework.AcquiredEvent) context.Context {
			say(ctx, "acquired %s", e.Path)
			return mark(ctx, "!")
		},
		NotAcquired: func(ctx context.Context, e framework.NotAcquiredEvent) {
			say(ctx, "not acquired %s: %v", e.Path, e.Err)
		},
		Ended: func(ctx context.Context, e framework.EndedEvent) {
			say(ctx, "ended %s: %v", e.Path, e.Cause)
		},
	})
}

// expect checks that these lines come next, in this order.
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
	q := newQueue(t, testbed.On(server).Client(t, recorded.option()), "/lock")
	other := newQueue(t, testbed.On(server).Client(t, recorded.option()), "/lock")

	first, err := q.Acquire(as(t, "a"))
	require.NoError(t, err)
	recorded.expect(t, "a: acquiring /lock lock-", "a+: joined /lock behind 0", "a+: acquired /lock")
	assert.Equal(t, "a+!", first.Context().Value(origin{}), "the hold goes on with the observer's values")

	inner, err := q.Acquire(first.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Release())
	recorded.none(t) // re-entrance is not reported

	_, err = other.TryAcquire(as(t, "b"))
	require.ErrorIs(t, err, queue.ErrNotAcquired)
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
	require.ErrorIs(t, hold.Release(), queue.ErrReleased)
	recorded.none(t)
}

func TestObserversAreNotifiedOfLosses(t *testing.T) {
	for name, c := range map[string]struct {
		opts []queue.Option
		lose func(t *testing.T, server *zktest.Server, client *framework.Client, hold *queue.Hold)
		want error
	}{
		"session": {[]queue.Option{lock.WithErrorPolicy(connstate.Session)}, func(t *testing.T, server *zktest.Server, client *framework.Client, _ *queue.Hold) {
			testbed.On(server).KillSession(t, client)
		}, framework.ErrSessionLost},
		"connection": {nil, func(_ *testing.T, server *zktest.Server, _ *framework.Client, _ *queue.Hold) {
			server.CutConnections()
		}, framework.ErrSuspended},
		"client": {nil, func(_ *testing.T, _ *zktest.Server, client *framework.Client, _ *queue.Hold) {
			client.Close()
		}, framework.ErrClosed},
		"time": {[]queue.Option{lock.WithMaxHold(2 * time.Millisecond)}, func(*testing.T, *zktest.Server, *framework.Client, *queue.Hold) {
		}, queue.ErrMaxHold},
		"node": {nil, func(t *testing.T, server *zktest.Server, _ *framework.Client, hold *queue.Hold) {
			require.NoError(t, server.Delete(hold.Path()))
		}, queue.ErrNodeDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, server *zktest.Server, newClient func(...framework.Option) *framework.Client) {
				ended := make(chan framework.EndedEvent, 2)
				client := newClient(framework.WithObserver(framework.Observer{
					Ended: func(_ context.Context, e framework.EndedEvent) { ended <- e },
				}))
				hold := acquire(t, newQueue(t, client, "/lock", c.opts...))
				time.Sleep(time.Millisecond) // virtual time, in which it is held; its node is not watched yet
				c.lose(t, server, client, hold)
				e := testbed.Receive(t, ended, "the end")
				assert.ErrorIs(t, e.Cause, c.want)
				assert.Equal(t, hold.Err(), e.Cause)
				assert.Equal(t, "/lock", e.Path)
				assert.Equal(t, "lock-", e.Name)
				assert.Equal(t, hold.Path(), e.Node)
				assert.Positive(t, e.Held)
				_ = hold.Release() // it says what was lost
				synctest.Wait()
				assert.Empty(t, ended, "reported once")
			})
		})
	}
}

func TestASlowObserverDoesNotKeepALossFromOthers(t *testing.T) {
	server := zktest.NewServer(t)
	entered, stuck := make(chan struct{}, 2), make(chan struct{})
	defer close(stuck)
	client := testbed.On(server).Client(t, framework.WithObserver(framework.Observer{
		Ended: func(context.Context, framework.EndedEvent) {
			entered <- struct{}{}
			<-stuck
		},
	}))
	a, b := acquire(t, newQueue(t, client, "/a")), acquire(t, newQueue(t, client, "/b"))
	testbed.On(server).KillSession(t, client)
	testbed.Receive(t, a.Done(), "the end of a")
	testbed.Receive(t, b.Done(), "the end of b")
	testbed.Receive(t, entered, "the observer")
	testbed.Receive(t, entered, "the observer, again")
}

// TestAHoldsContextIsTheSameWithAnObserver: what is done with it belongs to the hold's session.
func TestAHoldsContextIsTheSameWithAnObserver(t *testing.T) {
	for name, opts := range map[string][]framework.Option{
		"without": nil,
		"with":    {newRecorder().option()},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := testbed.On(server).Client(t, opts...)
			hold := acquire(t, newQueue(t, client, "/lock"))
			testbed.On(server).KillSession(t, client)
			testbed.Receive(t, hold.Done(), "the loss")
			testbed.Receive(t, hold.Session().Done(), "the end of the session")
			_, _, err := client.Get(context.WithoutCancel(hold.Context()), "/lock")
			assert.ErrorIs(t, err, framework.ErrSessionLost)
		})
	}
}

// TestAcquiresWithAHoldsContextAreReported: they are acquires of their own, and not steps of the one that the hold comes from.
func TestAcquiresWithAHoldsContextAreReported(t *testing.T) {
	recorded := newRecorder()
	client := testbed.InProcess(t).Client(t, recorded.option())
	leases := newQueue(t, client, "/leases", lock.WithMaxLeases(2), opt.Set(func(c *queue.Config) { c.Plain = true }))
	first := acquire(t, leases)
	recorded.expect(t, "<nil>: acquiring /leases lock-", "<nil>+: joined /leases behind 0", "<nil>+: acquired /leases")
	second, err := leases.Acquire(first.Context())
	require.NoError(t, err)
	recorded.expect(t, "<nil>+!: acquiring /leases lock-", "<nil>+!+: joined /leases behind 1", "<nil>+!+: acquired /leases")
	require.NoError(t, second.Release())
	recorded.expect(t, "<nil>+!+!: ended /leases: already released")
	next, err := first.Requeue(context.WithoutCancel(first.Context()))
	require.NoError(t, err)
	recorded.expect(t, "<nil>+!: ended /leases: already released",
		"<nil>+!: acquiring /leases lock-", "<nil>+!+: joined /leases behind 0", "<nil>+!+: acquired /leases")
	require.NoError(t, next.Release())
}

func TestALostPlaceIsJoinedAgain(t *testing.T) {
	server := zktest.NewServer(t)
	recorded := newRecorder()
	holder := newQueue(t, testbed.On(server).Client(t), "/lock")
	client := testbed.On(server).Client(t, recorded.option())
	first := acquire(t, holder)
	done := acquiring(t, as(t, "a"), newQueue(t, client, "/lock"), server, 2)
	recorded.expect(t, "a: acquiring /lock lock-", "a+: joined /lock behind 1")
	testbed.On(server).KillSession(t, client)
	recorded.expect(t, "a+: joined /lock behind 1")
	require.NoError(t, first.Release())
	recorded.expect(t, "a+: acquired /lock")
	require.NoError(t, testbed.Receive(t, done, "a").hold.Release())
	recorded.expect(t, "a+!: ended /lock: already released")
}

// TestLossesAreLogged is about who looks for the reason later.
func TestLossesAreLogged(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	lines := make(chan string, 100)
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		lines <- string(p)
		return len(p), nil
	}), &slog.HandlerOptions{Level: slog.LevelWarn}))
	q := newQueue(t, bed.Client(t, framework.WithLogger(logger)), "/lock")
	hold := acquire(t, q)
	require.NoError(t, bed.Client(t).Delete(testbed.Context(t), hold.Path(), -1))
	line := testbed.Receive(t, lines, "a line")
	require.Contains(t, line, "level=WARN")
	require.Contains(t, line, `msg="lock lost"`)
	require.Contains(t, line, hold.Path())
	require.Contains(t, line, queue.ErrNodeDeleted.Error())

	require.NoError(t, acquire(t, q).Release())
	require.Empty(t, lines, "a release is no loss")
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestNoHoldIsReturnedThatWasLostMeanwhile has an observer take its time, until the lease is lost.
func TestNoHoldIsReturnedThatWasLostMeanwhile(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := newQueue(t, client(framework.WithObserver(framework.Observer{
			Acquired: func(ctx context.Context, e framework.AcquiredEvent) context.Context {
				assert.NoError(t, server.Delete(e.Node))
				time.Sleep(time.Second) // virtual time, in which the loss is reported
				return ctx
			},
		})), "/lock")
		called := false
		require.ErrorIs(t, q.Do(t.Context(), func(context.Context) error { called = true; return nil }), queue.ErrNodeDeleted)
		require.False(t, called)
	})
}

func TestNothingIsBegunForAHoldThatHasEnded(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		q := newQueue(t, client(), "/lock")
		work := func(context.Context) error { t.Error("it has ended"); return nil }
		hold := acquire(t, q)
		server.CutConnections()
		testbed.Receive(t, hold.Done(), "word of the loss")
		require.ErrorIs(t, hold.Do(t.Context(), work), framework.ErrSuspended)
		group := queue.NewGroup([]*queue.Hold{acquire(t, q)})
		require.NoError(t, group.Release())
		require.ErrorIs(t, group.Do(t.Context(), work), queue.ErrReleased)
		require.NoError(t, acquire(t, q).Release())
	})
}

// TestRefusalNamesReentry: whoever comes from Curator for Java expects that its thread re-enters.
func TestRefusalNamesReentry(t *testing.T) {
	bed := testbed.InProcess(t)
	client := bed.Client(t)
	q, other := newQueue(t, client, "/lock"), newQueue(t, bed.Client(t), "/lock")
	hold := acquire(t, q)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	waiting := inLine(ctx, q)
	testbed.Eventually(t, func() bool { ps, err := q.Participants(ctx); return err == nil && len(ps) == 2 }, "it waits")
	_, err := q.TryAcquire(testbed.Context(t))
	require.EqualError(t, err, "try /lock: not free: held by this client (pass hold.Context() to re-enter)")
	require.ErrorIs(t, err, queue.ErrNotAcquired)
	_, err = other.TryAcquire(testbed.Context(t))
	require.EqualError(t, err, "try /lock: not free")
	cancel()
	err = testbed.Receive(t, waiting, "the end of waiting").err
	require.EqualError(t, err, "acquire /lock: not free: held by this client (pass hold.Context() to re-enter): context canceled")
	require.NoError(t, hold.Release())

	passed := handingOff(t, client, 10)
	hold = acquire(t, passed)
	_, err = passed.TryAcquire(testbed.Context(t))
	require.EqualError(t, err, "try /lock: not free: held by this client (pass hold.Context() to re-enter)")
	require.NoError(t, hold.Release())
}
