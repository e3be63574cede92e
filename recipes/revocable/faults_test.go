package revocable_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
)

// finish checks what must hold after everything: the lock is free, and nothing is left.
func finish(t *testing.T, s *testbed.Scenario) {
	t.Helper()
	require.NoError(t, acquire(t, newLock(newMutex(s.Other, "/deep/lock"))).Release())
	testbed.Eventually(t, func() bool {
		children, err := s.Server.Children("/deep/lock")
		return err != nil || len(children) == 0
	}, "no node is left behind")
}

// Whatever fails, a holder is asked or has lost the lock: it never goes on without
// knowing.
func TestHolderWithAnyRequestFailing(t *testing.T) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		// Only the end of a session is a loss here, so that the watch has to come back.
		m := newMutex(s.Subject, "/deep/lock", lock.WithErrorPolicy(connstate.LostEndsHold))
		hold := acquire(t, newLock(m))
		_, err := revocable.RevokeAll(testbed.Context(t), newMutex(s.Other, "/deep/lock"))
		require.NoError(t, testbed.Listed(t, revocable.RevokeAll, "RevokeAll", err))
		select {
		case <-hold.Revoked():
		case <-hold.Done():
			lost(t, hold, hold.Err())
		case <-time.After(20 * time.Second):
			t.Fatal("neither asked nor lost")
		}
		if err := testbed.Listed(t, hold, "Release", hold.Release()); err != nil {
			lost(t, hold, err)
		}
		finish(t, s)
	})
}

// lost checks that err reports the end of the hold's session. The servers report the deletion of
// its node before that.
func lost(t *testing.T, hold *revocable.Hold, err error) {
	t.Helper()
	if errors.Is(err, lock.ErrNodeDeleted) {
		testbed.Receive(t, hold.Session().Done(), "the end of the session")
		return
	}
	require.ErrorIs(t, err, framework.ErrSessionLost)
}

// Whatever fails, one call is enough to ask, and to see to it.
func TestAskerWithAnyRequestFailing(t *testing.T) {
	for name, opts := range map[string][]revocable.Option{
		"asks":   nil,
		"forces": {revocable.WithForce(10 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
				hold := acquire(t, newLock(newMutex(s.Other, "/deep/lock")))
				m := newMutex(s.Subject, "/deep/lock")
				n, err := revocable.RevokeAll(testbed.Context(t), m, opts...)
				require.NoError(t, testbed.Listed(t, revocable.RevokeAll, "RevokeAll", err), "one fault is no reason to fail")
				require.Equal(t, 1, n)
				if opts == nil {
					asked(t, hold)
					require.NoError(t, hold.Release())
				} else {
					testbed.Receive(t, hold.Done(), "the end of the hold")
					assert.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
					assert.Error(t, testbed.Listed(t, hold, "Release", hold.Release()))
				}
				finish(t, s)
			})
		})
	}
}
