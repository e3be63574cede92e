package once_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/zktest"
)

// TestEntriesThatDelayNothing has records whose newest entry is of another version, or was
// forgotten. An interval is over all the same, and the times of the other entries stay.
func TestEntriesThatDelayNothing(t *testing.T) {
	for name, c := range map[string]struct {
		newest string
		future bool // the interval counts from the first call
	}{
		"another kind":                  {`{"kind":"x"}`, false},
		"a number":                      {`42`, false},
		"null":                          {`null`, false},
		"a key of another type":         {`{"key":7}`, false},
		"a time of another form":        {`{"key":"b","at":"never"}`, false},
		"forgotten":                     {`{"by":"x","id":"j","at":"1999-12-31T00:00:00Z"}`, false},
		"forgotten by a clock set back": {`{"by":"x","id":"j","at":"2100-01-01T00:00:00Z"}`, true},
		"recorded by a clock set back":  {`{"key":"b","by":"x","id":"j","at":"2100-01-01T00:00:00Z"}`, true},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			record := `{"n":2,"done":[{"key":"a","by":"x","id":"i","at":"1999-12-31T00:00:00Z"},` + c.newest + `]}`
			require.NoError(t, w.Server.Create(faultPath+"/once", []byte(record)))
			o := newOnce(w.Client(), faultPath, once.WithMinInterval(time.Minute))
			if c.future {
				require.ErrorContains(t, testbed.Err(o.Do(testbed.Context(t), "key", never(t))), "1m0s left")
				time.Sleep(time.Minute) // virtual time: what the error says is left
			}
			ran(t, o, "key")
			all := records(t, o)
			require.Equal(t, "key", all[0].Key)
			require.Equal(t, once.Record{Key: "a", By: "x", At: time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)}, all[len(all)-1])
		})
	}
}

// TestNoRoomIsFoundBeforeTheFunction has fields of another version that leave no room for one more
// record.
func TestNoRoomIsFoundBeforeTheFunction(t *testing.T) {
	const limit = 20_000
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		o := newOnce(w.Client(framework.WithMaxRequest(limit)), faultPath, once.WithKeep(10))
		require.NoError(t, w.Server.Create(faultPath+"/once", []byte(`{"n":0,"done":[]}`)))
		refused := 0
		for size := limit - 1000; size < limit+100; size += 10 {
			require.NoError(t, w.Server.Set(faultPath+"/once", fmt.Appendf(nil, `{"n":0,"done":[],"later":%q}`, strings.Repeat("x", size))))
			called := false
			r, err := o.Do(testbed.Context(t), "key", func(context.Context) error { called = true; return nil })
			if err == nil {
				require.True(t, r.Ran)
				continue
			}
			require.ErrorIs(t, err, framework.ErrTooLong)
			require.False(t, called)
			refused++
		}
		require.Greater(t, refused, 10)
		require.Less(t, refused, 100)
	})
}

// TestForgetRemovesOneSuccess loses the reply of a Forget, and has the key run again before the
// request is repeated.
func TestForgetRemovesOneSuccess(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		o, other := newOnce(client, faultPath), newOnce(w.Client(), faultPath)
		ran(t, other, "key")
		mine := zktest.OnSession(testbed.Session(t, client).ID())
		lost := w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("setData"), mine)
		again := w.Server.Block(zktest.OnOp("setData", "getData"), mine, zktest.On(func(zktest.Request) bool { return lost.Met() }))
		forgotten := testbed.Go(func() error { return o.Forget(context.Background(), "key") })
		testbed.Receive(t, again.Arrived(), "the second request")
		ran(t, other, "key")
		again.Open()
		require.NoError(t, testbed.Receive(t, forgotten, "the result"))
		done(t, other, "key")
	})
}

// TestNumbersStartAgain has numbers of lock nodes that near their end. The record keeps its
// successes, their times, its ACL and the time of its creation.
func TestNumbersStartAgain(t *testing.T) {
	for name, opts := range map[string][]once.Option{
		"":             nil,
		"with a delay": {once.WithLock(lock.WithLockDelay(time.Second))},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			o := newOnce(w.Client(framework.WithCompression()), faultPath, opts...)
			a := ran(t, o, "a")
			since := time.Now()
			time.Sleep(time.Minute) // virtual time between two successes
			b := ran(t, o, "b")
			node := func(key string) (path string) { // of the call's lock
				r, err := o.Do(testbed.Context(t), key, func(ctx context.Context) error {
					hold, err := once.Hold(ctx)
					path = hold.Path()
					return err
				})
				require.NoError(t, err)
				require.True(t, r.Ran)
				return path
			}
			for i, next := range []int32{1 << 30, 2147483647} {
				time.Sleep(time.Minute) // virtual time between two successes
				require.NoError(t, w.Server.SetSequence(faultPath, next))
				if next == 1<<30 { // not while another contender is in the queue
					hold := testbed.Acquire(t, testbed.Must(mutex.New(w.Client(), faultPath)))
					require.ErrorIs(t, testbed.Err(o.TryDo(testbed.Context(t), "c", never(t))), once.ErrRunning)
					require.NoError(t, hold.Release())
				} else {
					_, err := o.Do(testbed.Context(t), "c", never(t))
					require.ErrorIs(t, err, lock.ErrSequenceExhausted)
				}
				require.NotContains(t, node(fmt.Sprint(i)), "-2147483647")
				require.Contains(t, node(fmt.Sprint(i, " again")), "-lock-000000000")
			}
			all := records(t, o)
			require.Len(t, all, 6)
			a.Ran, b.Ran = false, false
			require.Equal(t, []once.Record{b, a}, all[4:])
			require.Contains(t, testbed.ServerData(t, w.Server, faultPath+"/once"), `"since":"`+since.UTC().Format(time.RFC3339))
		})
	}
}

// TestNumbersStartAgainBetweenFirings has the record node created again while a firing is due: it
// runs.
func TestNumbersStartAgainBetweenFirings(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		o := newOnce(w.Client(), faultPath)
		var c calls
		run := func(d time.Duration) {
			require.ErrorIs(t, o.Run(testbed.Timeout(t, d), once.Every(time.Hour), c.job(t, 0)), context.DeadlineExceeded)
		}
		run(30 * time.Minute)
		require.Empty(t, c.take())
		time.Sleep(time.Hour) // virtual time: a firing is missed
		require.NoError(t, w.Server.SetSequence(faultPath, 1<<30))
		ran(t, o, "a")
		run(20 * time.Minute)
		require.Equal(t, []string{"01:00"}, c.take())
	})
}
