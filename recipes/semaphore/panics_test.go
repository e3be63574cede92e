package semaphore_test

import (
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
)

// TestAcquireN_PanicOfAUsersFunctionLeavesNoLease has the ACL provider panic at each of its calls,
// in a caller that recovers. With a waiter ahead the leases are acquired by way of the queue.
func TestAcquireN_PanicOfAUsersFunctionLeavesNoLease(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var left atomic.Int32
		c := w.Client(framework.WithACLProvider(func(string) []zk.ACL {
			if left.Add(-1) == 0 {
				panic("a function of the user")
			}
			return zk.WorldACL(zk.PermAll)
		}))
		s := fixedOn(c, "/semaphore", 3)
		free := func() {
			t.Helper()
			release(t, testbed.Must(s.TryAcquireN(t.Context(), 3)))
		}
		free()
		for n := int32(1); ; n++ {
			busy := testbed.Must(s.AcquireN(t.Context(), 2))
			var p any
			done := make(chan struct{})
			left.Store(n)
			go func() {
				defer close(done)
				defer func() { p = recover() }()
				all, err := s.AcquireN(t.Context(), 3)
				require.NoError(t, err)
				require.NoError(t, all.Release())
			}()
			testbed.Eventually(t, func() bool {
				names, err := w.Server.Children("/semaphore/locks")
				return err == nil && len(names) > 0 || left.Load() <= 0
			}, "it waits, or has panicked")
			require.NoError(t, busy.Release())
			<-done
			left.Store(0)
			free()
			if p == nil {
				require.Greater(t, n, int32(3), "the provider is asked for the queue and for each lease")
				return
			}
		}
	})
}
