package once_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/zktest"
)

// trace collects the requests that a server receives, without housekeeping.
type trace struct {
	mu  sync.Mutex
	ops []string
}

func newTrace(server *zktest.Server) *trace {
	tr := &trace{}
	server.Trace(func(e zktest.Event) {
		r := e.Request
		heartbeat := r.Op == "multi" && len(r.Parts) == 1 && r.Parts[0].Path == "/"
		if e.Watch != "" || heartbeat || slices.Contains([]string{"ping", "sync", "connect", "closeSession", "removeWatches"}, r.Op) {
			return
		}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.ops = append(tr.ops, r.Op)
	})
	return tr
}

// take returns the requests since the last call.
func (tr *trace) take() []string {
	synctest.Wait()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	ops := tr.ops
	tr.ops = nil
	return ops
}

// TestRequests counts the requests of a call: one if the key is done, five for a Do that runs its
// function, six for a TryDo.
func TestRequests(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		tr := newTrace(w.Server)
		o := newOnce(client, "/job")
		timed := newOnce(client, "/job", once.WithMinInterval(time.Millisecond))
		key := 0
		do := func(call call) []string {
			time.Sleep(2 * time.Second) // virtual time: a path that is used soon again is not listed
			key++
			tr.take()
			r, err := call(testbed.Context(t), fmt.Sprint(key), succeed)
			require.NoError(t, err)
			require.True(t, r.Ran)
			return tr.take()
		}
		// The first create finds no parent. The transaction creates the record.
		require.Equal(t, []string{"getData", "create", "createContainer", "create", "multi", "multi"}, without(do(o.Do), "getChildren2"))
		require.Equal(t, []string{"getData", "create", "getChildren2", "multi", "multi"}, do(o.Do))
		require.Equal(t, []string{"getData", "getChildren2", "create", "getChildren2", "multi", "multi"}, do(o.TryDo))
		require.Equal(t, []string{"getData", "create", "getChildren2", "multi", "multi"}, do(timed.Do))
		require.Equal(t, []string{"getData", "getChildren2", "create", "getChildren2", "multi", "multi"}, do(timed.TryDo))

		for _, call := range []call{o.Do, o.TryDo, timed.Do} {
			r, err := call(testbed.Context(t), "1", never(t))
			require.NoError(t, err)
			require.False(t, r.Ran)
			require.Equal(t, []string{"getData"}, tr.take(), "the key is done")
		}

		// A record that changes between the first look and the lock: one more.
		other := newOnce(w.Client(), "/job")
		gate := w.Server.Block(zktest.OnCreate())
		tr.take()
		result := testbed.Go(func() error {
			_, err := o.Do(context.Background(), "late", succeed)
			return err
		})
		testbed.Receive(t, gate.Arrived(), "the create")
		require.NoError(t, other.Forget(testbed.Context(t), "2"))
		gate.Open()
		require.NoError(t, <-result)
		require.Equal(t, []string{"getData", "getData", "setData", "create", "getChildren2", "multi", "getData", "multi"}, tr.take(),
			"the second and the third are the other client's")
	})
}

// count returns how many requests are of a kind.
func count(ops []string, kind string) int { return len(ops) - len(without(slices.Clone(ops), kind)) }

// without returns ops without those of a kind.
func without(ops []string, kind string) []string {
	return slices.DeleteFunc(ops, func(op string) bool { return op == kind })
}

// TestRequestsOfAFleet compares a firing of n processes with n contenders of a mutex: the runner
// sends two requests more, and each waiter at most one.
func TestRequestsOfAFleet(t *testing.T) {
	for _, n := range []int{2, 3, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				var jobs []*once.Once
				var mutexes []*mutex.Mutex
				for range n {
					client := w.Client(lock.WithObserver(lock.Observer{}))
					jobs = append(jobs, newOnce(client, "/job"))
					mutexes = append(mutexes, testbed.Must(mutex.New(client, "/mutex")))
				}
				tr := newTrace(w.Server)
				fleet := func(call func(i int)) []string {
					time.Sleep(2 * time.Second)
					tr.take()
					var all sync.WaitGroup
					for i := range n {
						all.Go(func() { call(i) })
					}
					all.Wait()
					time.Sleep(2 * time.Second)
					return tr.take()
				}
				locked := func(i int) {
					assert.NoError(t, mutexes[i].Do(testbed.Context(t), func(context.Context) error { time.Sleep(time.Second); return nil }))
				}
				fired := func(key string) func(i int) {
					return func(i int) {
						_, err := jobs[i].Do(testbed.Context(t), key, func(context.Context) error { time.Sleep(time.Second); return nil })
						assert.NoError(t, err)
					}
				}
				fleet(locked)
				fleet(fired("first"))
				// A session that was idle for too long lists again. In one of the rounds none has.
				mutual, once := math.MaxInt, math.MaxInt
				for i := range 4 {
					mutual = min(mutual, len(fleet(locked)))
					firing := fleet(fired(fmt.Sprint(i)))
					once = min(once, len(firing))
					require.Equal(t, n, count(firing, "create"), "each queues once")
				}
				t.Logf("%d processes: %d requests of a mutex, %d of a firing", n, mutual, once)
				require.LessOrEqual(t, once, mutual+2+n-1)
			})
		})
	}
}
