package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/recipes/internal/recipe"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/shared"
)

var (
	// ErrShards is returned by Run if the group divides another number of shards.
	ErrShards = errors.New("number of shards differs")

	// ErrRunning is returned by Run while another Run of the same member has not returned.
	ErrRunning = errors.New("already running")

	// ErrDrained is the cause of a shard's context after Drain.
	ErrDrained = errors.New("member drained")

	// ErrMoved is the cause of a shard's context when the plan gives the shard to another member.
	ErrMoved = errors.New("shard belongs to another member")
)

// Member is a member of a group that divides shards. It need not be closed: outside of Run it owns
// no node, goroutine or lock. All methods are safe for concurrent use.
type Member struct {
	client *framework.Client
	path   string
	id     string
	cfg    config
	plan   *shared.Value[plan]

	mu      sync.Mutex // guards the rest, and the state of run; nothing is called while it is held
	phase   phase
	run     *run          // the run in progress, or nil
	changed chan struct{} // closed when the state may have changed
}

// phase is the phase of a member.
//
//	phase       node of the group    Run                  Drain       when Run returns
//	idle        none                 running              drained
//	running     with its weight      ErrRunning           draining    idle
//	draining    with weight 0        ErrRunning           waits       drained
//	drained     none                 returns nil          returns
type phase int

const (
	idle phase = iota
	running
	draining
	drained
)

// State is the state of a member. The shards and the ids are sorted.
type State struct {
	Owned    []int    // the shards whose functions run with a live context
	Assigned []int    // the shards that the plan gives to this member
	Members  []string // the ids of the members that have shards in the plan
	Away     []string // the ids of the members whose shards are reserved: see WithGrace

	// Failing has the last error of each shard of this member whose function has failed, until it
	// has run for a minute or returned nil.
	Failing map[int]error
	// Stuck has the shards whose functions have not returned 10 s after their contexts ended. No
	// member can own them.
	Stuck []int
}

// Option configures a member.
type Option func(*config) error

type config struct {
	shards int
	weight int
	moves  int // at least shards: no limit

	settling time.Duration
	grace    time.Duration // 0: none
}

// WithWeight sets the weight of this member, from 1 to 1,000. The default is 1. A member of weight
// 2 gets twice as many shards as a member of weight 1.
func WithWeight(weight int) Option {
	return func(c *config) error {
		c.weight = weight
		return check(weight >= 1 && weight <= maxWeight, "weight %d", weight)
	}
}

// WithMaxMoves limits how many shards this member hands over at a time, from the cancellation of
// the function's context until the new owner runs. It must be at least 1. The default is no limit.
func WithMaxMoves(moves int) Option {
	return func(c *config) error {
		c.moves = min(moves, c.shards)
		return check(moves >= 1, "max moves %d", moves)
	}
}

// WithGrace reserves this member's shards for d after it has left or died, up to a day. No other
// member runs them. If it returns within d, no shard moves.
//
// It is for rolling restarts. After [Member.Drain] there is no grace. The id must be the same after
// a restart. Ids that contain a UUID are refused. The servers' clock counts, from the moment at
// which the planner sees that the member is missing.
func WithGrace(d time.Duration) Option {
	return func(c *config) error {
		c.grace = d
		return check(d >= time.Millisecond && d <= maxGrace, "grace %v", d)
	}
}

// WithSettling lets a plan wait until no member has joined for d, up to 10 minutes, and for 5d at
// most. So members that start one after the other move fewer shards. The default is 100 ms.
//
// All members should have the same. All other plans wait for 100 ms, unless the planner itself has
// just started: when a member leaves, dies or returns within its grace, when a grace is over, and
// when a shard is refused.
func WithSettling(d time.Duration) Option {
	return func(c *config) error {
		c.settling = max(d, defaultSettling)
		return check(d >= 0 && d <= maxSettling, "settling %v", d)
	}
}

// generated reports whether an id contains a UUID.
func generated(id string) bool {
	for i := range len(id) - uuid.Length + 1 {
		if uuid.Valid(id[i : i+uuid.Length]) {
			return true
		}
	}
	return false
}

const (
	maxGrace    = 24 * time.Hour
	maxSettling = 10 * time.Minute
)

// The plan is the data of one node, which limits the number of shards.
const (
	maxShards = 10_000
	maxWeight = 1000
)

