package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
)

// settling is the time from a change of the group to the next plan, so that members that start
// together are planned together.
const settling = 100 * time.Millisecond

// plans writes the plans while this member is the planner, until the run ends. After an error that
// a retry cannot fix, another member may be the planner: it may have the rights, or a higher limit.
func (r *run) plans() {
	election, err := r.election("planner")
	if err != nil {
		r.end(err) // the path was checked by New
		return
	}
	pauses := wait.Pauses{First: firstPause, Last: lastPause}
	for r.ctx.Err() == nil {
		r.trouble("no new plan", election.Path(), election.Run(r.ctx, func(ctx context.Context, _ *leader.Term) error {
			return r.balance(ctx, func() { pauses.Reset(); r.fine(election.Path()) })
		}))
		_ = engine.Sleep(r.ctx, engine.Of(r.client), pauses.Next()) // the loop ends with ctx
	}
}

// balance writes a plan after each change of the group, until ctx is done. After each it calls
// planned. After an error that may pass, it returns nil to be called again, here or in another
// member.
func (r *run) balance(ctx context.Context, planned func()) error {
	group, err := cache.New(r.client, r.members(), cache.WithDepth(1))
	if err != nil {
		return err
	}
	defer group.Close()
	var changed wait.Signal
	r.all.Go(func() { // ends with the cache
		for range group.Changes(ctx) {
			changed.Raise()
		}
	})
	for {
		if engine.Sleep(ctx, engine.Of(r.client), settling) != nil {
			return nil
		}
		switch err := r.replan(ctx, group); {
		case ctx.Err() != nil, err != nil && passes(err):
			return nil
		case err != nil:
			return err
		}
		planned()
		select {
		case <-changed.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// replan writes a plan for the group as it is now. A planner that does not see its own node does
// not see the group.
func (r *run) replan(ctx context.Context, group *cache.Cache) error {
	if err := group.Sync(ctx); err != nil {
		return err
	}
	_, err := r.Member.plan.Update(ctx, func(p plan) (plan, error) {
		if _, sees := group.Get(r.node()); !sees || len(p) != r.cfg.shards {
			return p, errUnchanged
		}
		next := p.rebalanced(weights(group))
		if slices.Equal(next, p) {
			return p, errUnchanged
		}
		return next, nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// encode returns the data of a member's node. A member of weight 0 is being drained.
func encode(weight int) []byte { return fmt.Appendf(nil, `{"weight":%d}`, weight) }

// weights returns the weights of the members that take shards. A persistent node is not a member,
// and a node without a valid weight does not count.
func weights(group *cache.Cache) map[string]int {
	weights := make(map[string]int)
	for n := range group.Children(group.Path()) {
		var data struct{ Weight int }
		if n.Stat.EphemeralOwner != 0 && json.Unmarshal(n.Data, &data) == nil && data.Weight >= 1 && data.Weight <= maxWeight {
			_, id := framework.Split(n.Path)
			weights[id] = data.Weight
		}
	}
	return weights
}
