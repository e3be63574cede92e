package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/node"
)

const (
	// Pauses before a failed function is called again, and before a refused request is repeated.
	firstPause = time.Second
	lastPause  = time.Minute

	// healthyAfter is how long a function must run for its failures to be forgotten.
	healthyAfter = time.Minute

	// refuseAfter is how many failures in a row let a member offer a shard to the others.
	refuseAfter = 5

	// stuckAfter is how long a function may continue after its context has ended before
	// State.Stuck names its shard. Package leader logs it then.
	stuckAfter = 10 * time.Second
)

// Run calls f for each shard that this member owns, in separate goroutines, until ctx is done.
// Calls for one shard never overlap. The shard is released when f has returned.
//
// f's context derives from ctx. It is also cancelled before another member can own the shard: on a
// suspension or loss, when the plan gives the shard to another member ([ErrMoved]), after Drain
// ([ErrDrained]), and when Run returns. If f returns nil before that, it is called again, after a
// pause that grows with each call of less than 10 ms.
//
// Run returns when all calls have returned and the nodes of this member are deleted, and it returns
// nil after Drain. Errors are
//   - the cause of ctx if ctx is done, or the error of ctx if it has no other cause;
//   - [ErrShards] if the plan has another number of shards, at the start or later;
//   - [ErrRunning] while another Run of the same member has not returned;
//   - [framework.ErrBadArgument] if f is nil;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [shared.ErrBadValue] if the plan cannot be decoded at the start of Run;
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth, at the start of Run;
//   - context.DeadlineExceeded, joined with the result above, if the deletion of the nodes is not
//     confirmed within 5 s after the last call. It also wraps zk.ErrNoServer if no server can be
//     reached. The client deletes the nodes in the background.
//
// After the start of Run, an error of the plan or of a server is logged. The shards stay with their
// owners, and the request is repeated.
//
// An error, a panic and runtime.Goexit of f are failures of its shard alone. They are logged, and
// [State] names the shard. The member keeps the shard, and calls f again after 1 s, then 2 s, up to
// 1 minute. A minute without a failure resets the pause. After five failures in a row the shard is
// offered to a member that has not refused it. The last member keeps it. A member that runs anew
// refuses none. An error that f returns after its context has ended is logged.
func (m *Member) Run(ctx context.Context, f func(ctx context.Context, shard int) error) (err error) {
	defer func() { err = opError("run", m.path, err) }()
	r := &run{Member: m, f: f, began: time.Now(), shards: make(map[int]*shard)}
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
	member, err := r.begin()
	if err != nil {
		return err
	}
	defer func() { err = operr.Join(err, r.leave(member)) }()
	r.all.Go(r.follow)
	r.all.Go(r.plans)
	if r.until(r.ctx, func() bool { return m.phase == draining }) == nil {
		if err := member.Set(r.ctx, encode(0, 0)); err != nil {
			r.end(err)
		}
		r.update(r.apply)
		<-r.ctx.Done()
	}
	if err := context.Cause(r.ctx); !errors.Is(err, ErrDrained) {
		return err
	}
	return nil
}

// leaveTimeout limits how long Run waits for the servers after all calls have returned. It equals
// the limit of node.Node.Close.
const leaveTimeout = 5 * time.Second

// leave waits until no call is in progress, and removes the nodes of the member and its shards.
// After leaveTimeout without a server, that continues in the background, until the session ends at
// the latest, and the error says so.
func (r *run) leave(member *node.Node) error {
	_ = r.until(context.Background(), func() bool {
		for _, s := range r.shards {
			if s.call != nil {
				return false
			}
		}
		r.over = true
		return true
	})
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() { // ends with the session or the client
		defer close(done)
		_ = member.Close() // after an error the node is removed with the session
		r.all.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nodes of member %s may remain, deletion not confirmed: %w", r.id, engine.Of(r.client).GaveUp(ctx, nil))
	}
}

