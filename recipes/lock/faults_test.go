package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scenario is a life in the queue, with a fault somewhere in it. The subject is the one that
// meets the fault; the other contender does not.
type scenario struct {
	*testbed.Scenario
	subject, other *lock.Queue
}

// eachRequest runs test with each request of the subject failing, see testbed.EachRequest.
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

// finish checks what must hold after everything: the lock is free for the next one, and
// nothing of the subject's is left.
func (s scenario) finish(t *testing.T) {
	t.Helper()
	hold, err := s.other.Acquire(testbed.Context(t))
	require.NoError(t, err, "the next contender gets in")
	require.NoError(t, hold.Release())
	testbed.Eventually(t, func() bool {
		children, err := s.Server.Children("/deep/down/lock")
		return err != nil || len(children) == 0
	}, "no node is left behind")
}

func TestFreeLockWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		hold, err := s.subject.Acquire(testbed.Context(t))
		require.NoError(t, err, "one fault is no reason to fail")
		s.checkAlone(t, hold)
		s.checkRelease(t, hold)
		s.finish(t)
	})
}

func TestTryWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		hold, err := s.subject.TryAcquire(testbed.Context(t))
		require.NoError(t, err)
		s.checkAlone(t, hold)
		s.checkRelease(t, hold)
		s.finish(t)
	})
}

func TestHeldLockWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		ahead, err := s.other.Acquire(testbed.Context(t))
		require.NoError(t, err)
		got := make(chan *lock.Hold, 1)
		go func() {
			hold, err := s.subject.Acquire(testbed.Context(t))
			assert.NoError(t, err)
			got <- hold
		}()
		waiting := func() bool {
			ps, err := s.other.Participants(testbed.Context(t))
			return err == nil && len(ps) >= 2
		}
		testbed.Eventually(t, waiting, "the subject is in the queue")
		select {
		case <-got:
			t.Fatal("acquired a held lock")
		default:
		}
		require.NoError(t, ahead.Release())
		hold := testbed.Receive(t, got, "the lock")
		require.NotNil(t, hold)
		s.checkAlone(t, hold)
		s.checkRelease(t, hold)
		s.finish(t)
	})
}

func TestGivingUpWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		ahead, err := s.other.Acquire(testbed.Context(t))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err = s.subject.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, ahead.Err())
		require.NoError(t, ahead.Release())
		s.finish(t)
	})
}

// checkAlone is locksuite.CheckAlone against the other contender.
func (s scenario) checkAlone(t *testing.T, hold *lock.Hold) {
	t.Helper()
	locksuite.CheckAlone(t, s.Scenario, hold, s.other.TryAcquire)
}

// checkRelease is locksuite.CheckRelease.
func (s scenario) checkRelease(t *testing.T, hold *lock.Hold) {
	t.Helper()
	locksuite.CheckRelease(t, s.Scenario, hold)
}
