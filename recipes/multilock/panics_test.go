package multilock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// panicking is a lock of a user that panics.
type panicking struct{}

func (panicking) Acquire(context.Context) (*lock.Hold, error)    { panic("a lock of the user") }
func (panicking) TryAcquire(context.Context) (*lock.Hold, error) { panic("a lock of the user") }

// TestAcquire_PanicOfALockReleasesThoseBefore has a caller that recovers.
func TestAcquire_PanicOfALockReleasesThoseBefore(t *testing.T) {
	server := zktest.NewServer(t)
	m, err := mutex.New(testbed.On(server).Client(t), "/lock")
	require.NoError(t, err)
	l, err := multilock.New(m, panicking{})
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = l.Acquire(testbed.Context(t)) })
	hold, err := m.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	require.Panics(t, func() { _, _ = l.TryAcquire(testbed.Context(t)) })
	hold, err = m.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, hold.Release())
}