// run is a Run in progress.
type run struct {
	*Member
	f   func(ctx context.Context, shard int) error
	ctx context.Context
	end context.CancelCauseFunc // called with the result of Run

	began   time.Time
	changed wait.Signal // wakes the planner: the group or the refusals have changed

	all sync.WaitGroup // the goroutines

	// Guarded by Member.mu.
	plan     plan              // the plan in force
	shards   map[int]*shard    // not in the map: neither wanted nor leaving
	troubles map[string]string // by path: the reason that was logged
	over     bool              // no call begins any more
}

// begin creates the plan, if it is missing, and this member's node. It waits for a server.
func (r *run) begin() (*node.Node, error) {
	pauses := wait.Pauses{First: engine.RefusedPause, Last: lastPause}
	for {
		err := r.prepare()
		if err == nil {
			break
		}
		if over := engine.Of(r.client).Over(); over != nil || !passes(err) {
			return nil, cmp.Or(over, err)
		}
		if engine.Sleep(r.ctx, engine.Of(r.client), pauses.Next()) != nil {
			return nil, engine.Of(r.client).GaveUp(r.ctx, operr.Bare(err))
		}
	}
	return node.Keep(r.ctx, r.client, r.node(), encode(r.cfg.weight, r.cfg.grace), node.WithIfTaken(node.Replace))
}

// passes reports whether an operation that failed with err may succeed when it is repeated.
func passes(err error) bool {
	return verdict.MayPass(err) || errors.Is(err, framework.ErrSessionLost)
}

func (m *Member) members() string { return m.path + "/members" }
func (m *Member) node() string    { return m.members() + "/" + m.id }

