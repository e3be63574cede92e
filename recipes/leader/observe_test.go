package leader_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/leader"
)

// observer reads an observation step by step.
type observer struct {
	t    *testing.T
	next func() (leader.State, error, bool)
}

func observe(t *testing.T, ctx context.Context, e *leader.Election) *observer {
	next, stop := iter.Pull2(e.Observe(ctx))
	t.Cleanup(stop)
	return &observer{t, next}
}

// state is the next one that there is.
func (o *observer) state() leader.State {
	o.t.Helper()
	s, err, ok := o.next()
	require.True(o.t, ok)
	require.NoError(o.t, err)
	return s
}

// end is the error that ends the observation.
func (o *observer) end() error {
	o.t.Helper()
	_, err, ok := o.next()
	require.True(o.t, ok)
	require.Error(o.t, err)
	_, _, ok = o.next()
	require.False(o.t, ok, "an error is the last")
	return err
}

// fresh is the next state that is not stale.
func (o *observer) fresh() leader.State {
	o.t.Helper()
	for {
		if s := o.state(); !s.Stale {
			return s
		}
	}
}

func observes(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, client := newElection(t, bed, path, leader.WithID("a"))
	b, _ := newElection(t, bed, path, leader.WithID("b"))
	watcher, _ := newElection(t, bed, path)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	o := observe(t, ctx, watcher)
	require.Equal(t, leader.State{}, o.state(), "nobody, and no path")

	first := campaign(t, a)
	s := o.state()
	require.Equal(t, "a", s.Leader.ID)
	token, err := first.FencingToken(ctx)
	require.NoError(t, err)
	require.Equal(t, token, s.Leader.Token)

	second := campaigning(t, ctx, b, 2)
	require.NoError(t, first.Resign())
	term := elected(t, second)
	require.Equal(t, "b", o.state().Leader.ID)
	require.NoError(t, term.Resign())
	require.Equal(t, leader.State{}, o.state(), "nobody: etcd never says so")

	// What happened while the reader was busy is skipped.
	for range 3 {
		require.NoError(t, campaign(t, a).Resign())
	}
	third := campaign(t, b)
	require.Equal(t, "b", o.state().Leader.ID)
	testbed.CatchUp(t, client)

	cancel()
	require.ErrorIs(t, o.end(), context.Canceled)
	require.NoError(t, third.Resign())
}

func observerSurvives(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newElection(t, bed, path, leader.WithID("a"))
	b, _ := newElection(t, bed, path, leader.WithID("b"))
	watcher, client := newElection(t, bed, path)
	o := observe(t, testbed.Context(t), watcher)
	term := campaign(t, a)
	require.Equal(t, "a", o.fresh().Leader.ID)
	bed.KillSession(t, client)
	s := o.state()
	require.True(t, s.Stale, "the connection is lost")
	require.Equal(t, "a", s.Leader.ID)
	s = o.state()
	require.False(t, s.Stale, "it is back")
	require.Equal(t, "a", s.Leader.ID)
	bed.KillSession(t, client)
	require.NoError(t, term.Resign())
	next := campaign(t, b)
	for s = o.fresh(); s.Leader.ID != "b"; s = o.fresh() {
	}
	require.NoError(t, next.Resign())
}
