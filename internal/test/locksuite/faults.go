package locksuite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

const faultPath = "/deep/down/lock"

// scenario is a run in which one request of the subject fails, and no request of the other
// contenders.
type scenario struct {
	*testbed.Scenario
	kind           Kind
	subject, other Contender // other is the first rival
	rivals         []Contender
}

// Faults runs acquiring and releasing with each request of a contender failing. The comment of the
// called method lists each error.
func Faults(t *testing.T, kind Kind) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, s scenario)
	}{
		{"a free lock with any request failing", freeLock},
		{"a try with any request failing", try},
		{"a held lock with any request failing", heldLock},
		{"giving up with any request failing", givingUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			testbed.EachRequest(t, func(t *testing.T, bed *testbed.Scenario) {
				s := scenario{Scenario: bed, kind: kind}
				s.Spare(true) // while the contenders are created
				s.subject = testbed.Must(kind.New(s.Subject, faultPath))
				for _, constructor := range kind.rivals() {
					rival := testbed.Must(constructor(s.Other, faultPath))
					s.rivals = append(s.rivals, rival)
				}
				s.other = s.rivals[0]
				s.Spare(false)
				c.test(t, s)
				s.finish(t)
			})
		})
	}
}

// finish requires that the next contender acquires, and that no node is left.
func (s scenario) finish(t *testing.T) {
	t.Helper()
	release(t, acquire(t, s.other))
	testbed.Eventually(t, func() bool {
		for _, dir := range s.kind.dirs(faultPath) {
			if children, err := s.Server.Children(dir); err == nil && len(children) > 0 {
				return false
			}
		}
		return true
	}, "no node is left")
}

// alone requires that no rival acquires while the hold lasts.
func (s scenario) alone(t *testing.T, hold Hold) {
	t.Helper()
	for _, rival := range s.rivals {
		CheckAlone(t, s.Scenario, hold, func(ctx context.Context) (Hold, error) {
			second, err := rival.TryAcquire(ctx)
			return second, testbed.Listed(t, rival.Lock, "TryAcquire", err)
		})
	}
}

// CheckAlone requires that try, of a client that meets no fault, does not acquire while the hold
// lasts. A session that a server closes by force gives no warning, so its holder may be notified
// later.
func CheckAlone[H Hold](t *testing.T, s *testbed.Scenario, hold Hold, try func(ctx context.Context) (H, error)) {
	t.Helper()
	time.Sleep(time.Second) // virtual time: after a while the hold's node is watched, which is a request
	second, err := try(testbed.Context(t))
	if err == nil {
		if s.Expires {
			testbed.Receive(t, hold.Done(), "the loss of the hold")
		}
		assert.Error(t, hold.Err(), "two holders")
		require.NoError(t, second.Release())
		return
	}
	require.ErrorIs(t, err, lock.ErrNotAcquired)
}

// CheckRelease requires that a release deletes the nodes, or reports a loss that the fault caused.
func CheckRelease(t *testing.T, s *testbed.Scenario, hold Hold) {
	t.Helper()
	err := testbed.Listed(t, hold, "Release", hold.Release())
	if err != nil {
		assert.True(t, Lost(s, err), "%v", err)
		return
	}
	for _, path := range paths(hold) {
		_, err := s.Server.Get(path)
		assert.Error(t, err, "the node exists after the release")
	}
}

// Lost reports whether err is a loss that the fault caused. The servers report the deletion of a
// node before the end of its session.
func Lost(s *testbed.Scenario, err error) bool {
	deleted := s.Expires && errors.Is(err, lock.ErrNodeDeleted)
	return deleted || errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrSuspended)
}

// acquired checks the result of the subject's Acquire or TryAcquire: one fault does not fail it.
func (s scenario) acquired(t *testing.T, method string, hold Hold, err error) {
	t.Helper()
	testbed.Listed(t, s.subject.Lock, method, err)
	if err != nil && s.kind.Several {
		require.True(t, Lost(s.Scenario, err), "%v", err)
		return
	}
	require.NoError(t, err)
	s.alone(t, hold)
	CheckRelease(t, s.Scenario, hold)
}

func freeLock(t *testing.T, s scenario) {
	hold, err := s.subject.Acquire(testbed.Context(t))
	s.acquired(t, "Acquire", hold, err)
}

func try(t *testing.T, s scenario) {
	hold, err := s.subject.TryAcquire(testbed.Context(t))
	s.acquired(t, "TryAcquire", hold, err)
}

func heldLock(t *testing.T, s scenario) {
	ahead := acquire(t, s.other)
	holders := testbed.Must(s.other.Participants(testbed.Context(t)))
	got := begin(testbed.Context(t), s.subject.Acquire)
	testbed.Eventually(t, func() bool {
		ps, err := s.other.Participants(testbed.Context(t))
		return err == nil && len(ps) > len(holders)
	}, "the subject is in the queue")
	select {
	case <-got:
		require.FailNow(t, "acquired a held lock")
	default:
	}
	release(t, ahead)
	r := testbed.Receive(t, got, "the lock")
	s.acquired(t, "Acquire", r.hold, r.err)
}

func givingUp(t *testing.T, s scenario) {
	ahead := acquire(t, s.other)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := s.subject.Acquire(ctx)
	require.ErrorIs(t, testbed.Listed(t, s.subject.Lock, "Acquire", err), context.DeadlineExceeded)
	require.NoError(t, ahead.Err())
	release(t, ahead)
}
