package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/shared"
)

// settling is the time from a change of the group to the next plan, so that members that start
// together are planned together.
const settling = 100 * time.Millisecond

// Run calls f for each shard that this member owns, in a goroutine of its own, until ctx is done.
// Calls for one shard never overlap. The shard is released when f has returned.
//
// The context of f is cancelled before another member can own the shard: on a suspension or loss,
// when the plan gives the shard to another member ([ErrMoved]), after Drain ([ErrDrained]), and
// when Run returns. If f returns nil before that, it is called again after a pause.
//
// Run returns when all calls have returned:
//   - nil after Drain,
//   - the cause of ctx,
//   - the error of f, if f fails while it owns its shard,
//   - [ErrRunning], [ErrShards], [framework.ErrBadArgument] if f is nil, and [shared.ErrBadValue]
//     if the plan cannot be decoded,
//   - [framework.ErrClosed], and errors that a retry cannot fix, such as zk.ErrNoAuth.
func (m *Member) Run(ctx context.Context, f func(ctx context.Context, shard int) error) (err error) {
	defer func() { err = opError("run", m.path, err) }()
	r := &run{Member: m, f: f, shards: make(map[int]*shard)}
	r.ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	if f == nil {
		return check(false, "nil function")
	}
	was := idle
	m.update(func() {
		if was = m.phase; was == idle {
			m.phase, m.run = running, r
		}
	})
	switch was {
	case running, draining:
		return ErrRunning
	case drained:
		return nil
	}
	defer m.update(func() { m.phase, m.run = [...]phase{running: idle, draining: drained}[m.phase], nil })
	member, err := node.Keep(r.ctx, m.client, m.path+"/members/"+m.id, encode(m.cfg.weight), node.WithIfTaken(node.Replace))
	if err != nil {
		return err
	}
	defer r.all.Wait()
	defer member.Close() // after an error the node is removed with the session
	r.all.Go(r.follow)
	r.all.Go(r.plans)
	if r.until(r.ctx, func() bool { return m.phase == draining }) == nil {
		err := member.Set(r.ctx, encode(0))
		r.step(err, func() {})
		<-r.ctx.Done()
	}
	if err := context.Cause(r.ctx); !errors.Is(err, ErrDrained) {
		return err
	}
	return nil
}

// run is a Run in progress.
type run struct {
	*Member
	f   func(ctx context.Context, shard int) error
	ctx context.Context
	end context.CancelCauseFunc // with the result of Run
	all sync.WaitGroup          // the goroutines

	// Guarded by Member.mu.
	plan   plan           // in force
	shards map[int]*shard // not in the map: neither wanted nor leaving
}

// shard is a shard that the plan gives to this member, or gave to it until a moment ago.
//
//	want       until
//	alive      the plan gives the shard to another member, and the limit of moves allows that
//	ended      f has returned, the shard is released and, if moves are limited, the new owner leads
//
// It is removed after that. If the plan gives it to this member again, it begins anew.
type shard struct {
	want context.Context // of the campaign
	drop context.CancelCauseFunc
	move context.Context // of the wait for the new owner
	stop context.CancelFunc
	call context.Context // of f; nil while f is not called
}

func (s *shard) leaving() bool { return s.want.Err() != nil }

// follow follows the plan until the run ends.
func (r *run) follow() {
	for p, err := range r.Member.plan.Observe(r.ctx) {
		if err == nil && len(p) != r.cfg.shards {
			err = r.differs(p)
		}
		r.step(err, func() { r.plan = p })
	}
}

// step applies a change of the plan, a shard or the phase. An error ends the run.
func (r *run) step(err error, change func()) {
	if err != nil {
		r.end(err)
	}
	r.update(func() {
		if change(); r.ctx.Err() == nil {
			r.apply()
		}
	})
}

// apply starts the shards that the plan gives to this member, and gives up others.
func (r *run) apply() {
	limit, cause := r.cfg.moves, ErrMoved
	if r.phase == draining {
		limit, cause = 1, ErrDrained
	}
	for _, s := range r.shards {
		if s.leaving() {
			limit--
		}
	}
	for index, owner := range r.plan {
		s := r.shards[index]
		switch {
		case s == nil && owner == r.id:
			r.start(index)
		case s != nil && owner != r.id && !s.leaving() && limit > 0:
			limit--
			s.drop(cause)
		}
		if s != nil && s.leaving() && (owner == "" || owner == r.id) {
			s.stop() // no other owner is expected
		}
	}
	if r.phase == draining && len(r.shards) == 0 && !slices.Contains(r.plan, r.id) {
		r.end(ErrDrained)
	}
}

