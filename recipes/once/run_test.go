package once_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/once"
)

func TestEvery(t *testing.T) {
	next := once.Every(time.Hour)
	at := func(text string) time.Time { return testbed.Must(time.Parse(time.RFC3339Nano, text)) }
	for from, want := range map[string]string{
		"2026-11-28T10:00:00Z":           "2026-11-28T11:00:00Z",
		"2026-11-28T09:59:59.999999999Z": "2026-11-28T10:00:00Z",
		"2026-11-28T10:30:00+05:30":      "2026-11-28T06:00:00Z",
		"1969-12-31T22:30:00Z":           "1969-12-31T23:00:00Z",
		"1969-12-31T23:00:00Z":           "1970-01-01T00:00:00Z",
		"1969-12-31T23:00:00.000000001Z": "1970-01-01T00:00:00Z",
	} {
		require.True(t, next(at(from)).Equal(at(want)), "%s: %v", from, next(at(from)))
	}
	require.Equal(t, at("2026-11-28T10:00:00Z"), once.Every(0)(at("2026-11-28T10:00:00Z")), "it does not advance, which Run refuses")
}

// calls are the calls of the functions of a fleet.
type calls struct {
	mu      sync.Mutex
	firings []string // "15:00 at 15:00:00.002"
	live    atomic.Int32
}

func (c *calls) add(firing time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.firings = append(c.firings, firing.Format("15:04"))
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.firings
	c.firings = nil
	return all
}

// job is a function that takes d.
func (c *calls) job(t *testing.T, d time.Duration) func(context.Context, time.Time) error {
	return func(ctx context.Context, firing time.Time) error {
		assert.EqualValues(t, 1, c.live.Add(1), "two live functions")
		defer c.live.Add(-1)
		assert.Equal(t, time.UTC, firing.Location())
		assert.False(t, firing.After(time.Now()))
		c.add(firing)
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run starts Run until the returned function is called.
func run(t *testing.T, o *once.Once, next func(time.Time) time.Time, f func(context.Context, time.Time) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := testbed.Go(func() error { return o.Run(ctx, next, f) })
	return func() {
		t.Helper()
		cancel()
		err := testbed.Receive(t, ended, "the end of Run")
		require.ErrorIs(t, err, context.Canceled)
		testbed.OneOp(t, err, "run", o.Path())
	}
}

// In a bubble the time begins at midnight UTC on 1 January 2000.

func TestALongRunLeadsToOneCall(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var c calls
		for range 3 {
			defer run(t, newOnce(w.Client(), "/job"), once.Every(time.Minute), c.job(t, 150*time.Second))()
		}
		time.Sleep(9*time.Minute + time.Second)
		// 00:01 runs until 00:03:30, 00:03 until 00:06, 00:06 until 00:08:30, 00:08 until 00:11.
		require.Equal(t, []string{"00:01", "00:03", "00:06", "00:08"}, c.take())
		time.Sleep(2 * time.Minute) // at 00:11:01
		require.Equal(t, []string{"00:11"}, c.take(), "00:08 has run until 00:11")
	})
}

func TestAnOutageLeadsToOneCall(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var c calls
		client := w.Client()
		stop := run(t, newOnce(client, "/job"), once.Every(time.Minute), c.job(t, time.Second))
		time.Sleep(90 * time.Second)
		require.Equal(t, []string{"00:01"}, c.take())
		stop()
		require.NoError(t, client.Close())
		time.Sleep(100 * time.Hour)
		defer run(t, newOnce(w.Client(), "/job"), once.Every(time.Minute), c.job(t, time.Second))()
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"04:01"}, c.take())
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		time.Sleep(10 * time.Minute)
		w.Server.RefuseConnections(false)
		time.Sleep(2 * time.Minute)
		firings := c.take()
		require.GreaterOrEqual(t, len(firings), 2)
		require.LessOrEqual(t, len(firings), 3, "one for the outage, and the ones after it: %v", firings)
	})
}

