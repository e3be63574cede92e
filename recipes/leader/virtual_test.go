package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// world is a server in virtual time, and clients of it.
type world struct {
	*testing.T
	server *zktest.Server
	client func(...framework.Option) *framework.Client
}

// virtual runs test in a world.
func virtual(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		test(t, world{t, w.Server, w.Client})
	})
}

// virtualRun is a subtest of virtual's kind.
func virtualRun(t *testing.T, name string, test func(t *testing.T, w world)) {
	testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) { test(t, world{t, w.Server, w.Client}) })
}

// unconnected returns a client whose connection was not awaited.
func (w world) unconnected() *framework.Client {
	return testbed.ClientOf(w.T, w.server,
		framework.WithSessionTimeout(10*time.Second),
		framework.WithConnectionTimeout(time.Second),
		framework.WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
}

func (w world) election(opts ...leader.Option) *leader.Election {
	return electionOn(w.client(), "/election", opts...)
}

// campaigning starts a campaign, and returns when all goroutines wait.
func (w world) campaigning(ctx context.Context, e *leader.Election) <-chan result {
	done := campaigns(ctx, e)
	synctest.Wait()
	return done
}

// nodes returns the names of the election's nodes.
func (w world) nodes() []string {
	names, err := w.server.Children("/election")
	if errors.Is(err, zktest.ErrNoNode) {
		return nil
	}
	require.NoError(w, err)
	return names
}

// session returns the id of a client's session.
func (w world) session(client *framework.Client) int64 {
	return testbed.Session(w.T, client).ID()
}

// soon waits until everything in progress has ended.
func (w world) soon() {
	time.Sleep(time.Second) // virtual time
	synctest.Wait()
}

func TestCampaignBeforeAnyServerIsThere(t *testing.T) { // CUR-LDR-06
	virtual(t, func(t *testing.T, w world) {
		w.server.Stop()
		c := w.campaigning(t.Context(), electionOn(w.unconnected(), "/election"))
		time.Sleep(5 * time.Minute) // virtual time, longer than any retry policy
		waiting(t, c)
		require.NoError(t, w.server.Restart())
		term := elected(t, c)
		require.Len(t, w.nodes(), 1)
		require.NoError(t, term.Err())
		require.NoError(t, term.Release())
	})
}

// TestCandidateOutlastsItsRetryPolicy ends the session by the client's own clock, with a policy
// that allows nothing.
func TestCandidateOutlastsItsRetryPolicy(t *testing.T) { // CURATOR-16, -73
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, electionOn(w.client(), "/election"))
		client := w.client(framework.WithRetryPolicy(retry.NTimes(0, time.Millisecond)))
		c := w.campaigning(t.Context(), electionOn(client, "/election"))
		for range 5 {
			id := w.session(client)
			w.server.Freeze(id)
			for {
				session, err := client.Session(t.Context())
				if err == nil && session.ID() != id {
					break
				}
				time.Sleep(time.Second)
			}
			w.server.Thaw()
			w.soon()
			waiting(t, c)
		}
		time.Sleep(20 * time.Second)
		require.Len(t, w.nodes(), 2)
		require.NoError(t, first.Release())
		require.NoError(t, elected(t, c).Release())
	})
}

func TestClosingBeforeTheConnectionIsThereEndsTheCampaign(t *testing.T) { // CUR-LDR-07
	virtual(t, func(t *testing.T, w world) {
		w.server.Stop()
		client := w.unconnected()
		c := w.campaigning(t.Context(), electionOn(client, "/election"))
		require.NoError(t, client.Close())
		givenUp(t, c, framework.ErrClosed)
		require.NoError(t, w.server.Restart())
		w.soon()
		require.Empty(t, w.server.Tree(), "no attempt is made afterwards")
	})
}

func TestAWaitInVainSaysWhetherThereWasAServer(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		holder, e := w.election(), w.election()
		term := campaign(t, holder)
		try := func() error {
			_, err := e.Campaign(testbed.Timeout(t, 3*time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return err
		}
		require.NotErrorIs(t, try(), zk.ErrNoServer, "somebody else leads")
		w.server.Stop()
		require.ErrorIs(t, try(), zk.ErrNoServer)
		for _, err := range e.Observe(testbed.Timeout(t, 3*time.Second)) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, zk.ErrNoServer)
		}
		require.NoError(t, w.server.Restart())
		_ = term.Release()
	})
}

