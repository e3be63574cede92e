package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
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
// ensemble was at the call, then the newest state whenever it has changed, also that nobody leads. Between two
// steps of the loop it does nothing and keeps nothing. So a slow reader delays nobody, and misses states that
// have changed again meanwhile.
//
//	for state, err := range e.Observe(ctx) {
//		if err != nil { return err } // ctx is done, or the client is closed
//		...
//	}
//
// When the connection is lost, the last state is told again with Stale set. When there is a connection
// again, also with another session, the newest state is told. What is told never goes back in time.
//
// It watches the leader's node, so candidates that join and leave behind the leader cost nothing.
//
// The last pair has an error, after which the loop ends: that of ctx, which also wraps zk.ErrNoServer if there
// was no connection then; [lock.ErrClosed]; or one that a retry does not help, such as zk.ErrNoAuth and
// [lock.ErrSequenceExhausted].
func (e *Election) Observe(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		ctx = framework.InSession(ctx, nil) // as in acquire
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
	pauses := newPauses()
	for {
		if o.watch != nil {
			select {
			case <-o.watch.Done():
			case <-ctx.Done():
				return State{}, o.election.givenUp(ctx, wait.Err(ctx))
			}
			event := o.watch.Event()
			lost := event.Type == zk.EventNotWatching && event.Err != nil // else a view of ours took its place
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
			return State{}, o.election.givenUp(ctx, err)
		case !transient(err):
			return State{}, err
		case o.doubt():
			return o.shown, nil
		default:
			if ended := engine.Sleep(ctx, engine.Of(o.election.client), pauses.Next()); ended != nil {
				return State{}, o.election.givenUp(ctx, fmt.Errorf("%w: %w", ended, err))
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.told && !o.shown.Stale { // requests are repeated after a loss, perhaps for ever, which must be told before
		remove, err := o.election.client.Listen(func(s connstate.State) {
			if !s.IsConnected() {
				cancel(framework.ErrSuspended)
			}
		})
		if err != nil {
			return State{}, err
		}
		defer remove()
		if !o.election.client.State().IsConnected() {
			return State{}, framework.ErrSuspended
		}
	}
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
