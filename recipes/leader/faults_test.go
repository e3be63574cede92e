package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
)

// scenario is a run of an election with one fault. The subject's requests meet the fault, and the
// other candidate's do not.
type scenario struct {
	*testbed.Scenario
	subject, other *leader.Election
}

const faultPath = "/deep/down/election"

// eachRequest runs test with each request of the subject failing, see testbed.EachRequest.
func eachRequest(t *testing.T, test func(t *testing.T, s scenario)) {
	testbed.EachRequest(t, func(t *testing.T, s *testbed.Scenario) {
		c := scenario{
			s, electionOn(s.Subject, faultPath, leader.WithID("subject")), electionOn(s.Other, faultPath, leader.WithID("other")),
		}
		test(t, c)
		c.finish(t)
	})
}

// finish checks what must hold after every scenario: the other candidate can lead, and no node of
// the subject remains.
func (s scenario) finish(t *testing.T) {
	t.Helper()
	require.NoError(t, campaign(t, s.other).Release())
	testbed.Eventually(t, func() bool {
		children, err := s.Server.Children(faultPath)
		return err != nil || len(children) == 0
	}, "no node is left behind")
}

// checkAlone checks that the other candidate does not lead while the term's context is live. A
// session that is expired by force gives no warning, so its leader may be notified later.
func (s scenario) checkAlone(t *testing.T, term *leader.Term) {
	t.Helper()
	second, err := s.other.Campaign(testbed.Timeout(t, 30*time.Millisecond))
	if err != nil {
		require.ErrorIs(t, testbed.Listed(t, s.other, "Campaign", err), context.DeadlineExceeded)
		return
	}
	if s.Expires {
		testbed.Receive(t, term.Done(), "word of the loss")
	}
	assert.Error(t, term.Err(), "two leaders")
	require.NoError(t, second.Release())
}

// checkRelease checks that what Release returns is true.
func (s scenario) checkRelease(t *testing.T, term *leader.Term) {
	t.Helper()
	err := testbed.Listed(t, term, "Release", term.Release())
	if err == nil {
		assert.False(t, s.Server.Exists(term.Path()), "resigned, so the node is gone")
		return
	}
	assert.ErrorIs(t, err, framework.ErrLost)
}

func TestCampaignWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		term := campaign(t, s.subject)
		s.checkAlone(t, term)
		s.checkRelease(t, term)
	})
}

func TestWaitingCampaignWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		ahead := campaign(t, s.other)
		c := campaigns(testbed.Context(t), s.subject)
		participants(t, s.other, 2)
		waiting(t, c)
		require.NoError(t, ahead.Release())
		term := elected(t, c)
		s.checkAlone(t, term)
		s.checkRelease(t, term)
	})
}

func TestCancelledCampaignWithAnyRequestFailing(t *testing.T) { // etcd #21128 leaves its key
	eachRequest(t, func(t *testing.T, s scenario) {
		ahead := campaign(t, s.other)
		_, err := s.subject.Campaign(testbed.Timeout(t, 30*time.Millisecond))
		require.ErrorIs(t, testbed.Listed(t, s.subject, "Campaign", err), context.DeadlineExceeded)
		require.NoError(t, ahead.Err())
		require.NoError(t, ahead.Release())
	})
}

func TestRunWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		terms := 0
		err := s.subject.Run(testbed.Context(t), func(ctx context.Context, term *leader.Term) error {
			time.Sleep(time.Second) // in virtual time: a term that lasts has its node watched
			if terms++; terms < 3 {
				return nil
			}
			_, err := term.FencingToken(ctx)
			testbed.Listed(t, term, "FencingToken", err)
			if term.Err() == nil {
				assert.NoError(t, err)
				return errEnough
			}
			return err
		})
		require.ErrorIs(t, testbed.Listed(t, s.subject, "Run", err, errEnough), errEnough)
	})
}

func TestObserveWithAnyRequestFailing(t *testing.T) {
	eachRequest(t, func(t *testing.T, s scenario) {
		o := observe(t, testbed.Context(t), s.subject)
		require.Equal(t, leader.State{}, o.fresh())
		for range 2 {
			term := campaign(t, s.other)
			s := o.fresh()
			for !s.Elected {
				s = o.fresh()
			}
			require.Equal(t, term.Path(), s.Leader.Path)
			require.NoError(t, term.Release())
			for s = o.fresh(); s.Elected; s = o.fresh() {
			}
		}
		_, err := s.subject.Leader(testbed.Context(t))
		require.ErrorIs(t, testbed.Listed(t, s.subject, "Leader", err), leader.ErrNoLeader)
	})
}
