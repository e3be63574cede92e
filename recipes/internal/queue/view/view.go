// Package view keeps what a client knows of the children of a lock's path, from a persistent recursive watch: who is in
// the queue, without a list. docs/PROTOCOL.md has the rule that uses it, and the conditions under which a view may be asked.
package view

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/gocurator/curator/internal/wait"
)

// View is the children of one path. All goroutines and all locks of the client share it. It ends with its connection. It is
// the state of the path at one instant that the client's server has reached.
type View struct {
	path  string
	ready chan struct{} // closed when the view can be asked, or has ended
	done  chan struct{} // closed when it has ended

	mu       sync.Mutex // guards what follows; under it only SortKey, Name and Order of others are called
	state    state
	next     int64             // number that the server gives to the next child; -1: unknown, or there is no path
	children map[string]*child // by name
	rankings map[Order]*ranking
	waiters  map[string][]*Waiter // by the name of the child that they wait for
	members  map[string]Member    // by the name of their node
	load     load
	ended    func(*View, error) // called once, when the view is over
}

// state is that of a view. It only rises.
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

	ours bool // it was admitted
}

// Member is a node of ours that the view has admitted. Its methods must not block.
type Member interface {
	Name() string
	Order() Order // by which the queue of the node is sorted

	// Joined is called when another node of the same Order has been created, and the node was the only one before.
	Joined()

	// Deleted is called when the node has been deleted.
	Deleted()

	// ViewEnded is called when the view has ended: list from now on.
	ViewEnded()
}

// Waiter is notified once, when a child was deleted or the view has ended.
type Waiter struct {
	names []string      // nil when it was notified, or has given up
	c     chan struct{} // closed then
}

// Done is closed when the waiter is notified.
func (w *Waiter) Done() <-chan struct{} { return w.c }

// Await returns when the view can be asked, or has ended.
func (v *View) Await(ctx context.Context) error {
	select {
	case <-v.ready:
		return nil
	case <-ctx.Done():
		return wait.Err(ctx)
	}
}

// Admit adds a member whose create has been answered. It reports whether the view has every node that
// was created before: only then it can say who is ahead. See docs/PROTOCOL.md.
func (v *View) Admit(m Member) bool {
	v.mu.Lock()
	c, number := v.children[m.Name()], Number(m.Name())
	gap := c != nil && c.number >= 0 && c.number < number // children were created of which no event came
	ok := c != nil && v.state == ready && (c.number < 0 || c.number == number)
	if ok {
		c.ours = true
		v.members[m.Name()] = m
		v.ranking(m.Order()) // for Joined
	}
	v.mu.Unlock()
	if gap {
		v.end(errMissed)
	}
	return ok
}

// Dismiss removes a member that Admit added.
func (v *View) Dismiss(m Member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.members[m.Name()] == m {
		delete(v.members, m.Name())
	}
}

// Queue returns the names of the children that belong to a member's lock, in its order. It is false if the view cannot
// say. The error is ErrSequenceExhausted.
func (v *View) Queue(m Member) (names []string, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.has(m) {
		return nil, false, nil
	}
	names, err = v.ranking(m.Order()).names()
	return names, true, err
}

// Alone reports whether a member is there and nobody else belongs to its lock.
func (v *View) Alone(m Member) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.has(m) && len(v.ranking(m.Order()).ranks) == 1
}

// has reports whether a member and its node are there. v.mu is held.
func (v *View) has(m Member) bool {
	return v.members[m.Name()] == m && v.children[m.Name()] != nil
}

// Names is Queue for somebody without a node, at any instant.
func (v *View) Names(o Order) (names []string, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state != ready {
		return nil, false, nil
	}
	names, err = v.ranking(o).names()
	return names, true, err
}

// Wait returns a waiter that is notified when one of the children called names is deleted; it is nil if one is deleted
// already. known is false if the view has ended.
func (v *View) Wait(names []string) (w *Waiter, known bool) {
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
	w = &Waiter{names: slices.Clone(names), c: make(chan struct{})}
	for _, name := range names {
		v.waiters[name] = append(v.waiters[name], w)
	}
	return w, true
}

// Cancel ends a wait.
func (v *View) Cancel(w *Waiter) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(w)
}

// ranking returns the children that belong to a lock. Rankings that no member has are kept for the next acquire, unless they are
// many: most paths have one or two drivers. v.mu is held.
func (v *View) ranking(o Order) *ranking {
	if r := v.rankings[o]; r != nil {
		return r
	}
	if len(v.rankings) > keptRankings {
		used := make(map[Order]bool)
		for _, m := range v.members {
			used[m.Order()] = true
		}
		maps.DeleteFunc(v.rankings, func(o Order, _ *ranking) bool { return !used[o] })
	}
	r := newRanking(o, maps.Keys(v.children), len(v.children))
	v.rankings[o] = r
	return r
}

const keptRankings = 4