// prepare creates the plan, if it is missing, and checks that this member can do without an
// administrator: node.Keep and a cache wait for rights.
func (r *run) prepare() error {
	if err := r.restore(unowned(r.cfg.shards), true); err != nil {
		return err
	}
	// Nothing is left if the client crashes here.
	trial := []any{&zk.CreateRequest{Path: r.node(), Data: encode(0, 0), Flags: zk.FlagEphemeral}, &zk.DeleteRequest{Path: r.node(), Version: -1}}
	_, err := r.client.Multi(r.ctx, trial...)
	if errors.Is(err, zk.ErrNoNode) {
		if err = engine.Of(r.client).MakeParents(r.ctx, r.node()); err == nil {
			_, err = r.client.Multi(r.ctx, trial...)
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNodeExists) { // an earlier session's, or a lost reply
		return err
	}
	_, _, err = r.client.Get(r.ctx, r.members())
	if errors.Is(err, framework.ErrNotCompressed) {
		if _, stat, other := r.client.Exists(r.ctx, r.members()); other != nil || stat != nil && stat.DataLength == 0 {
			err = other // a cache accepts a node without data
		}
	}
	return err
}

// restore writes p if there is no plan, and forgets the refusals of this member if it begins anew.
// It returns ErrShards if there is a plan of another number.
func (r *run) restore(p plan, anew bool) error {
	_, err := r.Member.plan.Update(r.ctx, func(now plan) (plan, error) {
		switch len(now.Owners) {
		case 0:
			return p, nil
		case len(p.Owners):
			if forgiven := now.forgiven(r.id); anew && !reflect.DeepEqual(forgiven.Refused, now.Refused) {
				return forgiven, nil
			}
			return now, errUnchanged
		}
		return now, r.differs(now)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// errUnchanged is the error of an Update that has nothing to write.
var errUnchanged = errors.New("unchanged")

// shard is a shard that the plan gives to this member, or gave to it until a moment ago.
//
//	want       until
//	alive      the plan gives the shard to another member, and the limit of moves allows that
//	ended      f has returned, the shard is released and, if moves are limited, the new owner leads
//
// It is removed after that. If the plan gives it to this member again, it begins anew.
type shard struct {
	want context.Context // the context of the campaign
	drop context.CancelCauseFunc
	move context.Context // the context of the wait for the new owner
	stop context.CancelFunc
	call context.Context // the context of f; nil while f is not called

	stuck    bool  // f has not returned for stuckAfter
	failure  error // the error of the last call; nil if a later one was healthy
	failures int   // the number of failures in a row
}

func (s *shard) leaving() bool { return s.want.Err() != nil }

// addTo adds the shard to a state.
func (s *shard) addTo(now *State, index int) {
	if s.call != nil && s.call.Err() == nil {
		now.Owned = append(now.Owned, index)
	}
	if s.stuck {
		now.Stuck = append(now.Stuck, index)
	}
	if s.failure != nil {
		if now.Failing == nil {
			now.Failing = make(map[int]error)
		}
		now.Failing[index] = s.failure
	}
}

// follow follows the plan until the run ends. The plan in force remains while there is no other.
func (r *run) follow() {
	pauses := wait.Pauses{First: firstPause, Last: lastPause}
	for r.ctx.Err() == nil {
		for p, err := range r.Member.plan.Observe(r.ctx) {
			switch {
			case err == nil && len(p.Owners) == 0: // it was deleted
				err = r.restore(r.inForce(), false)
			case err == nil && len(p.Owners) != r.cfg.shards:
				err = r.differs(p)
			case err == nil:
				r.fine(r.Member.plan.Path())
				pauses.Reset()
				r.update(func() {
					if !reflect.DeepEqual(p.Refused, r.plan.Refused) {
						r.changed.Raise()
					}
					r.plan = p
					r.apply()
				})
			}
			r.trouble("plan not read", r.Member.plan.Path(), err)
		}
		_ = engine.Sleep(r.ctx, engine.Of(r.client), pauses.Next()) // the loop ends with ctx
	}
}

// inForce returns the plan in force, or an empty one.
func (r *run) inForce() plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plan.Owners == nil {
		return unowned(r.cfg.shards)
	}
	return r.plan
}

// trouble logs an error with which the run continues, once for each reason. It ends the run if err
// is final.
func (r *run) trouble(what, path string, err error) {
	switch {
	case err == nil, r.ctx.Err() != nil:
		return
	case errors.Is(err, ErrShards), errors.Is(err, framework.ErrClosed):
		r.end(err)
		return
	}
	if over := engine.Of(r.client).Over(); over != nil {
		r.end(over)
		return
	}
	err = operr.Bare(err)
	r.mu.Lock()
	known := r.troubles[path] == err.Error()
	if r.troubles == nil {
		r.troubles = make(map[string]string)
	}
	r.troubles[path] = err.Error()
	r.mu.Unlock()
	if !known && !passes(err) {
		engine.Of(r.client).Logger().Warn(what+", shards stay with their owners", "path", path, "reason", err)
	}
}

// fine forgets a trouble, so that it is logged when it returns.
func (r *run) fine(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.troubles, path)
}

// apply starts the shards that the plan gives to this member, and gives up others.
func (r *run) apply() {
	if r.ctx.Err() != nil {
		return
	}
	limit, cause := r.cfg.moves, ErrMoved
	if r.phase == draining {
		limit, cause = 1, ErrDrained
	}
	for _, s := range r.shards {
		if s.leaving() {
			limit--
		}
	}
	for index, owner := range r.plan.Owners {
		s := r.shards[index]
		switch {
		case s == nil && owner == r.id:
			r.start(index)
		case s != nil && owner != r.id && !s.leaving() && limit > 0:
			limit--
			s.drop(cause)
		}
		if s != nil && s.leaving() && (owner == "" || owner == r.id || r.plan.absent(owner)) {
			s.stop() // no other owner is expected
		}
	}
	if r.phase == draining && len(r.shards) == 0 && !slices.Contains(r.plan.Owners, r.id) {
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
		if err != nil {
			r.end(err) // the path was checked by New
			return
		}
		r.own(s, election, index)
		r.trouble("new owner not seen", election.Path(), r.handOver(s, election))
		r.update(func() { delete(r.shards, index); r.apply() })
	})
}

// own campaigns for a shard and calls f while this member leads, until the shard is dropped. An
// error of the election counts as one of f.
func (r *run) own(s *shard, election *leader.Election, index int) {
	for {
		err := election.Run(s.want, func(ctx context.Context, term *leader.Term) error {
			return r.serve(context.WithValue(ctx, termKey{}, term), s, index, election.Path())
		})
		if s.leaving() {
			return
		}
		if over := engine.Of(r.client).Over(); over != nil || errors.Is(err, framework.ErrClosed) {
			r.end(cmp.Or(over, err))
			return
		}
		r.failed(s.want, s, index, election.Path(), err)
		r.pause(s.want, s)
	}
}

// serve calls f until it returns nil or ctx is done. After a failure it pauses, and keeps the
// shard.
func (r *run) serve(ctx context.Context, s *shard, index int, path string) error {
	for {
		err := r.call(ctx, s, index)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, ctx.Err()) && !errors.Is(context.Cause(ctx), err) {
				engine.Of(r.client).Logger().Warn("function failed after it had lost its shard", "path", path, "reason", err)
			}
			return nil
		}
		if err == nil {
			r.healthy(ctx, s, index)
			return nil
		}
		r.failed(ctx, s, index, path, err)
		if r.pause(ctx, s); ctx.Err() != nil {
			return nil
		}
	}
}

