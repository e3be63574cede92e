package lock

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// state is the state of a node: see [steps].
type state int8

const (
	waiting  state = iota // in the queue
	held                  // it has a lease: its term lives
	stranded              // its term was lost by a suspension: the work may still run
	kept                  // for the next goroutine of the Queue; it has no term, and promises nothing
	leaving               // it is being deleted
	gone                  // it is deleted, or its session is over
)

// event is something that happens to a node.
type event int8

const (
	granted    event = iota // a term begins: the driver grants a lease, and the session is proven
	suspended               // the term is lost by ErrSuspended or ErrShutdown: the work may still run
	unreadable              // the term is lost by zk.ErrNoAuth
	overdue                 // the time of WithMaxHold has passed
	over                    // the term is lost with its session, or the node is deleted
	expired                 // the session is over, and the term was lost before
	rested                  // the last hold was released, and the node may be handed over
	unneeded                // the last hold was released, or a waiter gives up
	lapsed                  // the last hold was released, after ErrSessionLost: servers may have the node
	resolved                // the last hold was released, and the node is deleted, or another call deletes it
	unwanted                // another node joins, the view ends, or the time of a kept node is over
	taken                   // a goroutine takes a kept node over, or it is handed over
)

// action is what an event leaves to do when node.mu is unlocked.
type action int8

const (
	nothing action = iota
	offer          // hand the node over, or keep it, or else delete it
	remove         // delete it; the caller waits
	discard        // delete it in the background
	passOn         // let other goroutines of the Queue continue
)

// steps are what events make of a node. In all other cases an event changes nothing.
//
// What belongs to a change of the state is done by node.happens: the contexts of a term end when
// its node is not held any more, and a node that is leaving or gone is in no view, and is not
// watched.
var steps = [...]struct {
	from []state
	to   state // a node that is gone stays so
	then action
}{
	granted:    {from: []state{waiting}, to: held},
	suspended:  {from: []state{held}, to: stranded},
	unreadable: {from: []state{held}, to: leaving, then: discard},
	overdue:    {from: []state{held, stranded}, to: leaving, then: discard},
	over:       {from: []state{waiting, held, stranded, kept, leaving}, to: gone, then: passOn},
	expired:    {from: []state{stranded}, to: gone, then: passOn},
	rested:     {from: []state{held}, to: kept, then: offer},
	unneeded:   {from: []state{waiting, held, stranded, kept, leaving, gone}, to: leaving, then: remove},
	lapsed:     {from: []state{waiting, held, stranded, kept, leaving, gone}, to: leaving, then: discard},
	resolved:   {},
	unwanted:   {from: []state{kept}, to: leaving, then: discard},
	taken:      {from: []state{kept}, to: waiting},
}

// step returns what an event makes of a node, by the table. It is all there is to decide: it has no
// clock, sends nothing and locks nothing.
func step(s state, e event) (state, action) {
	row := &steps[e]
	switch {
	case !slices.Contains(row.from, s):
		return s, nothing
	case s == gone:
		return gone, row.then
	}
	return row.to, row.then
}

// lossBy returns the event by which a term is lost.
func lossBy(cause error) event {
	switch {
	case outlasts(cause):
		return suspended
	case errors.Is(cause, ErrMaxHold):
		return overdue
	case errors.Is(cause, zk.ErrNoAuth):
		return unreadable
	default:
		return over
	}
}

// releaseOf returns the event of the last release of a term. lost is why the term had ended before,
// or nil; keep is whether the node may be handed over.
func releaseOf(lost error, keep bool) event {
	switch {
	case lost == nil && keep:
		return rested
	case lost == nil, outlasts(lost):
		return unneeded
	case errors.Is(lost, framework.ErrSessionLost):
		return lapsed
	default:
		return resolved
	}
}

// outlasts reports whether the node is still this client's when its term ends by cause. It is asked
// before any question about [framework.ErrClosed], which ErrShutdown wraps.
func outlasts(cause error) bool {
	return errors.Is(cause, framework.ErrSuspended) || errors.Is(cause, framework.ErrShutdown)
}
