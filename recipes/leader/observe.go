package leader

import (
	"context"
	"errors"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/retry"
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

// Observe is a loop over who leads, without taking part in the election: first the present state, at least as new as the ensemble
// was at the call, then the newest state whenever it has changed, also that nobody leads. Between two steps of the loop it asks
// nothing and queues nothing. So a slow reader delays nobody, and misses states that have changed again meanwhile.
//
//	for state, err := range e.Observe(ctx) {
//		if err != nil { return err } // ctx is done, or the client is closed
//		...
//	}
//
// When the connection is lost, the last state comes again with Stale set. When there is a connection again, also with another
// session, the newest state comes. States never go back in time.
//
// It watches the leader's node, so candidates that join and leave behind the leader cost nothing.
//
// The last pair has an error, after which the loop ends: that of ctx, which also wraps zk.ErrNoServer if there was no connection
// then; [framework.ErrClosed]; or one that a retry does not help, such as zk.ErrNoAuth and [lock.ErrSequenceExhausted].
func (e *Election) Observe(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		ctx = framework.InSession(ctx, nil) // as in acquire
		o := observation{election: e, yield: yield}
		if err := engine.Follow(ctx, engine.Of(e.client), o.follow); err != nil {
			yield(State{}, e.opError("observe", err))
		}
	}
}

// observation is one loop over Observe.
type observation struct {
	election *Election
	yield    func(State, error) bool
	shown    *State // the last state that was shown; nil: none
}

// follow shows who leads as long as the connection lasts. It is a read for [engine.Follow], which has the server of the next
// connection catch up.
func (o *observation) follow(ctx context.Context, l engine.Link) (<-chan struct{}, error) {
	if o.shown == nil {
		if err := engine.Ask(ctx, l.CatchUp); err != nil {
			return nil, err
		}
	}
	// Nothing is asked on the next connection before the loss of this one was shown.
	within, cancel := context.WithCancel(engine.WithHints(engine.InSession(ctx, l.Session()), engine.Hints{Once: true}))
	defer cancel()
	go func() { // ends with follow
		select {
		case <-l.Down():
			cancel()
		case <-within.Done():
		}
	}()
	for {
		state, watch, err := o.election.look(within)
		if err == nil && !o.show(state) {
			return nil, nil
		}
		if err == nil {
			select {
			case <-watch.Done():
			case <-within.Done():
			}
		}
		down := wait.Closed(l.Down()) || errors.Is(err, framework.ErrSessionLost)
		switch {
		case ctx.Err() != nil, err != nil && !down && !retry.MayPass(err):
			return follow.Again, follow.Bare(err)
		case err == nil && !down:
			continue
		}
		if o.shown != nil {
			stale := *o.shown
			stale.Stale = true
			if !o.show(stale) {
				return nil, nil
			}
		}
		if down {
			err = nil
		}
		return follow.Again, follow.Bare(err)
	}
}

// show shows a state, unless it is the same as before. It reports whether the loop goes on.
func (o *observation) show(s State) bool {
	if o.shown != nil && *o.shown == s {
		return true
	}
	o.shown = &s
	return o.yield(s, nil)
}

// look returns who leads, and a watch that fires when that changes.
//
// The first node that can be read leads: nodes ahead of it were gone before, and none can come in ahead.
func (e *Election) look(ctx context.Context) (State, *framework.Watch, error) {
	for {
		children, _, err := e.client.Children(ctx, e.path)
		missing := errors.Is(err, zk.ErrNoNode)
		if err != nil && !missing {
			return State{}, nil, err
		}
		first, err := e.first(children)
		switch {
		case err != nil:
			return State{}, nil, err
		case first != "":
			data, stat, watch, err := e.client.GetW(ctx, first)
			if !errors.Is(err, zk.ErrNoNode) {
				return State{Leader: leading(first, data, stat), Elected: true}, watch, err
			}
		case missing:
			found, _, watch, err := e.client.ExistsW(ctx, e.path)
			if err != nil || !found {
				return State{}, watch, err
			}
		default:
			children, _, watch, err := e.client.ChildrenW(ctx, e.path)
			if err == nil {
				first, err = e.first(children) // somebody may have come meanwhile
			}
			if first == "" && !errors.Is(err, zk.ErrNoNode) {
				return State{}, watch, err
			}
		}
	}
}
