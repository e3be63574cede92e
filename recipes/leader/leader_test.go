package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestElection(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "leadership passes in the order of joining", Test: inOrder},        // CUR-LDR-01
		{Name: "many candidates never lead together", Test: neverTogether},        // CUR-LDR-02
		{Name: "a candidate that leaves elects nobody", Test: leaverElectsNobody}, // CUR-LDR-03, KZ-LDR-02
		// CUR-LDR-08
		{Name: "a path that nobody used has no leader", Test: unusedPath},
		// CUR-LDR-10
		{Name: "a refused candidate gets the error", Test: refusedGetsTheError},
		// CUR-LDR-11, KZ-LDR-01
		{Name: "everybody sees the same participants", Test: sameParticipants},
		// CUR-LDR-12
		{Name: "all get their turn when all run again", Test: rotates},
		// CUR-LDR-05, -14
		{Name: "closing a candidate leaves the leader alone", Test: closing},
		// CURATOR-16, -73; etcd #19597
		{Name: "a candidate that loses its session joins again", Test: joinsAgain},
		// CURATOR-3
		{Name: "a leader that loses its session leads again in a new term", Test: regain},
		{Name: "nodes are those of a latch", Test: latchNodes},
		{Name: "nodes are those of a selector", Test: selectorNodes},
		{Name: "latches and selectors on one path are two elections", Test: twoElections},
		{Name: "a selector and a mutex exclude each other", Test: selectorIsAMutex},
		{Name: "a guard commits only during its term", Test: guard},
		{Name: "observers see each leader and nobody", Test: observes},
		{Name: "an observer's loss of its session is no end", Test: observerSurvives},
	})
}

// newElection creates an election on a separate client.
func newElection(t *testing.T, bed *testbed.Bed, path string, opts ...leader.Option) (*leader.Election, *framework.Client) {
	t.Helper()
	client := bed.Client(t)
	return electionOn(client, path, opts...), client
}

func electionOn(client *framework.Client, path string, opts ...leader.Option) *leader.Election {
	return testbed.Must(leader.New(client, path, opts...))
}

func campaign(t *testing.T, e *leader.Election) *leader.Term {
	t.Helper()
	term, err := e.Campaign(testbed.Context(t))
	require.NoError(t, err)
	return term
}

type result struct {
	term *leader.Term
	err  error
}

// campaigning starts a campaign and waits until the election has n participants.
func campaigning(t *testing.T, ctx context.Context, e *leader.Election, n int) <-chan result {
	t.Helper()
	done := campaigns(ctx, e)
	participants(t, e, n)
	return done
}

// campaigns starts a campaign.
func campaigns(ctx context.Context, e *leader.Election) <-chan result {
	return testbed.Go(func() result {
		term, err := e.Campaign(ctx)
		return result{term, err}
	})
}

// participants waits until there are n, and returns them.
func participants(t *testing.T, e *leader.Election, n int) (ps []leader.Participant) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		var err error
		ps, err = e.Participants(testbed.Context(t))
		return err == nil && len(ps) == n
	}, fmt.Sprintf("%d participants", n))
	return ps
}

// elected waits for a campaign to succeed.
func elected(t *testing.T, c <-chan result) *leader.Term {
	t.Helper()
	r := testbed.Receive(t, c, "the leadership")
	require.NoError(t, r.err)
	return r.term
}

// givenUp waits for a campaign to fail.
func givenUp(t *testing.T, c <-chan result, want error) error {
	t.Helper()
	err := testbed.Receive(t, c, "the end of the campaign").err
	require.ErrorIs(t, err, want)
	return err
}

// waiting checks that a campaign has not ended.
func waiting(t *testing.T, c <-chan result) {
	t.Helper()
	require.Empty(t, c, "campaign ended")
}

// token returns the fencing token of a term.
func token(t *testing.T, term *leader.Term) int64 {
	t.Helper()
	n, err := term.FencingToken(testbed.Context(t))
	require.NoError(t, err)
	return n
}

