package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

func TestErrorsOfNewNameThePath(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for name, c := range map[string]struct {
		client *framework.Client
		path   string
		opt    lock.Option
		reason error
	}{
		"no client":  {nil, "/lock", lock.WithMaxLeases(1), framework.ErrBadArgument},
		"no path":    {client, "lock", lock.WithMaxLeases(1), framework.ErrBadPath},
		"the root":   {client, "/", lock.WithMaxLeases(1), framework.ErrBadPath},
		"bad option": {client, "/lock", lock.WithMaxLeases(0), framework.ErrBadArgument},
		"no option":  {client, "/lock", nil, framework.ErrBadArgument},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := lock.New(c.client, c.path, "lock-", nil, c.opt)
			require.Nil(t, q)
			require.ErrorIs(t, err, c.reason)
			var op *framework.OpError
			require.ErrorAs(t, err, &op)
			require.Equal(t, "lock", op.Op)
			require.Equal(t, c.path, op.Path)
		})
	}
}

// TestStandardIsTheDriverOfTheQueue requires that lock.Standard has the privileges of the Standard
// driver.
func TestStandardIsTheDriverOfTheQueue(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	_, err := lock.New(client, "/lock", "lock-", lock.Standard{}, lock.WithRetention(time.Second))
	require.NoError(t, err)
	_, err = lock.New(client, "/lock", "lock-", struct{ lock.Standard }{}, lock.WithRetention(time.Second))
	require.ErrorIs(t, err, framework.ErrBadArgument)
}
