package shard

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
)

const (
	// defaultSettling is the default of WithSettling, so that members that start together are
	// planned together.
	defaultSettling = 100 * time.Millisecond

	// settlings is how many times WithSettling a plan waits at most.
	settlings = 5
)

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
	cached, err := cache.New(r.client, r.members(), cache.WithDepth(1))
	if err != nil {
		return err
	}
	defer cached.Close()
	r.all.Go(func() { // ends with the cache
		for range cached.Changes(ctx) {
			r.changed.Raise()
		}
	})
	known := r.atTakeover()
	for {
		if !r.quiet(ctx, func() bool { return known.settles(group(cached)) }) {
			return nil
		}
		var wake time.Duration
		if known, wake, err = r.replan(ctx, cached); err != nil || ctx.Err() != nil {
			if ctx.Err() != nil || passes(err) {
				return nil
			}
			return err
		}
		planned()
		var over <-chan time.Time // the end of the next grace period
		if wake > 0 {
			over = time.After(wake)
		}
		select {
		case <-r.changed.C():
		case <-over:
		case <-ctx.Done():
			return nil
		}
	}
}

// atTakeover returns the members that a new planner knows: nil if it has just started, perhaps with
// all others.
func (r *run) atTakeover() members {
	if time.Since(r.began) <= settlings*r.cfg.settling {
		return nil
	}
	known, p := make(members), r.inForce()
	for _, id := range p.Owners {
		if id != "" {
			known[id] = present{weight: 1}
		}
	}
	return known.without(p)
}

// quiet waits until the group does not change any more, for the time of WithSettling if settles
// reports true, and otherwise for the default. It reports false if ctx is done.
func (r *run) quiet(ctx context.Context, settles func() bool) bool {
	limit := time.After(settlings * r.cfg.settling)
	for {
		settling := defaultSettling
		if settles() {
			settling = r.cfg.settling
		}
		select {
		case <-time.After(settling):
			return ctx.Err() == nil
		case <-limit:
			return ctx.Err() == nil
		case <-r.changed.C():
		case <-ctx.Done():
			return false
		}
	}
}

// replan writes a plan for the group as it is now. It returns the members that the plan counts
// with, and when the next grace is over. A planner that does not see its own node does not see the
// group.
func (r *run) replan(ctx context.Context, cached *cache.Cache) (known members, wake time.Duration, err error) {
	if err := cached.Sync(ctx); err != nil {
		return nil, 0, err
	}
	var now int64
	needed := errors.New("the time of the servers is needed")
	for {
		_, err = r.Member.plan.Update(ctx, func(p plan) (plan, error) {
			g := group(cached)
			known = g.without(p)
			if _, sees := g[r.id]; !sees || len(p.Owners) != r.cfg.shards {
				return p, errUnchanged
			}
			for id := range p.Stays {
				if _, here := g[id]; !here && now == 0 {
					return p, needed
				}
			}
			var next plan
			next, wake = p.next(g, now)
			known = g.without(next)
			if reflect.DeepEqual(next, p) {
				return p, errUnchanged
			}
			return next, nil
		})
		switch {
		case errors.Is(err, errUnchanged):
			return known, wake, nil
		case !errors.Is(err, needed):
			return known, wake, err
		}
		if now, err = r.serverTime(ctx); err != nil {
			return nil, 0, err
		}
	}
}

// serverTime returns the time of the servers, in milliseconds since 1970, by a write that leaves
// nothing.
func (r *run) serverTime(ctx context.Context) (int64, error) {
	path := r.path + "/time-" + uuid.New()
	results, err := r.client.Multi(ctx, &zk.CreateRequest{Path: path, Data: []byte{}, Flags: zk.FlagEphemeral},
		&zk.SetDataRequest{Path: path, Data: []byte{}, Version: 0}, &zk.DeleteRequest{Path: path, Version: -1})
	if err != nil {
		return 0, err
	}
	return results[1].Stat.Mtime, nil
}

// encode returns the data of a member's node. A member of weight 0 is being drained.
func encode(weight int, grace time.Duration) []byte {
	data, _ := json.Marshal(record{weight, grace.Milliseconds()}) // it cannot fail
	return data
}

// record is the data of a member's node.
type record struct {
	Weight int   `json:"weight"`
	Grace  int64 `json:"grace,omitempty"` // in milliseconds
}

// members are the members that are present, by id. In a set of known members, absent members
// have no weight.
type members map[string]present

// without returns m and the members that are absent in p.
func (m members) without(p plan) members {
	m = maps.Clone(m)
	for id := range p.Stays {
		if p.absent(id) {
			m[id] = present{}
		}
	}
	return m
}

// settles reports whether a plan for the group now must wait until the group is quiet: a member has
// joined that was not known, and none was lost. Nothing is known at the start.
func (m members) settles(now members) bool {
	for id, was := range m {
		if was.weight > 0 && now[id].weight == 0 {
			return false // a member that took shards is missing, or is being drained
		}
	}
	for id, is := range now {
		if _, known := m[id]; is.weight > 0 && !known {
			return true
		}
	}
	return m == nil
}

// group returns the members that are present. A persistent node is not a member, and neither is a
// node without a valid weight.
func group(cached *cache.Cache) members {
	members := make(members)
	for n := range cached.Children(cached.Path()) {
		var data record
		if n.Stat.EphemeralOwner != 0 && json.Unmarshal(n.Data, &data) == nil && data.Weight >= 0 && data.Weight <= maxWeight {
			_, id := framework.Split(n.Path)
			members[id] = present{data.Weight, time.Duration(min(max(data.Grace, 0), maxGrace.Milliseconds())) * time.Millisecond}
		}
	}
	return members
}