// noLeader checks that an election has no leader.
func noLeader(t *testing.T, e *leader.Election, why ...any) {
	t.Helper()
	require.ErrorIs(t, testbed.Err(e.Leader(testbed.Context(t))), leader.ErrNoLeader, why...)
}

// onlyOwner is an ACL that permits nothing to other clients.
var onlyOwner = framework.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}})

func ids(ps []leader.Participant) (list []string) {
	for _, p := range ps {
		list = append(list, p.ID)
	}
	return list
}

func inOrder(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	client := bed.Client(t) // one for all, as in Java's test
	var queue []<-chan result
	for i := range 5 {
		e := electionOn(client, path, leader.WithID(fmt.Sprint(i)))
		queue = append(queue, campaigning(t, testbed.Context(t), e, i+1))
	}
	for i, c := range queue {
		term := elected(t, c)
		require.Equal(t, fmt.Sprint(i), term.ID())
		for _, later := range queue[i+1:] {
			waiting(t, later)
		}
		require.NoError(t, term.Release())
		require.ErrorIs(t, term.Err(), lock.ErrReleased)
	}
}

func neverTogether(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	var inside, terms atomic.Int32
	var wg sync.WaitGroup
	for range 5 {
		e, _ := newElection(t, bed, path)
		wg.Go(func() {
			for range 6 {
				assert.NoError(t, e.Lead(testbed.Context(t), func(ctx context.Context, _ *leader.Term) error {
					assert.EqualValues(t, 1, inside.Add(1), "two leaders")
					// real time, the length of the term: so a second leader would meet the first
					time.Sleep(time.Millisecond)
					assert.NoError(t, ctx.Err())
					inside.Add(-1)
					terms.Add(1)
					return nil
				}))
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 30, terms.Load())
}

// leaverElectsNobody: a deleted node causes others to read the queue, and elects no candidate by
// itself. The candidate that has left is passed over.
func leaverElectsNobody(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	e, client := newElection(t, bed, path)
	first := campaign(t, e)
	ctx, cancel := context.WithCancelCause(testbed.Context(t))
	second, _ := newElection(t, bed, path)
	left := campaigning(t, ctx, second, 2)
	third, _ := newElection(t, bed, path)
	stays := campaigning(t, testbed.Context(t), third, 3)
	gaveUp := errors.New("gave up")
	cancel(gaveUp)
	require.ErrorIs(t, givenUp(t, left, context.Canceled), gaveUp)
	participants(t, e, 2)
	testbed.CatchUp(t, client)
	waiting(t, stays)
	require.NoError(t, first.Err())
	require.NoError(t, first.Release())
	require.NoError(t, elected(t, stays).Release())
}

func unusedPath(t *testing.T, bed *testbed.Bed) {
	e, _ := newElection(t, bed, testbed.Path(t))
	noLeader(t, e)
	participants(t, e, 0)
	require.NoError(t, campaign(t, e).Release())
	noLeader(t, e, "all have left")
}

func refusedGetsTheError(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	dir, _ := framework.Split(path)
	owner := bed.Client(t, framework.WithAuth("digest", []byte("me:secret")))
	testbed.Create(t, owner, dir, nil, onlyOwner)
	e, _ := newElection(t, bed, path)
	require.ErrorIs(t, testbed.Err(e.Campaign(testbed.Context(t))), zk.ErrNoAuth)
	require.ErrorIs(t, e.Run(testbed.Context(t), func(context.Context, *leader.Term) error { return errEnough }), zk.ErrNoAuth)
	require.NoError(t, campaign(t, electionOn(owner, path)).Release())
}

func sameParticipants(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	var all []*leader.Election
	var want []string
	var first *leader.Term
	ctx, cancel := context.WithCancel(testbed.Context(t))
	var others []<-chan result
	for i := range 4 {
		id := fmt.Sprintf(" candidate %d ö ", i)
		want = append(want, id)
		e, _ := newElection(t, bed, path, leader.WithID(id), leader.WithSelector())
		all = append(all, e)
		if i == 0 {
			first = campaign(t, e)
			continue
		}
		others = append(others, campaigning(t, ctx, e, i+1))
	}
	bystander, _ := newElection(t, bed, path, leader.WithSelector())
	for _, e := range append(all, bystander) {
		ps := participants(t, e, len(want))
		require.Equal(t, want, ids(ps), "in the order of the queue")
		for i, p := range ps {
			require.Equal(t, i == 0, p.Leads)
		}
		who := testbed.Must(e.Leader(ctx))
		require.Equal(t, ps[0], who)
		require.Equal(t, token(t, first), who.Token)
	}
	cancel()
	for _, c := range others {
		givenUp(t, c, context.Canceled)
	}
	require.NoError(t, first.Release())
}

func rotates(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	const n, rounds = 4, 3
	ctx, cancel := context.WithCancel(testbed.Context(t))
	defer cancel()
	var turns []string // by one leader at a time
	queued := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		e, _ := newElection(t, bed, path, leader.WithID(fmt.Sprint(i)))
		wg.Go(func() {
			assert.ErrorIs(t, e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
				<-queued
				if turns = append(turns, term.ID()); len(turns) == n*rounds {
					cancel()
				}
				for ctx.Err() == nil {
					if ps, err := e.Participants(ctx); err == nil && len(ps) == n {
						break // the former leader has joined again
					}
					time.Sleep(time.Millisecond) // a poll, until ctx ends: no signal says that another candidate has joined
				}
				return nil
			}), context.Canceled)
		})
		if i == 0 {
			participants(t, e, 1)
		}
	}
	bystander, _ := newElection(t, bed, path)
	participants(t, bystander, n)
	close(queued)
	wg.Wait()
	for round := range rounds {
		part := slices.Sorted(slices.Values(turns[round*n : (round+1)*n]))
		require.Equal(t, []string{"0", "1", "2", "3"}, part, "round %d of %v", round, turns)
	}
}