func TestAllServersDownMeansNoLeaderAndThenExactlyOne(t *testing.T) { // CUR-LDR-16
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithErrorPolicy(connstate.LostEndsHold))
		first := campaign(t, electionOn(client, "/election"))
		var all []<-chan result
		for range 9 {
			all = append(all, w.campaigning(t.Context(), electionOn(client, "/election")))
		}
		w.server.Stop()
		testbed.Receive(t, first.Done(), "the end of the term")
		require.ErrorIs(t, first.Err(), framework.ErrSessionLost)
		time.Sleep(time.Minute)
		for _, c := range all {
			waiting(t, c)
		}
		require.NoError(t, w.server.Restart())
		led := 0
		for led < len(all) {
			w.soon()
			for i, c := range all {
				if len(c) == 0 {
					continue
				}
				term := elected(t, c)
				led++
				w.soon()
				for _, other := range all {
					waiting(t, other)
				}
				require.NoError(t, term.Release(), "candidate %d", i)
				w.soon()
			}
		}
		require.ErrorIs(t, first.Release(), framework.ErrSessionLost)
	})
}

// TestATermEndsBeforeItsNodeGoes checks the term at the moment when the server deletes its node.
func TestATermEndsBeforeItsNodeGoes(t *testing.T) { // CURATOR-620; client-go's ReleaseOnCancel
	for name, end := range map[string]func(t *testing.T, client *framework.Client, e *leader.Election, began func(*leader.Term)){
		"release": func(t *testing.T, _ *framework.Client, e *leader.Election, began func(*leader.Term)) {
			term := campaign(t, e)
			began(term)
			require.NoError(t, term.Release())
		},
		"close": func(t *testing.T, client *framework.Client, e *leader.Election, began func(*leader.Term)) {
			began(campaign(t, e))
			require.NoError(t, client.Close())
		},
		"lead": func(t *testing.T, _ *framework.Client, e *leader.Election, began func(*leader.Term)) {
			require.NoError(t, e.Lead(t.Context(), func(_ context.Context, term *leader.Term) error {
				began(term)
				return nil
			}))
		},
		"panic": func(t *testing.T, _ *framework.Client, e *leader.Election, began func(*leader.Term)) {
			require.PanicsWithValue(t, "broken", func() {
				_ = e.Run(t.Context(), func(_ context.Context, term *leader.Term) error {
					began(term)
					panic("broken")
				})
			})
		},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client()
			e := electionOn(client, "/election")
			var began atomic.Pointer[leader.Term]
			var deleted atomic.Bool
			stop := w.server.Trace(func(event zktest.Event) {
				term := began.Load()
				if term != nil && event.Watch == "" && event.Request.Op == "delete" {
					deleted.Store(true)
					assert.Error(w, term.Err(), "the node went first")
				}
			})
			defer stop()
			end(w.T, client, e, began.Store)
			require.Error(w, began.Load().Err())
			if name != "close" {
				require.Empty(w, w.nodes(), "deleted when the call returns")
			}
			w.soon()
			require.Empty(w, w.nodes())
			require.Equal(w, name != "close", deleted.Load())
		})
	}
}

