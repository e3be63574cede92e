package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/semaphore"
)

// scenario is a run with a semaphore of two leases, in which one request of the subject fails, and
// no request of the other contender. The suite of package locksuite has the cases of one lease.
type scenario struct {
	*testbed.Scenario
	subject, other *semaphore.Semaphore
}

const faultPath = "/deep/down/pool"

// eachRequest runs test with each request of the subject failing: see testbed.EachRequest. If
// shared is true, all read the number of leases from a node. If used is true, the subject has found
// the semaphore free before.
func eachRequest(t *testing.T, shared, used bool, test func(t *testing.T, s scenario)) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		s.Spare(true)
		c := scenario{s, contender(t, s.Subject, shared), contender(t, s.Other, shared)}
		if used {
			require.NoError(t, c.subject.Do(testbed.Context(t), func(context.Context) error { return nil }))
		}
		s.Spare(false)
		test(t, c)
		c.finish(t)
	})
}

// contender is a semaphore of two leases.
func contender(t *testing.T, client *framework.Client, shared bool) *semaphore.Semaphore {
	t.Helper()
	if !shared {
		return fixedOn(client, faultPath, 2)
	}
	s, _ := sharedOn(t, client, faultPath, faultPath+"-max", 2)
	return s
}

// finish requires that the next contender acquires all leases, and that no node is left.
func (s scenario) finish(t *testing.T) {
	t.Helper()
	group, err := s.other.AcquireN(testbed.Context(t), 2)
	require.NoError(t, err, "the next contender acquires all")
	release(t, group)
	empty(t, s.Other, faultPath)
}

// checkFull requires that the other contender acquires no lease while the group lasts.
func (s scenario) checkFull(t *testing.T, group *lock.Group) {
	t.Helper()
	locksuite.CheckAlone(t, s.Scenario, group, func(ctx context.Context) (*lock.Hold, error) {
		hold, err := s.other.TryAcquire(ctx)
		return hold, testbed.Listed(t, s.other, "TryAcquire", err)
	})
}

func TestFreeLeasesWithAnyRequestFailing(t *testing.T) {
	for name, c := range map[string]struct{ shared, used bool }{"fixed max": {}, "shared max": {shared: true}, "used before": {used: true}} {
		t.Run(name, func(t *testing.T) {
			eachRequest(t, c.shared, c.used, func(t *testing.T, s scenario) {
				group, err := s.subject.AcquireN(testbed.Context(t), 2)
				require.NoError(t, testbed.Listed(t, s.subject, "AcquireN", err), "one fault is no reason to fail")
				s.checkFull(t, group)
				locksuite.CheckRelease(t, s.Scenario, group)
			})
		})
	}
}

// TestTryWithAnyRequestFailing: a try fails where AcquireN would queue behind leases that it has
// just given up.
func TestTryWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, false, false, func(t *testing.T, s scenario) {
		group, err := s.subject.TryAcquireN(testbed.Context(t), 2)
		require.NoError(t, testbed.Listed(t, s.subject, "TryAcquireN", err), "one fault is no reason to fail")
		s.checkFull(t, group)
		locksuite.CheckRelease(t, s.Scenario, group)
	})
}

func TestTakenLeasesWithAnyRequestFailing(t *testing.T) {
	for name, c := range map[string]struct{ shared, used bool }{"fixed max": {}, "shared max, used": {true, true}} {
		t.Run(name, func(t *testing.T) {
			eachRequest(t, c.shared, c.used, func(t *testing.T, s scenario) {
				one, two := acquire(t, s.other), acquire(t, s.other)
				waiter := begin(testbed.Context(t), s.subject, 2)
				waiting(t, s.other, 1) // whose requests do not fail
				undecided(t, waiter)
				release(t, one, two)
				got := testbed.Receive(t, waiter, "the leases")
				require.NoError(t, testbed.Listed(t, s.subject, "AcquireN", got.err))
				s.checkFull(t, got.group)
				locksuite.CheckRelease(t, s.Scenario, got.group)
			})
		})
	}
}

func TestGivingUpWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, false, false, func(t *testing.T, s scenario) {
		hold := acquire(t, s.other)
		_, err := s.subject.AcquireN(testbed.Timeout(t, 30*time.Millisecond), 2)
		require.ErrorIs(t, testbed.Listed(t, s.subject, "AcquireN", err), context.DeadlineExceeded)
		require.NoError(t, hold.Err())
		release(t, hold)
	})
}
