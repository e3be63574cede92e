package rwlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/rwlock"
)

// scenario is a life with the lock, with a fault somewhere in it. The subject is the one
// that meets the fault; the other contender does not.
type scenario struct {
	*testbed.Scenario
	subject, other *rwlock.Lock
}

// eachRequest runs test with each request of the subject failing, see testbed.EachRequest.
func eachRequest(t *testing.T, test func(t *testing.T, s scenario)) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		subject, err := rwlock.New(s.Subject, "/deep/down/lock")
		require.NoError(t, err)
		other, err := rwlock.New(s.Other, "/deep/down/lock")
		require.NoError(t, err)
		c := scenario{s, subject, other}
		test(t, c)
		c.finish(t)
	})
}

// finish checks what must hold after everything: the lock is free for a writer, and
// nothing of the subject's is left.
func (s scenario) finish(t *testing.T) {
	t.Helper()
	release(t, acquire(t, s.other.Write()))
	testbed.Eventually(t, func() bool {
		children, err := s.Server.Children("/deep/down/lock")
		return err != nil || len(children) == 0
	}, "no node is left behind")
}

// keepsOut checks that nobody gets in on a side as long as the hold believes in itself. A
// session that is ended by force gives no warning, so its holder may hear of it later.
func (s scenario) keepsOut(t *testing.T, hold *lock.Hold, side *rwlock.Side) {
	t.Helper()
	time.Sleep(time.Second) // in virtual time: the node of a hold that lasts is watched, which is a request
	second, err := side.TryAcquire(testbed.Context(t))
	if err == nil {
		if s.Expires {
			testbed.Receive(t, hold.Done(), "word of the loss")
		}
		assert.Error(t, hold.Err(), "two holders")
		release(t, second)
		return
	}
	require.ErrorIs(t, err, lock.ErrNotAcquired)
}

// checkRelease checks that what Release returns is true.
func (s scenario) checkRelease(t *testing.T, hold *lock.Hold) {
	t.Helper()
	err := hold.Release()
	if err == nil {
		_, exists := s.Server.Get(hold.Path())
		assert.Error(t, exists, "released, so the node is gone")
		return
	}
	assert.True(t, s.lost(err), "%v", err)
}

// lost reports whether the fault is the reason of err. The servers report a node's deletion before the end of its session.
func (s scenario) lost(err error) bool {
	deleted := s.Expires && errors.Is(err, lock.ErrNodeDeleted)
	return deleted || errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrSuspended)
}

func sides(l *rwlock.Lock) map[string]*rwlock.Side {
	return map[string]*rwlock.Side{"read": l.Read(), "write": l.Write()}
}

func TestFreeLockWithAnyRequestFailing(t *testing.T) {
	for _, side := range []string{"read", "write"} {
		t.Run(side, func(t *testing.T) {
			eachRequest(t, func(t *testing.T, s scenario) {
				hold, err := sides(s.subject)[side].Acquire(testbed.Context(t))
				require.NoError(t, err, "one fault is no reason to fail")
				s.keepsOut(t, hold, s.other.Write())
				if side == "write" {
					s.keepsOut(t, hold, s.other.Read())
				}
				s.checkRelease(t, hold)
			})
		})
	}
}

func TestTryWithAnyRequestFailing(t *testing.T) {
	for _, side := range []string{"read", "write"} {
		t.Run(side, func(t *testing.T) {
			eachRequest(t, func(t *testing.T, s scenario) {
				hold, err := sides(s.subject)[side].TryAcquire(testbed.Context(t))
				require.NoError(t, err)
				s.keepsOut(t, hold, s.other.Write())
				s.checkRelease(t, hold)
			})
		})
	}
}

func TestHeldLockWithAnyRequestFailing(t *testing.T) {
	for _, side := range []string{"read", "write"} {
		t.Run(side, func(t *testing.T) {
			eachRequest(t, func(t *testing.T, s scenario) {
				ahead := acquire(t, s.other.Write())
				got := make(chan *lock.Hold, 1)
				go func() {
					hold, err := sides(s.subject)[side].Acquire(testbed.Context(t))
					assert.NoError(t, err)
					got <- hold
				}()
				testbed.Eventually(t, func() bool {
					ps, err := s.other.Participants(testbed.Context(t))
					return err == nil && len(ps) >= 2
				}, "the subject is in the queue")
				select {
				case <-got:
					t.Fatal("acquired a held lock")
				default:
				}
				release(t, ahead)
				hold := testbed.Receive(t, got, "the lock")
				require.NotNil(t, hold)
				s.keepsOut(t, hold, s.other.Write())
				s.checkRelease(t, hold)
			})
		})
	}
}

func TestDowngradeWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		write, err := s.subject.Write().Acquire(testbed.Context(t))
		require.NoError(t, err)
		read, err := s.subject.Read().Acquire(write.Context())
		if err != nil {
			// The write hold may be lost by the fault, and there is nothing to
			// downgrade then.
			require.True(t, s.lost(err), "%v", err)
			require.Error(t, write.Err())
			_ = write.Release() // nil if nobody else has held meanwhile
			return
		}
		s.checkRelease(t, write)
		s.keepsOut(t, read, s.other.Write())
		s.checkRelease(t, read)
	})
}
