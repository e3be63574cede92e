package revocable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/semaphore"
)

// watched makes each hold of a group revocable.
func watched(t *testing.T, group *lock.Group) (holds []*revocable.Hold) {
	t.Helper()
	for _, h := range group.Holds() {
		hold, err := revocable.Watch(h)
		require.NoError(t, err)
		holds = append(holds, hold)
	}
	return holds
}

func groupOfLocks(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	path := testbed.Path(t)
	a, b := newMutex(t, client, path+"-a"), newMutex(t, client, path+"-b")
	both, err := multilock.New(a, b)
	require.NoError(t, err)
	group, err := both.Acquire(ctx)
	require.NoError(t, err)
	holds := watched(t, group)

	n, err := revocable.RevokeHolders(ctx, client, b)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	asked(t, holds[1])
	settle(t, client, holds[0])
	notAsked(t, holds[0])
	require.NoError(t, group.Err(), "asking takes nothing away")
	require.NoError(t, group.Release())
	require.ErrorIs(t, holds[0].Err(), lock.ErrReleased)
}

func leases(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	s, err := semaphore.New(client, testbed.Path(t), 3)
	require.NoError(t, err)
	one := acquire(t, newLock(t, s))
	two, err := s.AcquireN(ctx, 2)
	require.NoError(t, err)
	testbed.CatchUp(t, client)

	n, err := revocable.RevokeHolders(ctx, client, s)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	asked(t, append(watched(t, two), one)...)
	require.NoError(t, two.Release())
	require.NoError(t, one.Release())
}
