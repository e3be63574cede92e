package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
)

func TestNew_BadArguments(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	with := func(opts ...lock.Option) []lock.Option { return opts }
	another := locks.Inside.With(locking.Settings[*lock.Queue]{Another: true})
	for name, c := range map[string]struct {
		client *framework.Client
		path   string
		name   string
		driver lock.Driver
		opts   []lock.Option
		reason error
	}{
		"no client":            {nil, "/lock", "lock-", nil, nil, framework.ErrBadArgument},
		"no path":              {client, "lock", "lock-", nil, nil, framework.ErrBadPath},
		"the root":             {client, "/", "lock-", nil, nil, framework.ErrBadPath},
		"a name with a slash":  {client, "/lock", "below/lock-", nil, nil, framework.ErrBadArgument},
		"a nil option":         {client, "/lock", "lock-", nil, with(nil), framework.ErrBadArgument},
		"no lease":             {client, "/lock", "lock-", nil, with(lock.WithMaxLeases(0)), framework.ErrBadArgument},
		"no function of data":  {client, "/lock", "lock-", nil, with(lock.WithDataFunc(nil)), framework.ErrBadArgument},
		"no retention":         {client, "/lock", "lock-", nil, with(lock.WithRetention(0)), framework.ErrBadArgument},
		"a negative retention": {client, "/lock", "lock-", nil, with(lock.WithRetention(-1)), framework.ErrBadArgument},
		"retention of several leases": {client, "/lock", "lock-", nil, with(lock.WithRetention(1), lock.WithMaxLeases(2)),
			framework.ErrBadArgument},
		"retention of another": {client, "/lock", "lock-", nil, with(lock.WithRetention(1), another), framework.ErrBadArgument},
		"retention with another driver": {client, "/lock", "lock-", struct{ lock.Standard }{}, with(lock.WithRetention(1)),
			framework.ErrBadArgument},
		"reentry to several leases": {client, "/lock", "lock-", nil, with(lock.WithReentry(), lock.WithMaxLeases(2)),
			framework.ErrBadArgument},
		"several leases with reentry": {client, "/lock", "lock-", nil, with(lock.WithMaxLeases(2), lock.WithReentry()),
			framework.ErrBadArgument},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := lock.New(c.client, c.path, c.name, c.driver, c.opts...)
			require.Nil(t, q)
			require.ErrorIs(t, err, c.reason)
			testbed.OneOp(t, err, "lock", c.path)
		})
	}
}

// TestNew_OptionsTogether requires also that lock.Standard has the privileges of the Standard
// driver.
func TestNew_OptionsTogether(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	newQueue(t, client, "/lock", lock.WithReentry(), lock.WithRetention(time.Minute))
	newQueue(t, client, "/lock", lock.WithReentry(), lock.WithLockDelay(time.Minute))
	driven(client, lock.Standard{}, lock.WithRetention(time.Second))
}
