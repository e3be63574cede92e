package once_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

const (
	faultPath   = "/deep/down/job"
	counterPath = "/counter"
)

// counter counts the calls of a function, and the letters that it adds to a node with Commit.
type counter struct{ calls, live atomic.Int32 }

func (c *counter) increment(t *testing.T, client *framework.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		c.calls.Add(1)
		assert.EqualValues(t, 1, c.live.Add(1), "two live functions")
		defer c.live.Add(-1)
		data, stat, err := client.Get(ctx, counterPath)
		if err != nil {
			return err
		}
		return once.Commit(ctx, &zk.SetDataRequest{Path: counterPath, Data: append(data, 'x'), Version: stat.Version})
	}
}

// recorded returns how often the key is in the record node.
func recorded(s *zktest.Server, key string) int {
	data, _ := s.Get(faultPath + "/once")
	return strings.Count(string(data), `"key":"`+key+`"`)
}

// committedOnce requires that the key is recorded once, and that its operations are carried out
// once.
func committedOnce(t *testing.T, s *zktest.Server) {
	t.Helper()
	require.Equal(t, 1, recorded(s, "key"))
	require.Len(t, testbed.ServerData(t, s, counterPath), 1)
}

// TestAnyRequestFailing has each request of a call fail. The result is true: the success is
// recorded and its operations are carried out once, or neither. The next call leaves one record.
func TestAnyRequestFailing(t *testing.T) {
	for _, c := range []struct {
		name string
		do   method
		opts []once.Option
		held bool
	}{
		{name: "Do", do: (*once.Once).Do},
		{name: "TryDo", do: (*once.Once).TryDo},
		{name: "Do with an interval", do: (*once.Once).Do, opts: []once.Option{once.WithMinInterval(time.Nanosecond)}},
		{name: "Do with a delay", do: (*once.Once).Do, opts: []once.Option{once.WithLock(lock.WithLockDelay(time.Second))}},
		{name: "Do behind another", do: (*once.Once).Do, held: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
				s.Spare(true)
				testbed.Create(t, s.Other, counterPath, []byte{})
				subject, other := newOnce(s.Subject, faultPath, c.opts...), newOnce(s.Other, faultPath, c.opts...)
				if c.held {
					hold := testbed.Acquire(t, testbed.Must(mutex.New(s.Other, faultPath)))
					time.AfterFunc(time.Second, func() { assert.NoError(t, hold.Release()) })
				}
				s.Spare(false)
				var count counter
				r, err := c.do(subject, testbed.Context(t), "key", count.increment(t, s.Subject))
				method, _, _ := strings.Cut(c.name, " ")
				testbed.Listed(t, subject, method, err)
				s.Spare(true)
				letters := testbed.ServerData(t, s.Server, counterPath)
				require.Len(t, letters, recorded(s.Server, "key"), "a record and the operations are one")
				switch {
				case err == nil:
					require.True(t, r.Ran)
					require.NotZero(t, r.At)
					require.Equal(t, 1, recorded(s.Server, "key"))
				case !retry.Unknown(err):
					require.Zero(t, recorded(s.Server, "key"), "%v", err)
					fallthrough
				default:
					require.True(t, errors.Is(err, framework.ErrLost) || r.Ran || retry.Unknown(err), "%v", err)
				}
				if !s.Expires {
					require.NoError(t, err, "one lost request or reply does not fail a call, with this policy")
				}
				require.NoError(t, testbed.Err(other.Do(testbed.Context(t), "key", count.increment(t, s.Other))))
				committedOnce(t, s.Server)
				testbed.Eventually(t, func() bool {
					children, err := s.Server.Children(faultPath)
					return err == nil && len(children) == 1 || len(children) == 2 && c.opts != nil
				}, "no node is left")
			}, framework.WithErrorPolicy(connstate.LostEndsHold))
		})
	}
}

// onRecording selects the transaction that records, by its check and its deletion of the lock's
// node.
func onRecording() zktest.Match {
	return zktest.On(func(r zktest.Request) bool {
		return r.Op == "multi" && len(r.Parts) > 2 && r.Parts[len(r.Parts)-1].Op == "delete"
	})
}

