package lock

import (
	"context"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// handOffLimit is how long a node is handed over and kept after it first held: another client may
// wait whose node this client may not read.
const handOffLimit = time.Minute

// lineState is the state of a line:
//
//	from        to          when
//	free        acquiring   a goroutine arrives, and has the turn to create a node
//	acquiring   used        it holds
//	used        acquiring   the node is handed over to the first waiter
//	used        open        the node is kept for the next Acquire
//	open        acquiring   a goroutine arrives, and takes the node over
//	any         acquiring   the goroutine has failed, or the node is gone: the first waiter's turn
//	any         free        the same, and no goroutine waits
type lineState int8

const (
	free lineState = iota
	acquiring
	used
	open
)

// line is where the goroutines of a Queue with retention wait in memory while one of them has a
// node, or creates one. Queue.mu guards it.
type line struct {
	state   lineState
	node    *node        // used or kept, or nil
	waiting []chan *node // one for each goroutine, of capacity 1; nil is the turn to create a node
}

// next gives n to the first waiter, or the turn to create a node if n is nil. It reports whether a
// goroutine waits.
func (l *line) next(n *node) bool {
	l.state, l.node = free, nil
	if len(l.waiting) == 0 {
		return false
	}
	l.state = acquiring
	l.waiting[0] <- n
	l.waiting = slices.Delete(l.waiting, 0, 1)
	return true
}

// giveUp removes a waiter. It reports whether it was in the line.
func (l *line) giveUp(turn chan *node) bool {
	i := slices.Index(l.waiting, turn)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// takeTurn returns the node that was kept for the caller or handed over to it, or nil for the turn
// to create one. After that, endTurn must be called.
func (q *Queue) takeTurn(ctx context.Context, mayWait bool) (*node, error) {
	q.mu.Lock()
	if n := q.takeKept(); n != nil || q.line.state == free {
		q.line.state, q.line.node = acquiring, nil
		q.mu.Unlock()
		return n, nil
	}
	notFree := ErrNotAcquired
	if q.line.state != acquiring {
		notFree = q.heldHere()
	}
	if !mayWait {
		q.mu.Unlock()
		return nil, notFree
	}
	turn := make(chan *node, 1)
	q.line.waiting = append(q.line.waiting, turn)
	q.mu.Unlock()

	var n *node
	var err error // why the caller waits no longer
	select {
	case n = <-turn:
	case <-ctx.Done():
		err = givenUp(ctx, notFree)
	case <-engine.Of(q.client).Stopping():
		err = framework.ErrShutdown
	}
	if err != nil {
		q.mu.Lock()
		inLine := q.line.giveUp(turn)
		q.mu.Unlock()
		if inLine {
			return nil, err
		}
		n = <-turn // it arrived as ctx ended
	}
	if n == nil && ctx.Err() != nil {
		q.endTurn(nil)
		return nil, givenUp(ctx, notFree)
	}
	return n, nil // a node is worth a try, even if ctx is done
}

// endTurn ends a turn: with the hold of the caller, or nil if there is none. If the node of the
// hold is gone already, the turn passes on as without a hold: forget has found no turn.
func (q *Queue) endTurn(h *Hold) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h == nil || wait.Closed(h.term.node.gone) {
		q.line.next(nil)
		return
	}
	q.line.state, q.line.node = used, h.term.node
}

// takeKept returns the kept node and sets its state to waiting. It returns nil if there is none, or
// if it is being deleted. q.mu is locked.
func (q *Queue) takeKept() *node {
	n := q.line.node
	if q.line.state != open {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != kept {
		return nil
	}
	n.happens(taken, nil)
	return n
}

// handOver gives a kept node to the first goroutine in line, or opens it to the next Acquire. It
// reports false if the caller is to delete the node, which is leaving then: an event no longer
// gives it back. If another node joins the queue at this moment, either isAlone sees it, or its
// event finds this node kept and deletes it.
func (q *Queue) handOver(n *node) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.state != kept: // it has been deleted, or is being deleted, since the holder released
		return true
	case q.line.node != n || !n.isAlone():
		n.happens(unneeded, nil)
		return false
	}
	if len(q.line.waiting) > 0 {
		n.happens(taken, nil)
		return q.line.next(n)
	}
	q.line.state = open
	n.timer = time.AfterFunc(min(q.cfg.retention, handOffLimit-time.Since(n.since)), n.giveBack)
	return true
}
