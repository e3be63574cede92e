package leader_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// Bugs that other libraries had or have. The name of each is in its comment; what Run must
// not do is in run_test.go.

// CURATOR-620: two reconnects in quick succession made two leaders.
func TestReconnectsInQuickSuccessionMakeOneLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithCancel(t.Context())
		var inside, terms atomic.Int32
		ended := make(chan error, 3)
		for range 3 {
			e := w.election()
			go func() {
				ended <- e.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
					terms.Add(1)
					assert.EqualValues(t, 1, inside.Add(1), "two leaders")
					<-ctx.Done()
					inside.Add(-1)
					return ctx.Err()
				})
			}()
		}
		for pause := range 40 {
			w.soon()
			require.EqualValues(t, 1, inside.Load())
			w.server.CutConnections()
			time.Sleep(time.Duration(pause) * time.Millisecond)
			w.server.CutConnections()
		}
		w.soon()
		require.Len(t, w.nodes(), 3, "one node for each candidate")
		require.Greater(t, terms.Load(), int32(40), "the connection's loss ends a term")
		cancel()
		for range 3 {
			require.ErrorIs(t, testbed.Receive(t, ended, "the end"), context.Canceled)
		}
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
		third := w.campaigning(t.Context(), electionOn(t, client, "/election"))
		old := w.session(client)
		gate := w.server.Block(zktest.OnSession(old), zktest.OnPath("/election"))
		cancel() // the third looks again
		require.Error(t, testbed.Receive(t, second, "the end of the campaign").err)
		synctest.Wait()
		require.NoError(t, w.server.ExpireSession(old))
		gate.Open()
		w.soon()
		waiting(t, third)
		require.Len(t, w.nodes(), 2)
		require.NoError(t, term.Resign())
		term = elected(t, third)
		require.NotEqual(t, old, w.session(client))
		require.Len(t, w.nodes(), 1)
		require.NoError(t, term.Resign())
	})
}

// CURATOR-645, FLINK-28078: when a predecessor went, candidates made their nodes anew and chased each other.
func TestCandidatesKeepTheirNodesWhenOthersGo(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, w.election())
		ctx, cancel := context.WithCancel(t.Context())
		second := w.campaigning(ctx, w.election())
		third := w.campaigning(t.Context(), w.election())
		fourth := w.campaigning(t.Context(), w.election())
		before, err := w.election().Participants(t.Context())
		require.NoError(t, err)
		w.server.ResetCounts()
		cancel()
		require.Error(t, testbed.Receive(t, second, "the end of the campaign").err)
		w.soon()
		require.NoError(t, first.Resign())
		term := elected(t, third)
		require.Equal(t, before[2].Path, term.Path())
		require.NoError(t, term.Resign())
		term = elected(t, fourth)
		require.Equal(t, before[3].Path, term.Path())
		require.NoError(t, term.Resign())
		require.Zero(t, w.server.Requests().Requests[zktest.OpCreate])
	})
}

// CURATOR-652, -653, -696, -498: after an outage the own old node, which the server had not deleted yet, was taken for ours.
func TestOldNodeOfOurOwnIsSomebodyElses(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithErrorPolicy(connstate.Session))
		e := electionOn(t, client, "/election", leader.WithID("the same"))
		old := campaign(t, e)
		id := w.session(client)
		allow := func(perms int32) {
			acl := []zk.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}
			_, err := w.client().SetACL(t.Context(), "/election", acl, -1)
			require.NoError(t, err)
		}
		allow(zk.PermAll &^ zk.PermDelete) // the library deletes what it knows to be old
		w.server.Freeze(id)
		testbed.Receive(t, old.Done(), "the end of the term")
		require.ErrorIs(t, old.Err(), lock.ErrSessionLost)
		c := w.campaigning(t.Context(), e)
		for len(w.nodes()) < 2 { // the client gives its session up a little earlier than the server
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.True(t, w.server.Exists(old.Path()))
		waiting(t, c)
		who, err := electionOn(t, w.client(), "/election").Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, id, who.Session, "the old one is still the first")
		allow(zk.PermAll)
		term := elected(t, c) // when the server ends the old session
		require.NotEqual(t, old.Path(), term.Path())
		require.ErrorIs(t, old.Resign(), lock.ErrSessionLost)
		require.NoError(t, term.Err(), "a late resignation does not hit the next term")
		require.NoError(t, term.Resign())
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
		token, err := first.FencingToken(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Resign())
		second := campaign(t, e)
		require.NoError(t, second.Resign())
		third := campaign(t, e)

		again, err := first.FencingToken(t.Context())
		require.NoError(t, err)
		require.Equal(t, token, again)
		_, err = second.FencingToken(t.Context())
		require.ErrorIs(t, err, lock.ErrReleased, "it was never asked for")
		require.ErrorIs(t, err, leader.ErrResigned, "the cause of the term's end")
		newest, err := third.FencingToken(t.Context())
		require.NoError(t, err)
		require.Greater(t, newest, token)
		paths := map[string]bool{first.Path(): true, second.Path(): true, third.Path(): true}
		require.Len(t, paths, 3)
		require.ErrorIs(t, second.Resign(), leader.ErrResigned, "and does not hit the third")
		require.NoError(t, third.Err())
		require.NoError(t, third.Resign())
	})
}

