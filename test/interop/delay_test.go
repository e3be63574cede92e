package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

// javaLockDelay and kazooLockDelay have a holder with a lock delay die. The peers neither wait for
// its mark nor delete it, and contend with contenders that leave marks of their own.
func javaLockDelay(t *testing.T, s stage) {
	lockDelay(t, s, "lock-", func(c scene) *peer { return s.java(t, "mutex", c.path, c.counter, fmt.Sprint(each)) })
}

func kazooLockDelay(t *testing.T, s stage) {
	lockDelay(t, s, "__lock__", func(c scene) *peer { return s.kazoo(t, c.path, c.counter, fmt.Sprint(each)) })
}

func lockDelay(t *testing.T, s stage, name string, start func(c scene) *peer) {
	const delay = 3 * time.Second
	c, ctx := s.begin(t)
	with := func(client *framework.Client) *lock.Queue {
		return testbed.Must(lock.New(client, c.path, name, nil, lock.WithLockDelay(delay)))
	}
	dead := testbed.Must(with(s.client(t)).Acquire(ctx))
	require.NoError(t, s.ensemble.ExpireSession(ctx, dead.Session().ID()))
	left := marks(t, ctx, c.client, c.path)
	require.Len(t, left, 1)

	// The peers alone: the mark is not in their way, and stays.
	peers := company(func() *peer { return start(c) })
	peers.hear(t, ctx, "session")
	peers.hear(t, ctx, "done")
	require.Equal(t, left, marks(t, ctx, c.client, c.path))

	// A contender that comes later waits for the delay.
	q, began := with(c.client), time.Now()
	require.NoError(t, q.Do(ctx, func(ctx context.Context) error {
		require.GreaterOrEqual(t, time.Since(began), delay)
		return nil
	}))

	// All together.
	peers = company(func() *peer { return start(c) })
	peers.hear(t, ctx, "session")
	s.contend(t, ctx, peers, func(client *framework.Client) (turn, error) {
		return c.increments(client, with(client)), nil
	})
	c.check(t, ctx, 3*others*each)
	require.Empty(t, marks(t, ctx, c.client, c.path), "the last one has released")
}

// marks returns the marks of holders below a path.
func marks(t *testing.T, ctx context.Context, client *framework.Client, path string) []string {
	t.Helper()
	children, _, err := client.Children(ctx, path)
	if !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err)
	}
	return slices.DeleteFunc(children, func(name string) bool { return !strings.HasPrefix(name, "held-mark.") })
}