// TestRecordingIsRepeated loses requests and replies of the recording, several of them.
func TestRecordingIsRepeated(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{"requests": zktest.FailBefore, "replies": zktest.LoseReply} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			client := w.Client(framework.WithRetryPolicy(retry.Never()))
			require.NoError(t, w.Server.Create(counterPath, nil))
			o := newOnce(client, faultPath)
			ran(t, o, "before")
			var faults []*zktest.Injection
			for range 7 {
				faults = append(faults, w.Server.Inject(fault, 0, onRecording()))
			}
			var count counter
			r, err := o.Do(testbed.Context(t), "key", count.increment(t, client))
			require.NoError(t, err)
			require.True(t, r.Ran)
			require.NotZero(t, r.At)
			require.True(t, faults[0].Met())
			committedOnce(t, w.Server)
		})
	}
}

// TestRecordingOutlastsASuspension cuts the connection while the recording is sent, and lets the
// client connect again later.
func TestRecordingOutlastsASuspension(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		o := newOnce(w.Client(framework.WithErrorPolicy(connstate.LostEndsHold)), faultPath)
		ran(t, o, "before")
		r, err := o.Do(testbed.Context(t), "key", func(context.Context) error {
			w.Server.RefuseConnections(true)
			w.Server.CutConnections()
			time.AfterFunc(5*time.Second, func() { w.Server.RefuseConnections(false) })
			synctest.Wait()
			return nil
		})
		require.NoError(t, err)
		require.True(t, r.Ran)
		require.Equal(t, 1, recorded(w.Server, "key"))
	})
}

// What becomes of a record before a client looks for its success.
const (
	isForgotten = -1 - iota // the key
	isDeleted               // the node
	isReplaced              // the node
)

// TestRecordingAfterTheSession has the session end while the reply to the recording is lost.
func TestRecordingAfterTheSession(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    zktest.Fault
		recorded bool // the transaction was applied
		between  int  // successes of another client before the first one asks; or one of what follows
		unknown  bool
		created  bool // by the recording, since the record was deleted while the function ran
	}{
		{"applied", zktest.ExpireAfter, true, 0, false, false},
		{"not applied", zktest.ExpireBefore, false, 0, false, false},
		{"applied, and others have succeeded since", zktest.ExpireAfter, true, 2, false, false},
		{"not applied, and others have succeeded since", zktest.ExpireBefore, false, 2, false, false},
		{"applied, and forgotten since", zktest.ExpireAfter, true, isForgotten, false, false},
		{"applied, and pruned since", zktest.ExpireAfter, true, 3, true, false},
		{"applied, and the record deleted since", zktest.ExpireAfter, true, isDeleted, true, false},
		{"applied, and the record replaced since", zktest.ExpireAfter, true, isReplaced, true, false},
		{"not applied, and more than are kept have succeeded since", zktest.ExpireBefore, false, 4, true, false},
		{"created", zktest.ExpireAfter, true, 1, false, true},
		{"not created", zktest.ExpireBefore, false, 0, true, true},
		{"not created, and others have succeeded since", zktest.ExpireBefore, false, 1, true, true},
	} {
		testbed.RunWorld(t, c.name, func(t *testing.T, w *testbed.World) {
			client, second := w.Client(), w.Client()
			o, other := newOnce(client, faultPath, once.WithKeep(3)), newOnce(second, faultPath, once.WithKeep(3))
			ran(t, other, "before")
			mine, theirs := testbed.Session(t, client), testbed.Session(t, second)
			before, work := 0, succeed
			if c.created {
				before, work = 1, func(context.Context) error { return w.Server.Delete(faultPath + "/once") }
			}
			fault := w.Server.Inject(c.fault, before, onRecording())
			// The first client looks for its record when the others have succeeded.
			gate := w.Server.Block(zktest.OnOp("delete", "getData"), zktest.On(func(r zktest.Request) bool {
				return fault.Met() && r.Session != mine.ID() && r.Session != theirs.ID()
			}))
			var r once.Record
			result := testbed.Go(func() (err error) {
				r, err = o.Do(context.Background(), "key", work)
				return err
			})
			testbed.Receive(t, gate.Arrived(), "the look for the record")
			for i := range max(c.between, 0) {
				ran(t, other, string(rune('a'+i)))
			}
			switch c.between {
			case isForgotten:
				require.NoError(t, other.Forget(testbed.Context(t), "key"))
			case isDeleted, isReplaced:
				require.NoError(t, w.Server.Delete(faultPath+"/once"))
				if c.between == isReplaced {
					ran(t, other, "another")
				}
			}
			gate.Open()
			err := testbed.Receive(t, result, "the result")
			require.True(t, r.Ran, "%v", err)
			require.Equal(t, c.unknown, retry.Unknown(err))
			if c.recorded && !c.unknown {
				require.NoError(t, err)
				require.NotZero(t, r.At)
				return
			}
			testbed.OneOp(t, err, "do", faultPath)
			require.ErrorIs(t, err, framework.ErrSessionLost)
			if c.unknown {
				require.ErrorContains(t, err, "not known to be recorded")
			} else {
				require.ErrorContains(t, err, "succeeded, but not recorded")
			}
		})
	}
}

