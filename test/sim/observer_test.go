package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/leader"
)

// observer checks what Observe yields.
type observer struct {
	*actor
	election *election
	of       *leader.Election

	mu   sync.Mutex // guards what follows
	last leader.State
	seen int64 // the highest token
}

// observe begins again now and then, until ctx is done.
func (o *observer) observe(ctx context.Context) {
	for ctx.Err() == nil {
		limited, cancel := context.WithCancel(ctx)
		if !o.calm.Load() {
			limited, cancel = context.WithTimeout(ctx, upTo(o.random, time.Minute)+time.Millisecond)
		}
		o.follow(limited)
		cancel()
	}
}

// follow is one loop. Its first state must be as new as what the servers' leader knew before.
func (o *observer) follow(ctx context.Context) {
	before, first := o.election.leads(), true
	for state, err := range o.of.Observe(ctx) {
		if err != nil {
			o.monitor.count("observer ended: " + reason(err))
			if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
				o.monitor.fail("election", "an observer of %s ended: %v", o.name, err)
			}
			return
		}
		o.see(state, first, before)
		first = false
		if o.random.IntN(5) == 0 {
			o.sleep(upTo(o.random, 3*time.Second), ctx.Done())
		}
	}
}

func (o *observer) see(state leader.State, first bool, before int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.monitor.count("states observed")
	switch {
	case first && state.Stale:
		o.monitor.fail("election", "the first state is stale: %+v", state)
	case first && state.Elected && state.Leader.Token < before:
		o.monitor.fail("election", "the first state is %+v, %#x led before", state, before)
	case state.Elected && state.Leader.Token < o.seen:
		o.monitor.fail("election", "an observer of %s moved back from %#x to %+v", o.name, o.seen, state)
	case !first && state.Stale && (state.Elected != o.last.Elected || state.Leader != o.last.Leader):
		o.monitor.fail("election", "a stale state is not the last one: %+v after %+v", state, o.last)
	}
	o.last, o.seen = state, max(o.seen, state.Leader.Token)
}