// CURATOR-3, -62: a start that was cancelled while the node was made left the node, and the election stood still.
func TestCancelledCreateLeavesNoNode(t *testing.T) {
	for name, block := range map[string]func(*zktest.Server, ...zktest.Match) *zktest.Gate{
		"before it is carried out": (*zktest.Server).Block,
		"before it is answered":    (*zktest.Server).BlockReplies,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				e, other := w.election(), w.election()
				require.NoError(w, campaign(w.T, e).Resign()) // the path is there
				gate := block(w.server, zktest.OnCreate())
				ctx, cancel := context.WithCancel(w.Context())
				c := w.campaigning(ctx, e)
				testbed.Receive(w.T, gate.Arrived(), "the create")
				cancel()
				require.ErrorIs(w, testbed.Receive(w.T, c, "the end of the campaign").err, context.Canceled)
				gate.Open()
				require.NoError(w, campaign(w.T, other).Resign(), "the election goes on")
				w.soon()
				require.Empty(w, w.nodes())
			})
		})
	}
}

// Vitess zk2topo: a create whose reply was lost left a ghost, which led.
func TestCreateWithoutReplyMakesOneCandidate(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		e, other := w.election(), w.election()
		lost := w.server.Inject(zktest.LoseReply, 0, zktest.OnCreate(), zktest.OnPath("/election/"))
		term := campaign(t, e)
		require.True(t, lost.Met())
		w.soon()
		require.Len(t, w.nodes(), 1)
		next := w.campaigning(t.Context(), other)
		if term.Err() == nil {
			require.NoError(t, term.Resign())
		}
		require.NoError(t, elected(t, next).Resign())
	})
}

// Vitess zk2topo: leadership was returned before there was a watch on the own node.
func TestNodeDeletedRightAfterTheCampaignEndsTheTerm(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		stranger := w.client()
		term := campaign(t, w.election())
		require.NoError(t, stranger.Delete(t.Context(), term.Path(), -1))
		testbed.Receive(t, term.Done(), "the end of the term")
		require.ErrorIs(t, term.Err(), lock.ErrNodeDeleted)
		require.ErrorIs(t, term.Resign(), lock.ErrNodeDeleted)
	})
}

// etcd #19597: a campaign did not end with its session, and came back as the leader of a session that was over.
func TestLeaderAfterAnExpiryLeadsInALivingSession(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, w.election())
		client := w.client()
		c := w.campaigning(t.Context(), electionOn(t, client, "/election"))
		old := w.session(client)
		require.NoError(t, w.server.ExpireSession(old))
		require.NoError(t, first.Resign()) // at the same moment
		term := elected(t, c)
		require.NoError(t, term.Err())
		stat, err := w.server.Stat(term.Path())
		require.NoError(t, err)
		require.Equal(t, w.session(client), stat.EphemeralOwner)
		require.NoError(t, term.Resign())
	})
}

// Waiting nodes that somebody deletes again and again are made again: CURATOR-15's loop died unseen.
func TestDeletedCandidateJoinsAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		first := campaign(t, w.election())
		c := w.campaigning(t.Context(), w.election())
		stranger := w.client()
		for range 20 { // more often than any retry policy allows
			w.soon()
			for _, name := range slices.Clone(w.nodes()) {
				path := framework.Join("/election", name)
				if path == first.Path() {
					continue
				}
				require.NoError(t, stranger.Delete(t.Context(), path, -1))
			}
		}
		require.NoError(t, first.Resign())
		require.NoError(t, elected(t, c).Resign())
	})
}

// CURATOR-165: an error in a check made a dead latch. What cannot heal is told.
func TestErrorsThatCannotHealAreTold(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		e := w.election()
		require.NoError(t, campaign(t, e).Resign())
		require.NoError(t, w.server.SetSequence("/election", -2147483648))
		_, err := e.Campaign(t.Context())
		require.ErrorIs(t, err, lock.ErrSequenceExhausted)
		w.soon()
		require.Empty(t, w.nodes())

		_, err = w.client().SetACL(t.Context(), "/", []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}, -1)
		require.NoError(t, err)
		other := electionOn(t, w.client(), "/other")
		_, err = other.Campaign(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.False(t, errors.Is(err, context.Canceled))
	})
}
