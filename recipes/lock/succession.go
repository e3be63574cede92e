package lock

import (
	"github.com/gocurator/curator/framework"
)

// Who acquires again and again, with nobody else about, need not ask who is ahead: the number of its node tells. Let
// a node of this Queue with the number n have had a lease, and be deleted by us; let our new node have n+1. Numbers are
// given out one by one, so there is no node between the two. Whoever was below n did not keep n from a
// lease, and only becomes less. So the new node has a lease.
//
// That is so as long as both numbers were given out by the same parent: one that was deleted and made again begins
// at 0. A watch on the parent tells, and it tells in time: a server's events and answers come in order. It must have been set
// before n was deleted, since until then the parent could not go; and it must not have fired when the answer with the number
// n+1 is there. It fires also when the connection is lost, and when somebody writes to the parent, which proves nothing, and
// costs a list.
//
// It is for drivers of which that much is known: Standard, and those that say so.

// Successor is implemented by drivers that decide by the order of the numbers: a node has a lease if its number
// follows that of a node which the same Queue made, which had a lease, and which is gone. It saves the question who is
// ahead. Succeeds is only there to be implemented.
//
// Standard does not implement it, so that drivers that embed it do not by accident; a Queue knows of Standard by itself.
type Successor interface {
	Driver
	Succeeds()
}

// succession is what is known of the last node that is gone.
type succession struct {
	number int64
	leases int              // that there were when it had one of them
	parent *framework.Watch // set before it was deleted; nil: nothing is known
}

// inherits reports whether the driver is one for which succession is a proof.
func (q *Queue) inherits() bool {
	switch q.driver.(type) {
	case Standard, Successor:
		return true
	}
	return false
}

// hopeful reports whether the next node will probably need no list.
func (q *Queue) hopeful() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line == nil && q.last.live() && q.last.leases == q.maxLeases
}

func (s succession) live() bool { return s.parent != nil && !isClosed(s.parent.Done()) }

// succeeds reports whether a new node has a lease, by its number.
func (q *Queue) succeeds(number int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last.number+1 == number && q.last.leases == q.maxLeases && q.last.live()
}

// bequeath is to be called when a node is about to be deleted, and what it returns once it is known that we have
// deleted it: found it there, so that its parent had not gone before.
func (q *Queue) bequeath(p *place) (gone func()) {
	if p.leases == 0 {
		return func() {}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	next := succession{number: p.number(), leases: p.leases, parent: q.parent}
	// Two in a row: it is worth a watch, if there is none. This one comes too late for this node.
	if q.last.number+1 == next.number && q.last.leases == next.leases && q.inherits() && q.line == nil && !next.live() && !q.watching {
		q.watching = true
		go q.watchParent(p.session) // ends with its request, or the session
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.last = next
	}
}

// watchParent sets the watch that succession needs.
func (q *Queue) watchParent(session *framework.Session) {
	_, _, watch, err := q.client.GetW(framework.InSession(session.Context(), session), q.base)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watching = false
	if err == nil {
		q.parent = watch
	}
}
