package semaphore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// scenario is a life with a semaphore of two leases, with a fault somewhere in it. The subject
// is the one that meets the fault; the other contender does not.
type scenario struct {
	client         *framework.Client // the other's
	subject, other *semaphore.Semaphore
	expires        bool // the fault ends the session
}

const faultPath = "/deep/down/pool"

// eachRequest runs test with the subject's first request failing, then its second, and so
// on, until a run ends without meeting the fault. shared says whether all read the number
// of leases from a node; with used the subject has found the semaphore free before.
func eachRequest(t *testing.T, shared, used bool, test func(t *testing.T, s scenario)) {
	for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply, zktest.ExpireBefore, zktest.ExpireAfter} {
		t.Run(fault.String(), func(t *testing.T) {
			met := true
			for n := 0; met; n++ {
				met = false // also when -run leaves this one out
				t.Run(fmt.Sprintf("request %d", n), func(t *testing.T) {
					server := zktest.NewServer(t)
					bed := testbed.On(server)
					s := scenario{expires: fault == zktest.ExpireBefore || fault == zktest.ExpireAfter}
					if shared {
						s.subject, _, _ = newShared(t, bed, faultPath, 2)
						s.other, _, s.client = newShared(t, bed, faultPath, 2)
					} else {
						s.subject, _ = newSemaphore(t, bed, faultPath, 2)
						s.other, s.client = newSemaphore(t, bed, faultPath, 2)
					}
					if used {
						require.NoError(t, s.subject.Do(testbed.Context(t), func(context.Context) error { return nil }))
					}
					session, err := s.client.Session(testbed.Context(t))
					require.NoError(t, err)
					injected := server.Inject(fault, n, func(r zktest.Request) bool { return r.Session != session.ID() })
					test(t, s)
					s.finish(t)
					met = injected.Met()
					require.Less(t, n, 80, "the scenario never ends")
				})
			}
		})
	}
}

// finish checks what must hold after everything: all leases are free for the next one, and
// nothing of the subject's is left.
func (s scenario) finish(t *testing.T) {
	t.Helper()
	group, err := s.other.AcquireN(testbed.Context(t), 2)
	require.NoError(t, err, "the next contender gets all")
	release(t, group)
	empty(t, s.client, faultPath)
}

// checkFull checks that nobody gets a lease as long as all holds believe in theirs. A session
// that is ended by force gives no warning, so its holder may hear of it later.
func (s scenario) checkFull(t *testing.T, group *lock.Group) {
	t.Helper()
	third, err := s.other.TryAcquire(testbed.Context(t))
	if err == nil {
		if s.expires {
			testbed.Receive(t, group.Done(), "word of the loss")
		}
		assert.Error(t, group.Err(), "three holders")
		release(t, third)
		return
	}
	require.ErrorIs(t, err, lock.ErrNotAcquired)
}

// checkRelease releases all, and checks that nothing but a loss goes wrong.
func checkRelease(t *testing.T, group *lock.Group) {
	t.Helper()
	if err := group.Release(); err != nil {
		assert.ErrorIs(t, err, lock.ErrLost)
	}
}

func TestFreeLeasesWithAnyRequestFailing(t *testing.T) {
	for name, c := range map[string]struct{ shared, used bool }{"fixed max": {}, "shared max": {shared: true}, "used before": {used: true}} {
		t.Run(name, func(t *testing.T) {
			eachRequest(t, c.shared, c.used, func(t *testing.T, s scenario) {
				group, err := s.subject.AcquireN(testbed.Context(t), 2)
				require.NoError(t, err, "one fault is no reason to fail")
				s.checkFull(t, group)
				checkRelease(t, group)
			})
		})
	}
}

func TestTryWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, false, false, func(t *testing.T, s scenario) {
		group, err := s.subject.TryAcquireN(testbed.Context(t), 2)
		require.NoError(t, err, "one fault is no reason to fail")
		s.checkFull(t, group)
		checkRelease(t, group)
	})
}

func TestTakenLeasesWithAnyRequestFailing(t *testing.T) {
	for name, c := range map[string]struct{ shared, used bool }{"fixed max": {}, "shared max": {shared: true}, "used before": {used: true}} {
		t.Run(name, func(t *testing.T) {
			eachRequest(t, c.shared, c.used, func(t *testing.T, s scenario) {
				one, err := s.other.Acquire(testbed.Context(t))
				require.NoError(t, err)
				two, err := s.other.Acquire(testbed.Context(t))
				require.NoError(t, err)
				waiter := start(t, testbed.Context(t), s.subject, 2, 1)
				undecided(t, waiter)
				release(t, one)
				release(t, two)
				got := testbed.Receive(t, waiter, "the leases")
				require.NoError(t, got.err)
				s.checkFull(t, got.group)
				checkRelease(t, got.group)
			})
		})
	}
}

func TestGivingUpWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, false, false, func(t *testing.T, s scenario) {
		hold, err := s.other.Acquire(testbed.Context(t))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err = s.subject.AcquireN(ctx, 2)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, hold.Err())
		release(t, hold)
	})
}