// TestAServerThatRefusesCredentialsEndsNoCampaign has a server refuse the credentials of a waiting
// candidate that also observes, and accept them again while its session lives, or later.
func TestAServerThatRefusesCredentialsEndsNoCampaign(t *testing.T) {
	for name, refusal := range map[string]time.Duration{"session lives": 4 * time.Second, "session is over": time.Hour} {
		virtualRun(t, name, func(t *testing.T, w world) {
			refuses := testbed.RefuseCredentials(w.server)
			first := campaign(t, electionOn(w.client(framework.WithErrorPolicy(connstate.LostEndsHold)), "/election"))
			e := electionOn(w.client(framework.WithAuth("digest", []byte("user:password"))), "/election")
			c := w.campaigning(t.Context(), e)
			o := observe(t, t.Context(), e)
			before := o.state()
			require.True(t, before.Elected)
			refuses.Store(true)
			w.server.CutConnections()
			require.True(t, o.state().Stale)
			observed := testbed.Go(o.state)
			time.Sleep(refusal) // virtual time: the refusal lasts as long as the case says
			waiting(t, c)
			_, err := e.Campaign(testbed.Timeout(t, time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, zk.ErrAuthFailed, "the reason is in the error")
			refuses.Store(false)
			w.soon()
			require.Equal(t, before, <-observed)
			require.NoError(t, first.Release())
			require.NoError(t, elected(t, c).Release())
			w.soon()
			require.Empty(t, w.nodes())
		})
	}
}

// stops is a policy that allows no retry. It calls a function when it is asked.
type stops func()

func (s stops) Reset() {}
func (s stops) NextBackOff() time.Duration {
	s()
	return backoff.Stop
}

// TestACampaignThatIsGivenUpAtALossSaysSo has the context end at the same time as the session.
func TestACampaignThatIsGivenUpAtALossSaysSo(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, w.election())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := w.client(framework.WithRetryPolicy(func() retry.BackOff { return stops(cancel) }))
		c := w.campaigning(ctx, electionOn(client, "/election"))
		require.NoError(t, w.server.ExpireSession(w.session(client)))
		givenUp(t, c, context.Canceled)
		require.NoError(t, first.Release())
	})
}

// TestACandidateIsNotTiedToAnotherTermsSession has a candidate and an observer with the values of
// the context of a term whose session has ended, and not with its end.
func TestACandidateIsNotTiedToAnotherTermsSession(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		before := campaign(t, electionOn(client, "/before"))
		require.NoError(t, w.server.ExpireSession(w.session(client)))
		testbed.Receive(t, before.Done(), "the end of the term")
		ctx, cancel := context.WithTimeout(context.WithoutCancel(before.Context()), time.Minute)
		defer cancel()
		e := electionOn(client, "/election")
		require.Equal(t, leader.State{}, observe(t, ctx, e).state())
		require.NoError(t, elected(t, campaigns(ctx, e)).Release())
	})
}

// TestCloseEndsAPauseBetweenTries refuses a candidate and an observer until their pauses last for
// seconds.
func TestCloseEndsAPauseBetweenTries(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		refuses := testbed.RefuseCredentials(w.server)
		client := w.client(framework.WithAuth("digest", []byte("user:password")), framework.WithSessionTimeout(40*time.Second))
		e := electionOn(client, "/election")
		refuses.Store(true)
		w.server.CutConnections()
		synctest.Wait()
		c := w.campaigning(t.Context(), e)
		observed := testbed.Go(func() error { return observe(t, t.Context(), e).end() })
		time.Sleep(20 * time.Second) // virtual time: the pauses grow
		synctest.Wait()
		began := time.Now()
		require.NoError(t, client.Close())
		closing := time.Since(began) // it looks for a server, to end the session
		givenUp(t, c, framework.ErrClosed)
		require.ErrorIs(t, testbed.Receive(t, observed, "the end of the observation"), framework.ErrClosed)
		require.Equal(t, closing, time.Since(began))
	})
}

// TestNodeOfALostSessionStaysUntilTheWorkHasReturned has a client give up its session and create
// another one, before the servers expire the first, while its function still runs.
func TestNodeOfALostSessionStaysUntilTheWorkHasReturned(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithErrorPolicy(connstate.LostEndsHold))
		work, finish := context.WithCancel(t.Context())
		defer finish()
		done := testbed.Go(func() error {
			return electionOn(client, "/election").Lead(t.Context(), func(context.Context, *leader.Term) error {
				<-work.Done()
				return nil
			})
		})
		synctest.Wait()
		names, first := w.nodes(), w.session(client)
		require.Len(t, names, 1)
		w.server.Freeze(first)
		for w.session(client) == first { // until it is given up
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond) // virtual time, in which the node must stay
		require.Equal(t, names, w.nodes())
		finish()
		require.ErrorIs(t, <-done, framework.ErrSessionLost)
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, w.nodes())
		require.Len(t, w.server.Sessions(), 2, "the servers have not ended the first yet")
	})
}