func TestMissedFirings(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var c calls
		options := []once.Option{once.WithMissed(10 * time.Minute)}
		stop := run(t, newOnce(w.Client(), "/job", options...), once.Every(time.Hour), c.job(t, time.Second))
		time.Sleep(61 * time.Minute)
		require.Equal(t, []string{"01:00"}, c.take())
		stop()
		time.Sleep(90 * time.Minute) // 02:31
		stop = run(t, newOnce(w.Client(), "/job", options...), once.Every(time.Hour), c.job(t, time.Second))
		time.Sleep(20 * time.Minute)
		require.Empty(t, c.take(), "it is too late for 02:00")
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"03:00"}, c.take())
		stop()
		time.Sleep(65 * time.Minute) // 04:06
		defer run(t, newOnce(w.Client(), "/job", options...), once.Every(time.Hour), c.job(t, time.Second))()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"04:00"}, c.take())
	})
}

// TestRestartsMoreFrequentThanFirings restarts the only process around each firing: none is missed.
func TestRestartsMoreFrequentThanFirings(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var c calls
		client := w.Client()
		for range 10 {
			stop := run(t, newOnce(client, "/job"), once.Every(time.Minute), c.job(t, time.Second))
			time.Sleep(50 * time.Second)
			stop()
			time.Sleep(10*time.Second + 100*time.Millisecond)
		}
		require.Len(t, c.take(), 9)
	})
}

func TestOthersTakeOver(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		first := w.Client()
		var c calls
		began := make(chan struct{}, 1)
		stop := run(t, newOnce(first, "/job"), once.Every(time.Hour), func(ctx context.Context, _ time.Time) error {
			began <- struct{}{}
			<-ctx.Done()
			return nil
		})
		defer stop()
		<-began
		defer run(t, newOnce(w.Client(), "/job"), once.Every(time.Hour), c.job(t, time.Second))()
		time.Sleep(time.Minute)
		require.Empty(t, c.take())
		require.NoError(t, w.Server.ExpireSession(testbed.Session(t, first).ID()))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"01:00"}, c.take())
	})
}

// TestFailuresBackOff counts the calls of a fleet whose function always fails.
func TestFailuresBackOff(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var failures atomic.Int32
		fail := func(context.Context, time.Time) error { failures.Add(1); return errors.New("bad") }
		for range 3 {
			defer run(t, newOnce(w.Client(), "/job"), once.Every(time.Hour), fail)()
		}
		time.Sleep(time.Hour + time.Second/2)
		require.EqualValues(t, 3, failures.Swap(0), "each tries at once")
		time.Sleep(time.Minute)
		n := failures.Swap(0)
		require.GreaterOrEqual(t, n, int32(3*5))
		require.LessOrEqual(t, n, int32(3*7))
		time.Sleep(57 * time.Minute)
		n = failures.Swap(0)
		require.GreaterOrEqual(t, n, int32(3*55))
		require.LessOrEqual(t, n, int32(3*115))
		time.Sleep(2 * time.Minute)
		require.GreaterOrEqual(t, failures.Load(), int32(3), "the next firing is tried at once")
	})
}

func TestRunPassesAPanicOn(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		o := newOnce(client, "/job")
		require.PanicsWithValue(t, "oops", func() {
			_ = o.Run(context.Background(), once.Every(time.Minute), func(context.Context, time.Time) error { panic("oops") })
		})
		var all sync.WaitGroup
		all.Go(func() {
			_ = o.Run(context.Background(), once.Every(time.Minute), func(context.Context, time.Time) error { runtime.Goexit(); return nil })
		})
		all.Wait()
		noLock(t, client, "/job")
		var c calls
		defer run(t, newOnce(w.Client(), "/job"), once.Every(time.Minute), c.job(t, 0))()
		time.Sleep(time.Minute)
		require.NotEmpty(t, c.take())
	})
}