func closing(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	e, client := newElection(t, bed, path)
	term := campaign(t, e)
	follower, followers := newElection(t, bed, path)
	c := campaigning(t, testbed.Context(t), follower, 2)
	require.NoError(t, followers.Close())
	givenUp(t, c, framework.ErrClosed)
	participants(t, e, 1)
	require.NoError(t, term.Err(), "the leader still leads")
	other, _ := newElection(t, bed, path)
	next := campaigning(t, testbed.Context(t), other, 2)
	waiting(t, next)
	require.NoError(t, client.Close())
	// CURATOR's default close notifies no listener
	testbed.Receive(t, term.Done(), "the end of the term")
	require.ErrorIs(t, term.Err(), framework.ErrClosed)
	require.ErrorIs(t, term.Release(), framework.ErrClosed)
	require.NoError(t, elected(t, next).Release())
}

func joinsAgain(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	e, _ := newElection(t, bed, path)
	term := campaign(t, e)
	other, client := newElection(t, bed, path)
	c := campaigning(t, testbed.Context(t), other, 2)
	for range 3 {
		old := participants(t, e, 2)[1]
		bed.ExpireSession(t, client)
		testbed.Eventually(t, func() bool {
			ps, err := e.Participants(testbed.Context(t))
			return err == nil && len(ps) == 2 && ps[1].Path != old.Path && ps[1].SessionID != old.SessionID
		}, "another node of another session")
		waiting(t, c)
	}
	require.NoError(t, term.Release())
	require.NoError(t, elected(t, c).Release())
}

func regain(t *testing.T, bed *testbed.Bed) {
	e, client := newElection(t, bed, testbed.Path(t))
	var tokens []int64
	err := e.Run(testbed.Context(t), func(ctx context.Context, term *leader.Term) error {
		token, err := term.FencingToken(ctx)
		if err != nil {
			return err
		}
		if tokens = append(tokens, token); len(tokens) == 3 {
			return errEnough
		}
		bed.ExpireSession(t, client)
		<-ctx.Done()
		assert.ErrorIs(t, term.Err(), framework.ErrLost)
		return ctx.Err()
	})
	require.ErrorIs(t, err, errEnough)
	require.True(t, slices.IsSorted(tokens) && len(slices.Compact(tokens)) == 3, "%v", tokens)
}