// New returns the member id of the group at path, which divides the shards 0 to shards-1. It sends
// no request: the member takes part in the group during [Member.Run].
//
// Two processes must not run with the same id at the same time: they would count as one member, and
// one may wait for a shard of the other forever.
//
// Errors are
//   - [framework.ErrBadPath] if the path is invalid;
//   - [framework.ErrBadArgument] if client is nil, or id, shards or an option is invalid;
//   - [framework.ErrTooLong] if a plan that names id for each shard exceeds the request limit.
func New(client *framework.Client, path, id string, shards int, opts ...Option) (_ *Member, err error) {
	defer func() { err = opError("shard", path, err) }()
	m := &Member{client: client, path: path, id: id, cfg: config{shards: shards, weight: 1, moves: shards, settling: defaultSettling}, changed: make(chan struct{})}
	if err := cmp.Or(recipe.Check(client, path), opt.Apply(&m.cfg, opts)); err != nil {
		return nil, err
	}
	switch {
	case shards < 1 || shards > maxShards:
		return nil, check(false, "%d shards", shards)
	case m.cfg.grace > 0 && generated(id):
		return nil, check(false, "WithGrace needs an id that is the same after a restart, not %q", id)
	case framework.ValidatePath("/"+id) != nil || id == "" || strings.Contains(id, "/"):
		return nil, check(false, "invalid id %q", id)
	}
	if m.plan, err = shared.JSON[plan](client, path+"/plan"); err != nil {
		return nil, err
	}
	// The mixed plans of several members are not longer than the longest of these.
	longest := plan{Owners: slices.Repeat([]string{id}, shards), Stays: map[string]stay{id: {Grace: m.cfg.grace.Milliseconds()}}}
	all, err := json.Marshal(longest)
	if err != nil {
		return nil, err
	}
	if err := engine.Of(client).Fits(m.plan.Path(), len(all)); err != nil {
		return nil, fmt.Errorf("%w: an id of %d bytes for each of %d shards", err, len(id), shards)
	}
	return m, nil
}

func (m *Member) differs(p plan) error {
	return fmt.Errorf("%w: the plan has %d, not %d", ErrShards, len(p.Owners), m.cfg.shards)
}

// ID returns the id of this member.
func (m *Member) ID() string { return m.id }

// Term returns the leadership by which this member owns the shard whose function was called with
// ctx, and nil for any other context. Use its fencing token, or its guard in a transaction.
func Term(ctx context.Context) *leader.Term {
	term, _ := ctx.Value(termKey{}).(*leader.Term)
	return term
}

type termKey struct{}

// Owned returns the shards whose functions run with a live context, sorted.
func (m *Member) Owned() []int {
	now, _ := m.state()
	return now.Owned
}

// Observe yields this member's state, and then its newest state after each change. The last pair
// contains the cause of ctx, which is the only error.
func (m *Member) Observe(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		var last State
		for first := true; ctx.Err() == nil; first = false {
			now, changed := m.state()
			if (first || !reflect.DeepEqual(now, last)) && !yield(now, nil) {
				return
			}
			last = now
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		yield(State{}, opError("observe", m.path, context.Cause(ctx)))
	}
}

// Drain hands over the shards of this member one by one, waits for each new owner, and leaves the
// group. Run then returns nil, even if it is called again. Without other members the shards are
// released.
//
// The only error is the cause of ctx, if ctx is done first. The member then continues to drain.
func (m *Member) Drain(ctx context.Context) error {
	m.update(func() {
		switch m.phase {
		case idle:
			m.phase = drained
		case running:
			m.phase = draining
		}
	})
	return opError("drain", m.path, m.until(ctx, func() bool { return m.phase == drained }))
}

// until waits until ok, which reads the state, returns true.
func (m *Member) until(ctx context.Context, ok func() bool) error {
	for {
		m.mu.Lock()
		done, changed := ok(), m.changed
		m.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update changes the state and wakes the callers of until.
func (m *Member) update(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

// state returns the present state, and a channel that is closed when it may have changed.
func (m *Member) state() (now State, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return now, m.changed
	}
	ids := make(map[string]bool)
	for id := range m.run.plan.Stays {
		if m.run.plan.absent(id) {
			now.Away = append(now.Away, id)
		}
	}
	slices.Sort(now.Away)
	for index, id := range m.run.plan.Owners {
		ids[id] = !m.run.plan.absent(id)
		if s := m.run.shards[index]; s != nil {
			s.addTo(&now, index)
		}
		if id == m.id {
			now.Assigned = append(now.Assigned, index)
		}
	}
	delete(ids, "")
	maps.DeleteFunc(ids, func(_ string, present bool) bool { return !present })
	now.Members = slices.Sorted(maps.Keys(ids))
	return now, m.changed
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: "+format, append([]any{framework.ErrBadArgument}, args...)...)
}

// opError adds the operation and the path to an error that has none.
func opError(op, path string, err error) error {
	var known *framework.OpError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &framework.OpError{Op: op, Path: path, Err: err}
}