func TestErrorsOfRun(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		o := newOnce(client, "/job")
		never := func(context.Context, time.Time) error { assert.Fail(t, "called"); return nil }
		for _, next := range []func(time.Time) time.Time{
			once.Every(0), once.Every(-1),
			func(t time.Time) time.Time { return t },
			func(time.Time) time.Time { return time.Time{} }, // as of a cron expression that never fires
		} {
			err := o.Run(context.Background(), next, never)
			testbed.OneOp(t, err, "run", "/job")
			require.ErrorIs(t, err, framework.ErrBadArgument)
		}
		bad := errors.New("bad")
		ctx, cancel := context.WithCancel(context.Background())
		err := o.Run(ctx, once.Every(time.Minute), func(context.Context, time.Time) error { cancel(); return bad })
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, bad)

		time.AfterFunc(time.Minute, func() { client.Close() })
		err = o.Run(context.Background(), once.Every(time.Hour), never)
		testbed.OneOp(t, err, "run", "/job")
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// TestTheServersClockDecides sets the servers' clock half an hour ahead. The process learns that at
// the next firing that is due by its own.
func TestTheServersClockDecides(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var c calls
		o := newOnce(w.Client(), "/job")
		f := func(_ context.Context, firing time.Time) error { c.add(firing); return nil }
		defer run(t, o, once.Every(time.Hour), f)()
		time.Sleep(time.Minute)
		w.Server.Advance(30 * time.Minute)
		time.Sleep(60 * time.Minute) // 01:31 by the servers' clock
		require.Equal(t, []string{"01:00"}, c.take())
		time.Sleep(30 * time.Minute) // 02:01
		require.Equal(t, []string{"02:00"}, c.take())
	})
}

// TestFiringsInAnyOrderOfRestarts has a fleet whose members come and go.
func TestFiringsInAnyOrderOfRestarts(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var mu sync.Mutex
		seen := map[time.Time]int{}
		f := func(_ context.Context, firing time.Time) error {
			mu.Lock()
			defer mu.Unlock()
			seen[firing]++
			return nil
		}
		var all sync.WaitGroup
		for i := range 5 {
			client := w.Client()
			all.Go(func() {
				for j := range 6 {
					ctx := testbed.Timeout(t, time.Duration(7*i+13*j+5)*6*time.Second)
					err := newOnce(client, "/job").Run(ctx, once.Every(time.Minute), f)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		}
		all.Wait()
		require.Greater(t, len(seen), 20)
		for firing, n := range seen {
			require.Equal(t, 1, n, "%v", firing)
		}
	})
}

// TestForgetBesideRun forgets the latest firing. A call of Run that knows it does not run it again, and
// a call that begins later does.
func TestForgetBesideRun(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		o := newOnce(w.Client(), "/job")
		var c calls
		defer run(t, o, once.Every(time.Hour), c.job(t, 0))()
		time.Sleep(90 * time.Minute) // virtual time: the firing of 01:00 is over
		require.Equal(t, []string{"01:00"}, c.take())
		all := records(t, o)
		require.Len(t, all, 1)
		require.NoError(t, o.Forget(t.Context(), all[0].Key))
		time.Sleep(10 * time.Minute) // virtual time, in which it must not run again
		require.Empty(t, c.take())

		later := testbed.Timeout(t, 10*time.Minute)
		require.ErrorIs(t, newOnce(w.Client(), "/job").Run(later, once.Every(time.Hour), c.job(t, 0)), context.DeadlineExceeded)
		require.Equal(t, []string{"01:00"}, c.take())
		time.Sleep(30 * time.Minute) // virtual time: the firing of 02:00 is over
		require.Equal(t, []string{"02:00"}, c.take())
	})
}

// A view of one session waits for no other session: Run ends with it.
func TestRun_InAViewOfALostSession(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		session := testbed.Session(t, client)
		o := newOnce(client.In(session), faultPath)
		fired := make(chan time.Time, 1)
		done := testbed.Go(func() error {
			return o.Run(t.Context(), once.Every(time.Minute), func(_ context.Context, firing time.Time) error {
				fired <- firing
				return nil
			})
		})
		testbed.Receive(t, fired, "the first firing")
		require.NoError(t, w.Server.ExpireSession(session.ID()))
		require.ErrorIs(t, testbed.Receive(t, done, "the end of Run"), framework.ErrSessionLost)
	})
}
