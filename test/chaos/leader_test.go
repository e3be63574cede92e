//go:build linux

package chaos

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
)

// newCandidate takes part in an election: sometimes with Campaign, sometimes with Lead.
func newCandidate(client *framework.Client, policy connstate.ErrorPolicy) (acquirer, error) {
	e, err := leader.New(client, lockPath, leader.WithErrorPolicy(policy))
	return func(ctx context.Context, random *rand.Rand) (held, bool, error) {
		if random.IntN(3) == 0 {
			h, err := lead(ctx, e)
			return h, false, err
		}
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, false, err
		}
		return leads{Term: term, ctx: term.Context(), release: term.Release}, false, nil
	}, err
}

// leads is a term of leadership: of an election, or of the first shard.
type leads struct {
	*leader.Term
	ctx     context.Context
	release func() error
}

func (l leads) SessionID() int64         { return l.Session().ID() }
func (l leads) Context() context.Context { return l.ctx }
func (l leads) Done() <-chan struct{}    { return l.ctx.Done() }
func (l leads) Release() error           { return l.release() }

func (l leads) Err() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return nil
}

// lead returns in the middle of a Lead, whose function returns with the release. ctx is for the
// waiting.
func lead(ctx context.Context, e *leader.Election) (held, error) {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	begun := make(chan leads, 1)
	over := make(chan struct{})
	ended := make(chan error, 1)
	go func() { // ends with the context or the release
		defer cancel(nil)
		ended <- e.Lead(working, func(ctx context.Context, term *leader.Term) error {
			stop()
			begun <- leads{Term: term, ctx: ctx, release: func() error {
				close(over)
				return <-ended
			}}
			<-over
			return nil
		})
	}()
	select {
	case h := <-begun:
		return h, nil
	case err := <-ended:
		return nil, err
	}
}

// follower counts the states that an observer of the election is given.
type follower struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	states, nobody, stale, backwards int // may be read when it has stopped
}

func follow(t *testing.T, ctx context.Context, client *framework.Client) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{cancel: cancel}
	e, err := leader.New(client, lockPath)
	if !assert.NoError(t, err) {
		return f
	}
	f.wg.Go(func() {
		var token int64
		for state, err := range e.Observe(ctx) {
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled, "the observer's end")
				return
			}
			f.states++
			switch {
			case state.Stale:
				f.stale++
			case !state.Elected:
				f.nobody++
			case state.Leader.Token < token:
				f.backwards++
			default:
				token = state.Leader.Token
			}
		}
	})
	return f
}

func (f *follower) stop() {
	f.cancel()
	f.wg.Wait()
}

// vacancies returns the longest time without a leader between the first term and the last, and the
// longest part of such a time after the last fault in it had been healed.
func vacancies(claims []hold, faults []fault) (longest, healed time.Duration) {
	claims = slices.SortedFunc(slices.Values(claims), func(a, b hold) int { return cmp.Compare(a.From, b.From) })
	var end time.Duration
	for i, c := range claims {
		if i > 0 && c.From > end {
			since := end
			for _, f := range faults {
				if f.From < c.From && f.To > since {
					since = min(f.To, c.From)
				}
			}
			longest, healed = max(longest, c.From-end), max(healed, c.From-since)
		}
		end = max(end, c.To)
	}
	return longest, healed
}

func TestVacancies(t *testing.T) {
	claims := []hold{{From: 1 * ms, To: 2 * ms}, {From: 12 * ms, To: 20 * ms}, {From: 24 * ms, To: 25 * ms}}
	for _, c := range []struct {
		faults          []fault
		longest, healed time.Duration
	}{
		{nil, 10 * ms, 10 * ms},
		{[]fault{{span: span{0, 1 * ms}}}, 10 * ms, 10 * ms},
		{[]fault{{span: span{1 * ms, 5 * ms}}}, 10 * ms, 7 * ms},
		{[]fault{{span: span{1 * ms, 5 * ms}}, {span: span{6 * ms, 11 * ms}}}, 10 * ms, 4 * ms},
		{[]fault{{span: span{1 * ms, 5 * ms}}, {span: span{6 * ms, 30 * ms}}}, 10 * ms, 0},
	} {
		longest, healed := vacancies(claims, c.faults)
		assert.Equal(t, c.longest, longest, "%+v", c.faults)
		assert.Equal(t, c.healed, healed, "%+v", c.faults)
	}
}
