package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/shared"
)

// javaAtomicLong has both sides increment one number, with the same mutex to take turns.
func javaAtomicLong(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	peers := s.javas(t, "atomic", c.path, fmt.Sprint(each))
	peers.hear(t, ctx, "session")
	s.contend(t, ctx, peers, func(client *framework.Client) (turn, error) {
		v, err := shared.Int64(client, c.path, shared.WithMutex(c.path+"-mutex"))
		last := int64(0)
		return func(ctx context.Context, _ int) error {
			n, err := v.Update(ctx, func(n int64) (int64, error) { return n + 1, nil })
			if err == nil && n <= last {
				err = fmt.Errorf("%d after %d", n, last)
			}
			last = n
			return err
		}, err
	})
	v := testbed.Must(shared.Int64(c.client, c.path))
	testbed.CatchUp(t, c.client)
	n, _, err := v.Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2*others*each, n)
}

// javaSharedCount has both sides increment one count, by the version that they have read.
func javaSharedCount(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	count := testbed.Must(shared.Int32(c.client, c.path))
	require.NoError(t, count.CompareAndSwap(ctx, shared.Version{}, 100)) // and not Java's seed
	p := s.java(t, "count", c.path, fmt.Sprint(each))
	p.hears(t, ctx, "session")
	s.contend(t, ctx, peers{p}, func(client *framework.Client) (turn, error) {
		v, err := shared.Int32(client, c.path)
		return func(ctx context.Context, _ int) error {
			_, err := v.Update(ctx, func(n int32) (int32, error) { return n + 1, nil })
			return err
		}, err
	})
	for n, err := range count.Observe(ctx) {
		require.NoError(t, err)
		require.EqualValues(t, 100+(others+1)*each, n)
		break
	}
}

// javaDoubleBarrier has members of both sides enter and leave together, round after round. All have
// entered before one leaves: Curator 5.9.0 may hang otherwise, see docs/FROM-JAVA.md, point 10.
func javaDoubleBarrier(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	const members = 2 * others
	peers := s.javas(t, "double", c.path, c.marks, fmt.Sprint(members), fmt.Sprint(each))
	peers.hear(t, ctx, "session")
	s.contend(t, ctx, peers, func(client *framework.Client) (turn, error) {
		return func(ctx context.Context, n int) error {
			d, err := barrier.NewDouble(client, fmt.Sprintf("%s/%d", c.path, n), members)
			if err != nil {
				return err
			}
			if _, err := client.Create(ctx, fmt.Sprintf("%s/%d-", c.marks, n), nil, framework.As(framework.PersistentSequential)); err != nil {
				return err
			}
			entry, err := d.Enter(ctx)
			if err != nil {
				return err
			}
			came, err := marked(ctx, client, c.marks, fmt.Sprintf("%d-", n))
			if err != nil {
				return err
			}
			if came != members {
				return fmt.Errorf("round %d: %d have come", n, came)
			}
			if _, err := client.Create(ctx, fmt.Sprintf("%s/in-%d-", c.marks, n), nil, framework.As(framework.PersistentSequential)); err != nil {
				return err
			}
			for entered := 0; entered < members; {
				if entered, err = marked(ctx, client, c.marks, fmt.Sprintf("in-%d-", n)); err != nil {
					return err
				}
			}
			return entry.Leave(ctx)
		}, nil
	})
}

// marked returns how many marks below path begin with prefix.
func marked(ctx context.Context, client *framework.Client, path, prefix string) (int, error) {
	if err := client.Sync(ctx); err != nil {
		return 0, err
	}
	names, _, err := client.Children(ctx, path)
	n := 0
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n, err
}

// javaBarrier has each side wait for the other.
func javaBarrier(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	ours := testbed.Must(barrier.New(c.client, c.path+"/ours"))
	theirs := testbed.Must(barrier.New(c.client, c.path+"/theirs"))
	require.NoError(t, ours.Set(ctx))
	p := s.java(t, "barrier", ours.Path(), theirs.Path())
	p.hears(t, ctx, "waiting")
	passed := make(chan error, 1)
	go func() { passed <- theirs.Wait(ctx) }()
	require.True(t, testbed.Must(ours.Remove(ctx)))
	p.hears(t, ctx, "passed")
	require.NoError(t, testbed.Receive(t, passed, "Java's barrier"))
	p.hears(t, ctx, "done")
}
