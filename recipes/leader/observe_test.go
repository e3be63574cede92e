package leader_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
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

// state returns the next state.
func (o *observer) state() leader.State {
	o.t.Helper()
	s, err, ok := o.next()
	require.True(o.t, ok)
	require.NoError(o.t, err)
	return s
}

// end returns the error that ends the observation.
func (o *observer) end() error {
	o.t.Helper()
	_, err, ok := o.next()
	require.True(o.t, ok)
	require.Error(o.t, err)
	_, _, ok = o.next()
	require.False(o.t, ok, "an error is the last")
	return err
}

// fresh returns the next state that is not stale.
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
	a, _ := newElection(t, bed, path, leader.WithID("a"))
	b, _ := newElection(t, bed, path, leader.WithID("b"))
	watcher, client := newElection(t, bed, path)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	o := observe(t, ctx, watcher)
	require.Equal(t, leader.State{}, o.state(), "nobody, and no path")

	first := campaign(t, a)
	s := o.state()
	require.Equal(t, "a", s.Leader.ID)
	require.Equal(t, token(t, first), s.Leader.Token)

	second := campaigning(t, ctx, b, 2)
	require.NoError(t, first.Release())
	term := elected(t, second)
	require.Equal(t, "b", o.state().Leader.ID)
	require.NoError(t, term.Release())
	require.Equal(t, leader.State{}, o.state(), "nobody: etcd never says so")

	// What happened while the reader was busy is skipped.
	for range 3 {
		require.NoError(t, campaign(t, a).Release())
	}
	third := campaign(t, b)
	testbed.CatchUp(t, client)
	require.Equal(t, "b", o.state().Leader.ID)

	cancel()
	require.ErrorIs(t, o.end(), context.Canceled)
	require.NoError(t, third.Release())
}

func observerSurvives(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	a, _ := newElection(t, bed, path, leader.WithID("a"))
	b, _ := newElection(t, bed, path, leader.WithID("b"))
	watcher, client := newElection(t, bed, path)
	o := observe(t, testbed.Context(t), watcher)
	term := campaign(t, a)
	testbed.CatchUp(t, client)
	require.Equal(t, "a", o.fresh().Leader.ID)
	bed.ExpireSession(t, client)
	s := o.state()
	require.True(t, s.Stale, "the connection is lost")
	require.Equal(t, "a", s.Leader.ID)
	s = o.state()
	require.False(t, s.Stale, "it is back")
	require.Equal(t, "a", s.Leader.ID)
	bed.ExpireSession(t, client)
	require.NoError(t, term.Release())
	next := campaign(t, b)
	for s = o.fresh(); s.Leader.ID != "b"; s = o.fresh() {
	}
	require.NoError(t, next.Release())
}

// TestObserverCatchesUpInANewSession checks the first request of an observer in a new session: a
// lagging server must not answer with an older state than was shown before.
func TestObserverCatchesUpInANewSession(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		leaders := w.client()
		term := campaign(t, electionOn(leaders, "/election"))
		o := observe(t, testbed.Context(t), electionOn(client, "/election"))
		require.Equal(t, term.Path(), o.state().Leader.Path)
		old, others := w.session(client), w.session(leaders)
		var first atomic.Value // the operation of the first request
		stop := w.server.Trace(func(event zktest.Event) {
			if event.Watch == "" && event.Session != old && event.Session != others {
				first.CompareAndSwap(nil, event.Request.Op)
			}
		})
		require.NoError(t, w.server.ExpireSession(old))
		require.True(t, o.state().Stale)
		require.Equal(t, term.Path(), o.fresh().Leader.Path)
		stop()
		require.Equal(t, "multi", first.Load())
		require.NoError(t, term.Release())
		require.Equal(t, leader.State{}, o.fresh())
		require.NoError(t, client.Close())
		require.True(t, o.state().Stale)
		require.ErrorIs(t, o.end(), framework.ErrClosed)
	})
}

// TestObserverIsNotWokenByWhoWaits lets many candidates join and leave behind the leader.
func TestObserverIsNotWokenByWhoWaits(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		term := campaign(t, w.election())
		o := observe(t, t.Context(), electionOn(client, "/election"))
		require.True(t, o.state().Elected)
		next := testbed.Go(o.state)
		synctest.Wait()
		session := w.session(client)
		var asked atomic.Int32
		stop := w.server.Trace(func(event zktest.Event) {
			if event.Session == session {
				asked.Add(1)
			}
		})
		for range 10 {
			givenUp(t, campaigns(testbed.Timeout(t, time.Second), w.election()), context.DeadlineExceeded)
		}
		synctest.Wait()
		stop()
		require.Zero(t, asked.Load())
		require.Empty(t, next)
		require.NoError(t, term.Release())
		require.False(t, testbed.Receive(t, next, "nobody").Elected)
	})
}

// TestAnObserverReportsALossAlsoWhenItHasToLook stops the server when a change must be read: before
// the read, while the reader is busy, or during the read. The client's retry policy would repeat
// the read until the server restarts.
func TestAnObserverReportsALossAlsoWhenItHasToLook(t *testing.T) {
	for _, during := range []bool{false, true} {
		virtual(t, func(t *testing.T, w world) {
			client := w.client(framework.WithRetryPolicy(retry.Forever(time.Second)))
			term := campaign(t, w.election())
			path := term.Path()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := observe(t, ctx, electionOn(client, "/election"))
			require.Equal(t, path, o.state().Leader.Path)
			gate := w.server.Block(zktest.OnSession(w.session(client)), zktest.OnOp("getChildren", "getChildren2"))
			require.NoError(t, term.Release())
			stop := func() {
				w.server.Stop()
				gate.Open()
			}
			if during {
				go func() {
					<-gate.Arrived()
					stop()
				}()
			} else {
				stop()
				synctest.Wait()
			}
			giveUp := time.AfterFunc(time.Second, cancel)
			s := o.state()
			giveUp.Stop()
			require.True(t, s.Stale)
			require.Equal(t, path, s.Leader.Path)
			time.AfterFunc(time.Hour, func() { assert.NoError(t, w.server.Restart()) })
			require.Equal(t, leader.State{}, o.state())
		})
	}
}

// TestARecursiveWatchOfOurOwnMakesNothingStale has a client observe an election and set a recursive
// watch at its path, as caches and locks do. That watch replaces the observer's. The connection is
// not lost.
func TestARecursiveWatchOfOurOwnMakesNothingStale(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, candidate := w.client(), w.election()
		require.NoError(t, campaign(t, candidate).Release()) // the path exists
		o := observe(t, testbed.Context(t), electionOn(client, "/election"))
		require.Equal(t, leader.State{}, o.state())
		testbed.AddWatch(t, client, "/election", framework.WatchRecursive, func(zk.Event) {})
		c := testbed.Go(func() result {
			time.Sleep(time.Second) // virtual time, in which the observer waits
			return <-campaigns(t.Context(), candidate)
		})
		require.True(t, o.state().Elected)
		require.NoError(t, elected(t, c).Release())
	})
}