// TestRecordingWhoseRecordCannotBeReadAgain has the recording refused, since the record has changed,
// and then the read of the record fail.
func TestRecordingWhoseRecordCannotBeReadAgain(t *testing.T) {
	for _, fault := range testbed.Faults {
		testbed.RunWorld(t, fault.String(), func(t *testing.T, w *testbed.World) {
			client := w.Client(framework.WithRetryPolicy(retry.Never()))
			o, other := newOnce(client, faultPath), newOnce(w.Client(), faultPath)
			ran(t, other, "before")
			mine := zktest.OnSession(testbed.Session(t, client).ID())
			var read *zktest.Injection
			r, err := o.Do(testbed.Context(t), "key", func(context.Context) error {
				require.NoError(t, other.Forget(testbed.Context(t), "before"))
				read = w.Server.Inject(fault, 0, zktest.OnOp("getData"), mine)
				return nil
			})
			require.True(t, read.Met())
			require.True(t, r.Ran)
			if fault == zktest.FailBefore || fault == zktest.LoseReply { // the recording is repeated
				require.NoError(t, err)
				require.Equal(t, 1, recorded(w.Server, "key"))
				return
			}
			testbed.OneOp(t, err, "do", faultPath)
			require.ErrorIs(t, err, framework.ErrSessionLost)
			require.False(t, retry.Unknown(err), "%v", err)
			require.Zero(t, recorded(w.Server, "key"))
		})
	}
}

// TestALostLockIsNotRecorded ends the session while the function runs, which returns nil.
func TestALostLockIsNotRecorded(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		o, other := newOnce(client, faultPath), newOnce(w.Client(), faultPath)
		s := testbed.Session(t, client)
		r, err := o.Do(testbed.Context(t), "key", func(ctx context.Context) error {
			require.NoError(t, w.Server.ExpireSession(s.ID()))
			<-ctx.Done()
			return nil
		})
		testbed.OneOp(t, err, "do", faultPath)
		require.ErrorIs(t, err, framework.ErrLost)
		require.False(t, r.Ran)
		require.False(t, retry.Unknown(err))
		require.Zero(t, recorded(w.Server, "key"))
		ran(t, other, "key")
	})
}

// TestALateLossIsNotRecorded deletes the lock's node at the end of the function: another process
// has run the key since, and the transaction of the first is refused.
func TestALateLossIsNotRecorded(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		require.NoError(t, w.Server.Create(counterPath, nil))
		o, other := newOnce(client, faultPath), newOnce(w.Client(), faultPath)
		ran(t, o, "before")
		var first, second counter
		increment := first.increment(t, client)
		_, err := o.Do(testbed.Context(t), "key", func(ctx context.Context) error {
			hold, err := once.Hold(ctx)
			require.NoError(t, err)
			require.NoError(t, increment(ctx))
			mine := hold.Session().ID()
			// The first client does not notice in time, as a suspended process.
			w.Server.Freeze(mine)
			require.NoError(t, w.Server.Delete(hold.Path()))
			require.NoError(t, testbed.Err(other.Do(testbed.Context(t), "key", second.increment(t, w.Client()))))
			time.AfterFunc(time.Second, func() { w.Server.Thaw(mine) })
			return nil
		})
		require.Error(t, err)
		require.False(t, retry.Unknown(err), "%v", err)
		committedOnce(t, w.Server)
	})
}

