package rwlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

func TestDowngradeWithAnyRequestFailing(t *testing.T) {
	const path = "/deep/down/lock"
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		subject, other := lockOn(s.Subject, path), lockOn(s.Other, path)
		defer func() {
			release(t, acquire(t, other.Write()))
			testbed.Eventually(t, func() bool {
				children, err := s.Server.Children(path)
				return err != nil || len(children) == 0
			}, "no node is left")
		}()
		write := testbed.Acquire(t, subject.Write())
		read, err := subject.Downgrade(write.Context())
		testbed.Listed(t, subject, "Downgrade", err)
		if err != nil {
			// The fault may have ended the write hold, which cannot be downgraded then.
			require.True(t, locksuite.Lost(s, err), "%v", err)
			require.Error(t, write.Err())
			testbed.Listed(t, write, "Release", write.Release()) // nil if no other client has held in between
			return
		}
		locksuite.CheckRelease(t, s, write)
		locksuite.CheckAlone(t, s, read, func(ctx context.Context) (*lock.Hold, error) {
			second, err := other.Write().TryAcquire(ctx)
			return second, testbed.Listed(t, other.Write(), "TryAcquire", err)
		})
		locksuite.CheckRelease(t, s, read)
	})
}