// start campaigns for a shard.
func (r *run) start(index int) {
	s := &shard{}
	s.want, s.drop = context.WithCancelCause(r.ctx)
	s.move, s.stop = context.WithCancel(r.ctx)
	r.shards[index] = s
	r.all.Go(func() {
		defer s.stop()
		defer s.drop(nil)
		election, err := r.election("shards/" + strconv.Itoa(index))
		if err == nil {
			err = r.own(s, election, index)
		}
		if err == nil {
			err = r.handOver(s, election)
		}
		r.step(err, func() { delete(r.shards, index) })
	})
}

// own campaigns for a shard and calls f while this member leads, until the shard is dropped.
func (r *run) own(s *shard, election *leader.Election, index int) error {
	var late error // of the last call, if its context had ended
	err := election.Run(s.want, func(ctx context.Context, term *leader.Term) (err error) {
		ctx = context.WithValue(ctx, termKey{}, term)
		r.update(func() { s.call = ctx })
		defer r.update(func() { s.call = nil })
		// The shard is not owned from then on, although f has not returned.
		defer context.AfterFunc(ctx, func() { r.update(func() {}) })()
		err = r.f(ctx, index)
		if late = nil; ctx.Err() != nil && !errors.Is(err, ctx.Err()) && !errors.Is(context.Cause(ctx), err) {
			late = err
		}
		return err
	})
	if !s.leaving() {
		return err
	}
	if late != nil {
		engine.Of(r.client).Logger().Warn("function failed after it had lost its shard", "path", election.Path(), "reason", late)
	}
	return nil
}

// handOver waits until another member leads, if moves are limited and another owner is expected.
func (r *run) handOver(s *shard, election *leader.Election) error {
	if r.cfg.moves == r.cfg.shards && !errors.Is(context.Cause(s.want), ErrDrained) {
		return nil
	}
	for state, err := range election.Observe(s.move) {
		switch {
		case s.move.Err() != nil: // see apply
			return nil
		case err != nil || state.Elected && state.Leader.ID != r.id:
			return err
		}
	}
	return nil
}

func (r *run) election(name string) (*leader.Election, error) {
	return leader.New(r.client, r.path+"/"+name, leader.WithID(r.id))
}

// plans writes the plans while this member is the planner, until the run ends.
func (r *run) plans() {
	election, err := r.election("planner")
	if err == nil {
		err = election.Run(r.ctx, r.balance)
	}
	r.end(err)
}

// balance writes a plan after each change of the group, until ctx is done. After an error that may
// pass, it returns nil to be called again, here or in another member.
func (r *run) balance(ctx context.Context, _ *leader.Term) error {
	group, err := cache.New(r.client, r.path+"/members", cache.WithDepth(1))
	if err != nil {
		return err
	}
	defer group.Close()
	for {
		_, changed := group.Current()
		select {
		case <-time.After(settling):
		case <-ctx.Done():
			return nil
		}
		_, err := r.Member.plan.Update(ctx, func(p plan) (plan, error) {
			next := p.rebalanced(weights(group))
			if current, _ := group.Current(); !current || len(p) != r.cfg.shards || slices.Equal(next, p) {
				return p, errUnchanged
			}
			return next, nil
		})
		switch {
		case err == nil, errors.Is(err, errUnchanged):
		case errors.Is(err, zk.ErrNoAuth), errors.Is(err, framework.ErrTooLong), errors.Is(err, shared.ErrBadValue):
			return err
		default:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// encode returns the data of a member's node. A member of weight 0 is being drained.
func encode(weight int) []byte { return fmt.Appendf(nil, `{"weight":%d}`, weight) }

// weights returns the weights of the members that take shards. A node without a valid weight does
// not count.
func weights(group *cache.Cache) map[string]int {
	weights := make(map[string]int)
	for n := range group.Children(group.Path()) {
		var data struct{ Weight int }
		if json.Unmarshal(n.Data, &data) == nil && data.Weight >= 1 && data.Weight <= maxWeight {
			_, id := framework.Split(n.Path)
			weights[id] = data.Weight
		}
	}
	return weights
}
