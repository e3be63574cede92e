// Package view keeps what a client knows of the children of a lock's path, from a persistent
// recursive watch: who is in the queue, without a list. docs/PROTOCOL.md has the rule that uses it,
// and the conditions under which a view may be asked.
package view

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/wait"
)

// View is a copy of the names of the children of one path, as they were at one instant. All
// goroutines and all locks of the client share it. It ends when its connection is lost.
type View struct {
	path  string
	ready chan struct{} // closed when the view can be asked, or has ended
	done  chan struct{} // closed when it has ended

	down <-chan struct{} // closed when its connection has ended: before the next one is in use; set before ready is closed

	mu       sync.Mutex // guards what follows; under it only SortKey, Name and Order of others are called
	state    state
	next     int64              // number that the server gives to the next child; -1: unknown, or there is no path
	children map[string]*child  // by name
	rankings map[Order]*ranking // all that have members, and some others
	load     load
	ended    func(*View, error) // called once, when the view is over
}

// state is the state of a view. It only rises.
type state int8

const (
	unlisted state = iota // events are not taken: the first list will contain them
	listed                // the nodes of the first list are being read
	ready                 // it can be asked
	over
)

// child is one child in a view.
type child struct {
	// number is the one that the server gave, or would have given, to the child: it counts the
	// children created before. It is -1 if the child was in the first list.
	number int64

	ours  bool            // it was admitted
	waits []chan struct{} // each is closed when one of its children is deleted, or the view has ended
}

// Await blocks until the view has loaded or ended.
func (v *View) Await(ctx context.Context) error {
	select {
	case <-v.ready:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return wait.Err(ctx)
	}
	return nil
}

// Admit adds a member whose create has been answered. It reports whether the view contains every
// node that was created before. Only then does it know which nodes are ahead: see docs/PROTOCOL.md.
func (v *View) Admit(m Member) bool {
	ok, gap := v.admit(m)
	if gap {
		v.end(errMissed)
	}
	return ok
}

// admit is Admit. With a gap the view must end.
func (v *View) admit(m Member) (ok, gap bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, number := v.children[m.Name()], Number(m.Name())
	gap = c != nil && c.number >= 0 && c.number < number // children were created without an event
	ok = c != nil && v.canSay() && (c.number < 0 || c.number == number)
	if ok {
		c.ours = true
		v.ranking(m.Order()).members[m.Name()] = m
	}
	return ok, gap
}

// Dismiss removes a member that Admit added.
func (v *View) Dismiss(m Member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.rankings[m.Order()]; r != nil && r.members[m.Name()] == m {
		delete(r.members, m.Name())
	}
}

// canSay reports whether the view can be asked now. When its connection has ended it may be older
// than what others have read since, even if end is called later. v.mu is held.
func (v *View) canSay() bool { return v.state == ready && !wait.Closed(v.down) }

// Names returns the names of the children that belong to a lock, sorted, or false if the view does
// not know them. If a member is among the names, they are the names that a list after its create
// would show. It returns ErrSequenceExhausted as Order.Sort does.
func (v *View) Names(o Order) (names []string, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.canSay() {
		return nil, false, nil
	}
	names, err = v.ranking(o).names()
	return names, true, err
}

// Wait returns a channel that is closed when one of the children names is deleted, or the view
// ends. The channel is nil if one is deleted already. known is false if the view has ended.
func (v *View) Wait(names []string) (deleted chan struct{}, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == over {
		return nil, false
	}
	for _, name := range names {
		if v.children[name] == nil {
			return nil, true
		}
	}
	deleted = make(chan struct{})
	for _, name := range names {
		c := v.children[name]
		c.waits = append(c.waits, deleted)
	}
	return deleted, true
}

// Cancel ends a wait for the children names. Call it once for each Wait that returned a channel.
func (v *View) Cancel(names []string, deleted chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range names {
		if c := v.children[name]; c != nil {
			c.waits = slices.DeleteFunc(c.waits, func(other chan struct{}) bool { return other == deleted })
		}
	}
}

// wake ends the waits for a child. v.mu is held.
func (c *child) wake() {
	for _, deleted := range c.waits {
		if !wait.Closed(deleted) { // by another child, or since a driver has named this one twice
			close(deleted)
		}
	}
}

// use notes that a lock is about to acquire with the view.
func (v *View) use(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := &v.load
	l.used = now
	l.cycles++
	if l.cycles >= 64 && v.state == ready { // what was long ago does not count
		l.cycles /= 2
		l.events /= 2
	}
}

// ranking returns the children that belong to a lock. One without members is kept for the next
// acquire, until there is another. v.mu is held.
func (v *View) ranking(o Order) *ranking {
	r := v.rankings[o]
	if r == nil {
		maps.DeleteFunc(v.rankings, func(_ Order, r *ranking) bool { return len(r.members) == 0 })
		r = newRanking(o, maps.Keys(v.children), len(v.children))
		v.rankings[o] = r
	}
	return r
}

// Why a view is not worth having. zk.ErrNoAuth and zk.ErrNoNode, for a node of the first list, say
// that, too.
var (
	errHeavy  = errors.New("the view costs more than listing the children")
	errMissed = errors.New("the event of a node is missing")
)

// end ends the view: because of why, or if why is nil because its connection has ended or it is
// unused. All members are notified, and list from then on.
func (v *View) end(why error) {
	v.mu.Lock()
	if v.state == over {
		v.mu.Unlock()
		return
	}
	if v.state != ready {
		close(v.ready)
	}
	v.state = over
	close(v.done)
	for _, c := range v.children {
		c.wake()
	}
	left := v.rankings
	v.children, v.rankings = nil, nil
	v.mu.Unlock()
	v.ended(v, why)
	for _, r := range left {
		for _, m := range r.members {
			m.ViewEnded()
		}
	}
}