// call calls f in a separate goroutine, which a panic or runtime.Goexit may end, and returns when f
// has returned.
func (r *run) call(ctx context.Context, s *shard, index int) error {
	over := false
	r.update(func() {
		if over = r.over; !over {
			s.call = ctx
		}
	})
	if over { // ctx has ended, and Run may have returned
		return nil
	}
	defer r.update(func() { s.call, s.stuck = nil, false })
	returned := make(chan error, 1)
	go func() { // ends with f
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errPanic, p)
				engine.Of(r.client).Logger().Error("function of a shard panicked", "path", r.path, "shard", index, "panic", p, "stack", string(debug.Stack()))
			}
			returned <- err
		}()
		err = r.f(ctx, index)
	}()
	for healthy := time.After(healthyAfter); ctx.Err() == nil; {
		select {
		case err := <-returned:
			return err
		case <-healthy:
			r.healthy(ctx, s, index)
		case <-ctx.Done():
		}
	}
	r.update(func() {}) // the shard is not owned any more, although f has not returned
	select {
	case err := <-returned:
		return err
	case <-time.After(stuckAfter):
		r.update(func() { s.stuck = true })
		return <-returned
	}
}

var (
	errPanic  = errors.New("function panicked")
	errGoexit = errors.New("function called runtime.Goexit")
)

// failed records and logs a failure of a shard. After refuseAfter failures in a row it offers the
// shard to the other members. It is called again then, here if the others have failed, too.
func (r *run) failed(ctx context.Context, s *shard, index int, path string, err error) {
	failures := 0
	r.update(func() {
		s.failure = err
		s.failures++
		failures = s.failures
	})
	engine.Of(r.client).Logger().Warn("shard failed", "path", path, "failures", failures, "reason", err)
	if failures >= refuseAfter {
		r.refuse(ctx, index, true)
	}
}

// healthy forgets the failures of a shard.
func (r *run) healthy(ctx context.Context, s *shard, index int) {
	r.update(func() { s.failure, s.failures = nil, 0 })
	r.refuse(ctx, index, false)
}

// refuse writes to the plan that this member refuses a shard, or does not any more.
func (r *run) refuse(ctx context.Context, index int, refuses bool) {
	if slices.Contains(r.inForce().Refused[index].By, r.id) == refuses {
		return
	}
	_, err := r.Member.plan.Update(ctx, func(p plan) (plan, error) {
		if len(p.Owners) != r.cfg.shards || slices.Contains(p.Refused[index].By, r.id) == refuses {
			return p, errUnchanged
		}
		return p.refusedBy(r.id, index, refuses), nil
	})
	if ctx.Err() == nil && !errors.Is(err, errUnchanged) {
		r.trouble("refusal of a shard not written", r.Member.plan.Path(), err)
	}
}

// pause waits before the next call after a failure.
func (r *run) pause(ctx context.Context, s *shard) {
	r.mu.Lock()
	d := min(firstPause<<min(max(s.failures-1, 0), 10), lastPause)
	r.mu.Unlock()
	_ = engine.Sleep(ctx, engine.Of(r.client), d) // the caller looks at ctx
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
