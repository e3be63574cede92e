package leader_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestTheFirstThatCanBeReadLeads deletes nodes between the list and the read of the first one.
func TestTheFirstThatCanBeReadLeads(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, e *leader.Election) (leader.Participant, bool){
		"Leader": func(t *testing.T, e *leader.Election) (leader.Participant, bool) {
			who, err := e.Leader(testbed.Context(t))
			return who, !errors.Is(err, leader.ErrNoLeader)
		},
		"Participants": func(t *testing.T, e *leader.Election) (leader.Participant, bool) {
			ps, err := e.Participants(testbed.Context(t))
			require.NoError(t, err)
			if len(ps) == 0 {
				return leader.Participant{}, false
			}
			return ps[0], true
		},
		"Observe": func(t *testing.T, e *leader.Election) (leader.Participant, bool) {
			s := observe(t, testbed.Context(t), e).state()
			return s.Leader, s.Elected
		},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client()
			e := electionOn(client, "/election")
			first := campaign(t, w.election(leader.WithID("first")))
			second := w.campaigning(t.Context(), w.election(leader.WithID("second")))
			meanwhile := func(happens func()) <-chan leader.Participant {
				lists := zktest.OnOp("getChildren", "getChildren2")
				gate := w.server.BlockReplies(zktest.OnSession(w.session(client)), lists)
				answer := make(chan leader.Participant, 1)
				go func() {
					defer close(answer)
					if who, found := ask(t, e); found {
						answer <- who
					}
				}()
				testbed.Receive(t, gate.Arrived(), "the list")
				happens()
				gate.Open()
				return answer
			}
			who, found := <-meanwhile(func() { require.NoError(t, first.Release()) })
			require.True(t, found)
			require.Equal(t, "second", who.ID)
			require.True(t, who.Leads)
			term := elected(t, second)
			_, found = <-meanwhile(func() { require.NoError(t, term.Release()) })
			require.False(t, found, "all have gone")
		})
	}
}

func TestAPathWithOtherNodesOnlyHasNoLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		e := electionOn(client, "/election")
		for _, name := range []string{"lock-0000000000", "latch-", "latch-x", "latch-12", "other"} {
			testbed.Create(t, client, "/election/"+name, nil, framework.PersistentParents())
		}
		noLeader(t, e)
		o := observe(t, testbed.Context(t), e)
		require.False(t, o.state().Elected)
		term := campaign(t, e)
		require.Equal(t, term.Path(), o.state().Leader.Path)
		require.NoError(t, term.Release())
		require.False(t, o.state().Elected)
	})
}

func TestNumbersAtTheirEndAreAnError(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		e := electionOn(client, "/election")
		testbed.Create(t, client, "/election/x-latch--2147483648", nil, framework.PersistentParents())
		require.ErrorIs(t, testbed.Err(e.Leader(t.Context())), lock.ErrSequenceExhausted)
		require.ErrorIs(t, testbed.Err(e.Participants(t.Context())), lock.ErrSequenceExhausted)
		require.ErrorIs(t, observe(t, t.Context(), e).end(), lock.ErrSequenceExhausted)
		require.ErrorIs(t, testbed.Err(e.Campaign(t.Context())), lock.ErrSequenceExhausted)
	})
}

// TestObserverDoesNotMissWhoComesWhileItSetsItsWatch has the first candidate join between the list,
// which may not find the path, and the watch.
func TestObserverDoesNotMissWhoComesWhileItSetsItsWatch(t *testing.T) {
	for name, exists := range map[string]bool{"the path exists": true, "the election begins": false} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client, candidate := w.client(), w.election()
			watch, lists := zktest.OnOp("exists"), atomic.Int32{}
			if exists {
				require.NoError(t, campaign(t, candidate).Release())
				watch = zktest.On(func(r zktest.Request) bool { // the second list
					return strings.HasPrefix(r.Op, "getChildren") && lists.Add(1) > 1
				})
			}
			gate := w.server.Block(zktest.OnSession(w.session(client)), watch)
			state := testbed.Go(func() leader.State {
				return observe(t, testbed.Context(t), electionOn(client, "/election")).state()
			})
			testbed.Receive(t, gate.Arrived(), "the watch")
			term := campaign(t, candidate)
			gate.Open()
			require.Equal(t, term.Path(), testbed.Receive(t, state, "the state").Leader.Path)
			require.NoError(t, term.Release())
		})
	}
}