var errEnough = errors.New("enough")

// Bugs that other libraries had or have. The name of each is in its comment; what Run must
// not do is in run_test.go.

// CURATOR-620: two reconnects in quick succession elected two leaders.
func TestReconnectsInQuickSuccessionMakeOneLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithCancel(t.Context())
		var inside, terms atomic.Int32
		var all sync.WaitGroup
		for range 3 {
			e := w.election()
			all.Go(func() {
				assert.ErrorIs(t, e.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
					terms.Add(1)
					assert.EqualValues(t, 1, inside.Add(1), "two leaders")
					<-ctx.Done()
					inside.Add(-1)
					return ctx.Err()
				}), context.Canceled)
			})
		}
		for pause := range 40 {
			w.soon()
			require.EqualValues(t, 1, inside.Load())
			w.server.CutConnections()
			// virtual time: the second loss occurs at each moment of the reconnect
			time.Sleep(time.Duration(pause) * time.Millisecond)
			w.server.CutConnections()
		}
		w.soon()
		require.Len(t, w.nodes(), 3, "one node for each candidate")
		require.Greater(t, terms.Load(), int32(40), "the connection's loss ends a term")
		cancel()
		all.Wait()
		require.Empty(t, w.nodes())
	})
}

// CURATOR-644, -504: the session ended while a check of the old node was under way.
func TestSessionThatEndsDuringALookIsNoDeadEnd(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		term := campaign(t, w.election())
		ctx, cancel := context.WithCancel(t.Context())
		second := w.campaigning(ctx, w.election())
		client := w.client()
		third := w.campaigning(t.Context(), electionOn(client, "/election"))
		old := w.session(client)
		gate := w.server.Block(zktest.OnSession(old), zktest.OnPath("/election"))
		cancel() // the third looks again
		givenUp(t, second, context.Canceled)
		synctest.Wait()
		require.NoError(t, w.server.ExpireSession(old))
		gate.Open()
		w.soon()
		waiting(t, third)
		require.Len(t, w.nodes(), 2)
		require.NoError(t, term.Release())
		term = elected(t, third)
		require.NotEqual(t, old, w.session(client))
		require.Len(t, w.nodes(), 1)
		require.NoError(t, term.Release())
	})
}

// CURATOR-645, FLINK-28078: when a predecessor left, candidates recreated their nodes and chased
// each other.
func TestCandidatesKeepTheirNodesWhenOthersGo(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, w.election())
		ctx, cancel := context.WithCancel(t.Context())
		second := w.campaigning(ctx, w.election())
		third := w.campaigning(t.Context(), w.election())
		fourth := w.campaigning(t.Context(), w.election())
		before := testbed.Must(w.election().Participants(t.Context()))
		w.server.ResetCounts()
		cancel()
		givenUp(t, second, context.Canceled)
		w.soon()
		require.NoError(t, first.Release())
		term := elected(t, third)
		require.Equal(t, before[2].Path, term.Path())
		require.NoError(t, term.Release())
		term = elected(t, fourth)
		require.Equal(t, before[3].Path, term.Path())
		require.NoError(t, term.Release())
		require.Zero(t, w.server.Requests().Requests["create"])
	})
}

