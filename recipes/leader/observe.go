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
		o := observation{election: e, yield: yield, last: State{Stale: true}}
		if err := follow.Reads(ctx, e.client, o.follow); err != nil {
			yield(State{}, e.opError("observe", err))
		}
	}
}

// observation is one loop over Observe.
type observation struct {
	election *Election
	yield    func(State, error) bool
	last     State // that was shown; before the first one it is stale
}

// follow shows who leads as long as the connection lasts. It is a read for [follow.Reads].
func (o *observation) follow(ctx context.Context, l engine.Link) (<-chan struct{}, error) {
	// Nothing is asked on the next connection before the loss of this one was shown.
	within, cancel := context.WithCancel(ctx)
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
		if err == nil {
			if !o.show(state) {
				return nil, nil
			}
			select {
			case <-watch.Done():
			case <-within.Done():
			}
		}
		lost := wait.Closed(l.Down()) || errors.Is(err, framework.ErrSessionLost)
		stale := o.last
		stale.Stale = true
		switch {
		case ctx.Err() != nil, err != nil && !lost && !retry.MayPass(err):
			return follow.Again, err
		case err == nil && !lost: // look again
		case !o.show(stale):
			return nil, nil
		case lost:
			return follow.Again, nil
		default:
			return follow.Again, err
		}
	}
}

// show shows a state, unless it is the same as before. It reports whether the loop goes on.
func (o *observation) show(s State) bool {
	if s == o.last {
		return true
	}
	o.last = s
	return o.yield(s, nil)
}

// look returns who leads, and a watch that fires when that changes: on the leader's node, or else on what is there of the election.
func (e *Election) look(ctx context.Context) (State, *framework.Watch, error) {
	for {
		var watch *framework.Watch
		leader, err := e.find(ctx, func(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
			data, stat, watch, err = e.client.GetW(ctx, path)
			return data, stat, err
		})
		if err != nil || leader.Leads {
			return State{Leader: leader, Elected: leader.Leads}, watch, err
		}
		children, _, watch, err := e.client.ChildrenW(ctx, e.path)
		if errors.Is(err, zk.ErrNoNode) {
			var found bool
			if found, _, watch, err = e.client.ExistsW(ctx, e.path); found {
				continue // it was made in between
			}
		}
		if first, err := e.first(children, err); first == "" { // nobody has come in between
			return State{}, watch, err
		}
	}
}
