package leader

import (
	"context"
	"errors"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/recipe"
)

// State is the state of an election, as [Election.Observe] yields it.
type State struct {
	// Leader is the leader, or the zero Participant if no candidate leads.
	Leader Participant

	// Elected reports whether a candidate leads.
	Elected bool

	// Stale reports whether the connection was lost since the state was read. The state may be out
	// of date.
	Stale bool
}

// Observe yields the election's state, at least as new as at the call, and then the newest state
// after each change. It does not take part in the election. Without a connection it repeats the
// last state with Stale set.
//
//	for state, err := range e.Observe(ctx) {
//		if err != nil { return err } // ctx is done, or the client is closed
//		...
//	}
//
// The last pair contains an error. Errors are
//   - the error of ctx, wrapped with zk.ErrNoServer if the client is not connected;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (e *Election) Observe(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		o := observation{election: e, yield: yield, last: State{Stale: true}}
		if err := recipe.Reads(ctx, e.client, o.follow); err != nil {
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

// follow shows the leader as long as the connection lasts. It is a read for [recipe.Reads].
func (o *observation) follow(ctx context.Context, in *framework.Client, l engine.Link) (<-chan struct{}, error) {
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
		state, watch, err := o.election.look(within, in)
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
		case ctx.Err() != nil, err != nil && !lost && !verdict.MayPass(err):
			return framework.Again, err
		case err == nil && !lost: // look again
		case !o.show(stale):
			return nil, nil
		case lost:
			return framework.Again, nil
		default:
			return framework.Again, err
		}
	}
}

// show yields a state, unless it repeats the last one. It reports whether the loop continues.
func (o *observation) show(s State) bool {
	if s == o.last {
		return true
	}
	o.last = s
	return o.yield(s, nil)
}

// look returns the state, and a watch that fires when it changes: on the leader's node, or
// otherwise on the nearest existing part of the election.
func (e *Election) look(ctx context.Context, client *framework.Client) (State, *framework.Watch, error) {
	for {
		var watch *framework.Watch
		leader, err := e.find(ctx, client, func(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
			data, stat, watch, err = client.GetW(ctx, path)
			return data, stat, err
		})
		if err != nil || leader.Leads {
			return State{Leader: leader, Elected: leader.Leads}, watch, err
		}
		children, _, watch, err := client.ChildrenW(ctx, e.path)
		if errors.Is(err, zk.ErrNoNode) {
			var found bool
			if found, _, watch, err = client.ExistsW(ctx, e.path); found {
				continue // it was created in between
			}
		}
		if first, err := e.first(children, err); first == "" { // no candidate has joined in between
			return State{}, watch, err
		}
	}
}
