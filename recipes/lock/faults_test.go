package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scenario is a run in which one request of the subject fails, and no request of the other
// contender. The suite of package locksuite has the cases of every lock (package mutex runs them);
// this package has the ones of its own options.
type scenario struct {
	*testbed.Scenario
	subject, other *lock.Queue
}

// eachRequest runs test with each request of the subject failing: see testbed.EachRequest.
func eachRequest(t *testing.T, test func(t *testing.T, s scenario), opts ...lock.Option) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		const path = "/deep/down/lock"
		test(t, scenario{s, newQueue(t, s.Subject, path, opts...), newQueue(t, s.Other, path)})
	})
}

func newQueue(t *testing.T, client *framework.Client, path string, opts ...lock.Option) *lock.Queue {
	t.Helper()
	q, err := lock.New(client, path, "lock-", nil, opts...)
	require.NoError(t, err)
	return q
}

// finish requires that the next contender acquires, and that no node is left.
func (s scenario) finish(t *testing.T) {
	t.Helper()
	hold, err := s.other.Acquire(testbed.Context(t))
	require.NoError(t, err, "the next contender acquires")
	require.NoError(t, hold.Release())
	testbed.Eventually(t, func() bool {
		children, err := s.Server.Children("/deep/down/lock")
		return err != nil || len(children) == 0
	}, "no node is left")
}

// checkAlone requires that the other contender does not acquire while the hold lasts.
func (s scenario) checkAlone(t *testing.T, hold *lock.Hold) {
	t.Helper()
	locksuite.CheckAlone(t, s.Scenario, hold, func(ctx context.Context) (*lock.Hold, error) {
		second, err := s.other.TryAcquire(ctx)
		return second, testbed.Listed(t, s.other, "TryAcquire", err)
	})
}

// checkRelease requires that a release deletes the node, or reports a loss that the fault caused.
func (s scenario) checkRelease(t *testing.T, hold *lock.Hold) {
	t.Helper()
	locksuite.CheckRelease(t, s.Scenario, hold)
}