// TestWaitersNoticeASuccessAtOnce has another contender between the runner and the waiters, which
// holds the lock for a minute: the waiters return before.
func TestWaitersNoticeASuccessAtOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		runner := newOnce(w.Client(), faultPath)
		ran(t, runner, "before")
		m := testbed.Must(mutex.New(w.Client(), faultPath))
		const n = 5
		notified := make(chan time.Time, n)
		var held sync.WaitGroup
		_, err := runner.Do(testbed.Context(t), "key", func(context.Context) error {
			held.Go(func() {
				assert.NoError(t, m.Do(context.Background(), func(context.Context) error { time.Sleep(time.Minute); return nil }))
			})
			time.Sleep(time.Second) // virtual time, until it is in the queue
			for range n {
				o := newOnce(w.Client(), faultPath)
				go func() {
					r, err := o.Do(context.Background(), "key", never(t))
					assert.NoError(t, err)
					assert.False(t, r.Ran)
					assert.NotEmpty(t, r.By)
					notified <- time.Now()
				}()
			}
			time.Sleep(time.Second)
			return nil
		})
		require.NoError(t, err)
		recorded := time.Now()
		held.Wait()
		for range n {
			require.WithinDuration(t, recorded, <-notified, time.Second)
		}
	})
}

// TestASuccessBetweenTheLookAndTheLock has another process run the key after a call has looked, and
// release the lock before the call creates its node.
func TestASuccessBetweenTheLookAndTheLock(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		o, other := newOnce(client, faultPath), newOnce(w.Client(), faultPath)
		ran(t, other, "before")
		gate := w.Server.Block(zktest.OnCreate(), zktest.OnSession(testbed.Session(t, client).ID()))
		called := testbed.Go(func() error {
			r, err := o.Do(context.Background(), "key", never(t))
			assert.False(t, r.Ran)
			return err
		})
		testbed.Receive(t, gate.Arrived(), "the create")
		ran(t, other, "key")
		gate.Open()
		require.NoError(t, testbed.Receive(t, called, "the result"))
	})
}

// TestClosingTheClient ends a call whose recording waits for a server.
func TestClosingTheClient(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold))
		o := newOnce(client, faultPath)
		ran(t, o, "before")
		r, err := o.Do(testbed.Context(t), "key", func(context.Context) error {
			w.Server.RefuseConnections(true)
			w.Server.CutConnections()
			synctest.Wait()
			time.AfterFunc(time.Second, func() { client.Close() })
			return nil
		})
		require.ErrorIs(t, err, framework.ErrClosed)
		require.True(t, r.Ran)
		require.ErrorIs(t, testbed.Err(o.Do(testbed.Context(t), "other", never(t))), framework.ErrClosed)
	})
}

// TestObserversThatPanic has the observer of the client's operations panic at each of them.
func TestObserversThatPanic(t *testing.T) {
	met := true
	for n := 0; met; n++ {
		require.Less(t, n, 30)
		testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
			var left atomic.Int32
			left.Store(-1)
			client := w.Client(framework.WithObserver(framework.Observer{Operation: func(context.Context, framework.OperationEvent) {
				if left.Add(-1) == 0 {
					panic("observer")
				}
			}}))
			o, other := newOnce(client, faultPath), newOnce(w.Client(), faultPath)
			left.Store(int32(n + 1))
			func() {
				defer func() { met = recover() != nil }()
				_, _ = o.Do(testbed.Context(t), "key", succeed)
			}()
			left.Store(-1)
			require.NoError(t, testbed.Err(other.Do(testbed.Context(t), "key", succeed)))
			require.Equal(t, 1, recorded(w.Server, "key"))
		})
	}
}
