package semaphore_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

// TestEachLeaseIsReportedOnce, with all of its wait, and the queue in front of the leases is not
// reported.
func TestEachLeaseIsReportedOnce(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var mu sync.Mutex
		count := make(map[string]int)
		var longest time.Duration
		note := func(what, path string, waited time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			count[what+" "+path]++
			longest = max(longest, waited)
		}
		client := w.Client(lock.WithObserver(lock.Observer{
			Acquiring: func(ctx context.Context, e lock.AcquiringEvent) context.Context {
				note("acquiring", e.Path, 0)
				return ctx
			},
			Acquired: func(ctx context.Context, e lock.AcquiredEvent) context.Context {
				note("acquired", e.Path, e.Waited)
				return ctx
			},
			NotAcquired: func(_ context.Context, e lock.NotAcquiredEvent) { note("not acquired", e.Path, 0) },
			Ended:       func(_ context.Context, e lock.EndedEvent) { note("ended", e.Path, 0) },
		}))
		s := fixedOn(client, "/pool", 2)
		all := testbed.Must(s.AcquireN(t.Context(), 2))
		refused(t, s)
		next := start(t, t.Context(), s, 1, 1)
		time.Sleep(time.Minute) // virtual time, which it waits
		release(t, all)
		release(t, granted(t, next))
		synctest.Wait()
		require.Equal(t, map[string]int{
			"acquiring /pool/leases": 4, "acquired /pool/leases": 3, "not acquired /pool/leases": 1, "ended /pool/leases": 3,
		}, count)
		require.GreaterOrEqual(t, longest, time.Minute)
	})
}
