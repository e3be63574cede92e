package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/ctxerr"
)

// State is what [Election.Observe] knows of an election.
type State struct {
	// Leader is who leads; the zero Participant if nobody does.
	Leader Participant

	// Elected says that somebody leads.
	Elected bool

	// Stale says that the connection was lost since this was read: it may be out of date.
	Stale bool
}

// Observe tells who leads, without taking part in the election: first the present state, at least as new as the
// ensemble was at the call, then each newest state when it has changed, also that nobody leads. Between two steps of the loop nothing is done and nothing is
// kept, so a slow reader delays nobody. It skips what has changed again meanwhile.
//
//	for state, err := range e.Observe(ctx) {
//		if err != nil { return err } // ctx is done, or the client is closed
//		...
//	}
//
// When the connection is lost, the last state is told again with Stale set; and when there is a connection
// again, the newest, in whatever session. What is told never goes back in time.
//
// A watch on the leader's node tells of its end, so who comes and goes behind it costs nothing.
//
// The last pair has an error, after which the loop ends: that of ctx, which wraps zk.ErrNoServer too if there
// was no connection then; [lock.ErrClosed]; or one that repeating does not heal, such as zk.ErrNoAuth and
// [lock.ErrSequenceExhausted].
func (e *Election) Observe(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		o := observation{election: e}
		for {
			state, err := o.next(ctx)
			if err != nil {
				yield(State{}, fmt.Errorf("observe %s: %w", e.path, err))
				return
			}
			if !yield(state, nil) {
				return
			}
		}
	}
}

// observation is one loop over Observe.
type observation struct {
	election *Election
	session  *framework.Session // of the last look; nil: there was none
	watch    *framework.Watch   // fires when a look is worth it; nil: it is
	told     bool               // shown was
	shown    State
}

// next returns the next state that there is to tell.
func (o *observation) next(ctx context.Context) (State, error) {
	var p pauses
	for {
		if o.watch != nil {
			select {
			case <-o.watch.Done():
			case <-ctx.Done():
				return State{}, o.election.unreachable(ctxerr.Of(ctx))
			}
			lost := o.watch.Event().Type == zk.EventNotWatching
			o.watch = nil
			if lost && o.doubt() {
				return o.shown, nil
			}
		}
		state, err := o.look(ctx)
		switch {
		case err == nil && o.told && state == o.shown:
		case err == nil:
			o.shown, o.told = state, true
			return state, nil
		case ctx.Err() != nil:
			return State{}, o.election.unreachable(err)
		case !transient(err):
			return State{}, err
		case o.doubt():
			return o.shown, nil
		default:
			if err := p.wait(ctx, 0); err != nil {
				return State{}, o.election.unreachable(err)
			}
		}
	}
}

// doubt marks what was told as stale. It reports whether that is news.
func (o *observation) doubt() bool {
	news := o.told && !o.shown.Stale
	o.shown.Stale = true
	return news
}

// look asks who leads, and sets the watch that tells when that changes. All is asked in one session, whose answers
// come in the order of what happened.
func (o *observation) look(ctx context.Context) (State, error) {
	session, err := o.election.client.Session(ctx)
	if err != nil {
		return State{}, err
	}
	ctx = framework.InSession(ctx, session)
	if o.session != session { // in one session no read is older than the last one; a new one may be with a server that is behind
		if err := o.election.client.CatchUp(ctx); err != nil {
			return State{}, err
		}
	}
	o.session = session
	for {
		state, watch, err := o.election.lookW(ctx)
		if err != nil {
			return State{}, err
		}
		if watch != nil {
			o.watch = watch
			return state, nil
		}
	}
}

// lookW returns who leads, and a watch that fires when that changes. The watch is nil if things changed
// while we looked.
//
// The first node that can be read leads: nodes ahead of it were gone before, and none can come
// in ahead.
func (e *Election) lookW(ctx context.Context) (State, *framework.Watch, error) {
	children, _, err := e.client.Children(ctx, e.path)
	if errors.Is(err, zk.ErrNoNode) {
		found, _, watch, err := e.client.ExistsW(ctx, e.path)
		if err != nil || found {
			return State{}, nil, err
		}
		return State{}, watch, nil
	}
	if err != nil {
		return State{}, nil, err
	}
	names, err := e.candidates(children)
	if err != nil {
		return State{}, nil, err
	}
	for _, name := range names {
		path := framework.Join(e.path, name)
		data, stat, watch, err := e.client.GetW(ctx, path)
		if err == nil {
			return State{Leader: leading(path, data, stat), Elected: true}, watch, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return State{}, nil, err
		}
	}
	return e.nobodyW(ctx)
}

// nobodyW is lookW for a path that has no candidates.
func (e *Election) nobodyW(ctx context.Context) (State, *framework.Watch, error) {
	children, _, watch, err := e.client.ChildrenW(ctx, e.path)
	if errors.Is(err, zk.ErrNoNode) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, err
	}
	if names, err := e.candidates(children); err != nil || len(names) > 0 {
		return State{}, nil, err
	}
	return State{}, watch, nil
}