// CURATOR-652, -653, -696, -498: after an outage the own old node, which the server had not deleted
// yet, was mistaken for this client's.
func TestOldNodeOfOurOwnIsSomebodyElses(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithErrorPolicy(connstate.LostEndsHold))
		e := electionOn(client, "/election", leader.WithID("the same"))
		old := campaign(t, e)
		id := w.session(client)
		allow := func(perms int32) { testbed.SetACL(t, w.client(), "/election", zk.WorldACL(perms)) }
		allow(zk.PermAll &^ zk.PermDelete) // the library deletes what it knows to be old
		w.server.Freeze(id)
		testbed.Receive(t, old.Done(), "the end of the term")
		require.ErrorIs(t, old.Err(), framework.ErrSessionLost)
		c := w.campaigning(t.Context(), e)
		for len(w.nodes()) < 2 { // the client gives its session up a little earlier than the server
			time.Sleep(time.Millisecond) // virtual time
		}
		synctest.Wait()
		require.True(t, w.server.Exists(old.Path()))
		waiting(t, c)
		who := testbed.Must(electionOn(w.client(), "/election").Leader(t.Context()))
		require.Equal(t, id, who.SessionID, "the old one is still the first")
		allow(zk.PermAll)
		term := elected(t, c) // when the server ends the old session
		require.NotEqual(t, old.Path(), term.Path())
		require.ErrorIs(t, old.Release(), framework.ErrSessionLost)
		require.NoError(t, term.Err(), "a late resignation does not hit the next term")
		require.NoError(t, term.Release())
	})
}

// CURATOR-724: the election's path itself vanished, and nothing happened ever after.
func TestElectionThatVanishesIsMadeAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		const candidates = 4
		leading, enough, ended := make(chan *leader.Term, 1), make(chan struct{}), make(chan error, candidates)
		lead := func(ctx context.Context, term *leader.Term) error {
			select {
			case leading <- term:
			case <-ctx.Done(): // woken by the deletion of all
				return ctx.Err()
			}
			select {
			case <-ctx.Done():
				<-leading
				return ctx.Err()
			case <-enough:
				return errEnough
			}
		}
		for range candidates {
			e := w.election()
			go func() { ended <- e.Run(t.Context(), lead) }()
		}
		w.soon()
		o := observe(t, testbed.Context(t), w.election())
		old := o.state().Leader.Path
		var ops []any
		for _, name := range w.nodes() {
			ops = append(ops, &zk.DeleteRequest{Path: framework.Join("/election", name), Version: -1})
		}
		_, err := w.client().Multi(t.Context(), append(ops, &zk.DeleteRequest{Path: "/election", Version: -1})...)
		require.NoError(t, err)
		w.soon()
		require.Len(t, w.nodes(), candidates)
		for n := candidates; n > 0; n-- {
			w.soon()
			require.Len(t, w.nodes(), n)
			term := testbed.Receive(t, leading, "a leader")
			require.NoError(t, term.Err())
			require.NotEqual(t, old, term.Path())
			for s := o.fresh(); s.Leader.Path != term.Path(); s = o.fresh() {
			}
			enough <- struct{}{}
			require.ErrorIs(t, testbed.Receive(t, ended, "the end"), errEnough)
		}
		require.Equal(t, leader.State{}, o.fresh())
	})
}

// CURATOR-537: the path of another term was used as the token.
func TestProofBelongsToItsTerm(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		e := w.election()
		first := campaign(t, e)
		early := token(t, first)
		require.NoError(t, first.Release())
		second := campaign(t, e)
		require.NoError(t, second.Release())
		third := campaign(t, e)

		require.Equal(t, early, token(t, first))
		require.ErrorIs(t, testbed.Err(second.FencingToken(t.Context())), lock.ErrReleased, "it was never asked for")
		require.Greater(t, token(t, third), early)
		paths := map[string]bool{first.Path(): true, second.Path(): true, third.Path(): true}
		require.Len(t, paths, 3)
		require.ErrorIs(t, second.Release(), lock.ErrReleased, "and does not hit the third")
		require.NoError(t, third.Err())
		require.NoError(t, third.Release())
	})
}

// CURATOR-3, -62: a start that was cancelled while the node was created left the node, and the
// election hung.
func TestCancelledCreateLeavesNoNode(t *testing.T) {
	for name, block := range map[string]func(*zktest.Server, ...zktest.Match) *zktest.Gate{
		"before it is carried out": (*zktest.Server).Block,
		"before it is answered":    (*zktest.Server).BlockReplies,
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			e, other := w.election(), w.election()
			require.NoError(w, campaign(w.T, e).Release()) // the path exists
			gate := block(w.server, zktest.OnCreate())
			ctx, cancel := context.WithCancel(w.Context())
			c := w.campaigning(ctx, e)
			testbed.Receive(w.T, gate.Arrived(), "the create")
			cancel()
			givenUp(w.T, c, context.Canceled)
			gate.Open()
			require.NoError(w, campaign(w.T, other).Release(), "the election goes on")
			w.soon()
			require.Empty(w, w.nodes())
		})
	}
}

// etcd #19597: a campaign did not end with its session, and returned as the leader of a session
// that was over.
func TestLeaderAfterAnExpiryLeadsInALivingSession(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, w.election())
		client := w.client()
		c := w.campaigning(t.Context(), electionOn(client, "/election"))
		old := w.session(client)
		require.NoError(t, w.server.ExpireSession(old))
		require.NoError(t, first.Release()) // at the same moment
		term := elected(t, c)
		require.NoError(t, term.Err())
		require.Equal(t, w.session(client), testbed.ServerStat(t, w.server, term.Path()).EphemeralOwner)
		require.NoError(t, term.Release())
	})
}

// Waiting nodes that another client deletes again and again are recreated: CURATOR-15's loop died
// unseen.
func TestDeletedCandidateJoinsAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, w.election())
		c := w.campaigning(t.Context(), w.election())
		stranger := w.client()
		for range 20 { // more often than any retry policy allows
			w.soon()
			require.Len(t, w.nodes(), 2, "the leader and the candidate, which has joined again")
			for _, name := range w.nodes() {
				if path := framework.Join("/election", name); path != first.Path() {
					require.NoError(t, stranger.Delete(t.Context(), path))
				}
			}
		}
		require.NoError(t, first.Release())
		require.NoError(t, elected(t, c).Release())
	})
}

// CURATOR-165: an error in a check left a dead latch. A permanent error is returned.
func TestErrorsThatCannotHealAreReturned(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		e := w.election()
		require.NoError(t, campaign(t, e).Release())
		require.NoError(t, w.server.SetSequence("/election", -2147483648))
		require.ErrorIs(t, testbed.Err(e.Campaign(t.Context())), lock.ErrSequenceExhausted)
		w.soon()
		require.Empty(t, w.nodes())

		testbed.SetACL(t, w.client(), "/", zk.WorldACL(zk.PermRead))
		_, err := electionOn(w.client(), "/other").Campaign(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.False(t, errors.Is(err, context.Canceled))
	})
}

// TestAnErrorNamesOneOperationAndOnePath has a server refuse everything.
func TestAnErrorNamesOneOperationAndOnePath(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		owner := w.client(framework.WithAuth("digest", []byte("me:secret")))
		testbed.Create(t, owner, "/election", nil, onlyOwner)
		nothing := func(context.Context, *leader.Term) error { return nil }
		e := w.election()
		_, campaigned := e.Campaign(t.Context())
		_, who := e.Leader(t.Context())
		_, all := e.Participants(t.Context())
		for op, err := range map[string]error{
			"campaign":     campaigned,
			"leader":       who,
			"participants": all,
			"run":          e.Run(t.Context(), nothing),
			"lead":         e.Lead(t.Context(), nothing),
			"observe":      observe(t, t.Context(), e).end(),
		} {
			testbed.OneOp(t, err, op, "/election")
			require.ErrorIs(t, err, zk.ErrNoAuth)
		}
		_, err := leader.New(owner, "/election", leader.WithErrorPolicy(99))
		testbed.OneOp(t, err, "election", "/election")

		client := w.client()
		term := campaign(t, electionOn(client, "/other"))
		require.NoError(t, client.Close())
		testbed.OneOp(t, term.Release(), "release", term.Path())
		_, err = term.FencingToken(t.Context())
		testbed.OneOp(t, err, "fencing token", term.Path())
		_, err = electionOn(client, "/other").Campaign(t.Context())
		testbed.OneOp(t, err, "campaign", "/other")
	})
}
