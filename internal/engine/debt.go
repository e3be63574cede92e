package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// Debt is a node that this client has created, or may have created. See [debts].
type Debt struct {
	debts *debts
	only  *Session // that may delete it; nil: any
	owed

	// Guarded by debts.mu, like the place.
	origin
	course
	ticket *ticket // of the caller that waits; nil: none does
}

// owed is the node: where it is and how it is recognized.
type owed struct {
	place  place
	id     string                 // of a protected create
	mine   func(owner int64) bool // of a reusable name: whether a node with this owner is this client's
	wanted func() bool            // of a reusable name: whether another owner in this process wants the node
	with   Companion              // of a unique name
}

// origin is the create of the node.
type origin struct {
	session   *Session // in which it was sent; nil: it was answered
	ephemeral bool     // the servers delete the node with session
	create    outcome
}

// course is how far the deletion is.
type course struct {
	state    debtState
	next     time.Time   // when it is sent, or the node looked for
	pauses   wait.Pauses // between tries
	link     *Connection // while sent
	look     *look       // while looking
	since    time.Time   // when the node was first sought
	lost     time.Time   // when the loss of the session was noticed
	deleting int64       // czxid of the node of a reusable name whose deletion was sent
}

// place is where a node is.
type place struct {
	path string // of the node; with protectedID, of its parent
	kind identity
}

// identity is how a node is recognized.
type identity int8

const (
	uniqueName   identity = iota // no other node has its path
	protectedID                  // its name contains an id
	reusableName                 // other nodes may have its path
)

// debtState is a state of the table above.
type debtState int8

const (
	expected debtState = iota
	unanswered
	due
	sent
	sought
	looking
	refused
	settled
)

// outcome is how the create of a debt has ended.
type outcome int8

const (
	underWay  outcome = iota // or was not sent
	created                  // the node exists
	notMade                  // the create was refused, or not sent
	mayBeMade                // no answer was received
)

// Settle removes a debt whose node is wanted or was not created. It returns false if the client was
// closed first: then the debt remains, and Close deletes the node. For an ephemeral node it returns
// true, because the caller observes the session.
func (d *Debt) Settle() bool {
	s := d.debts
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && !d.ephemeral:
		return false
	case d.state != settled:
		s.set(d, settled)
	}
	return true
}

// Created reports whether the create of an ephemeral node at a path of the server was answered.
func (d *Debt) Created(path string) bool {
	d.debts.mu.Lock()
	defer d.debts.mu.Unlock()
	return d.create == created && d.ephemeral && d.place.path == path
}

// GiveUp deletes the node in the background, whether it exists already or is created later. It does
// not block.
func (d *Debt) GiveUp() {
	s := d.debts
	s.mu.Lock()
	if d.state == expected {
		s.set(d, unanswered)
		s.resolve(d)
	}
	s.mu.Unlock()
	s.send(d)
}

// sends notes that a create is about to be sent.
func (d *Debt) sends() {
	d.debts.mu.Lock()
	defer d.debts.mu.Unlock()
	d.create = underWay
}

// createEnded notes how a create has ended, also without an answer, and the path of the node.
func (d *Debt) createEnded(path string, err error) {
	s := d.debts
	s.mu.Lock()
	switch {
	case err == nil:
		d.create, d.place, d.session = created, place{path, uniqueName}, nil
	case retry.Unknown(err):
		d.create = mayBeMade
	default:
		d.create = notMade
	}
	if d.state == unanswered {
		s.resolve(d)
	}
	s.mu.Unlock()
	s.send(d)
}

// mayBeMadeBy reports whether the create was sent in this session and its outcome is unknown.
func (d *Debt) mayBeMadeBy(session *Session) bool {
	d.debts.mu.Lock()
	defer d.debts.mu.Unlock()
	return d.create == mayBeMade && d.session == session
}

// Await gives up the debt, and waits until its node is deleted, or cannot be created any more. If
// the client is closed, it waits for Close. It returns the server's error if the server refuses the
// deletion, [ErrClosed] if Close could not delete the node, and the error of ctx if ctx is done.
func (d *Debt) Await(ctx context.Context) error {
	s, t := d.debts, &ticket{done: make(chan struct{})}
	s.mu.Lock()
	if d.state == settled {
		s.mu.Unlock()
		return nil
	}
	d.ticket = t // before GiveUp: the server may refuse at once
	s.mu.Unlock()
	d.GiveUp()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
	case <-s.over:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case d.state == settled:
		return t.err
	case ctx.Err() != nil:
		d.ticket = nil // the log says if the server refuses
		return wait.Err(ctx)
	}
	return ErrClosed
}

// ticket is how a caller waits for a debt, which lives on without it. All but done is guarded by
// debts.mu while the caller waits.
type ticket struct {
	done    chan struct{} // closed when the debt is settled
	err     error         // why the node may exist then
	tries   int
	last    error // the last reply
	unknown bool  // a request before the last one may have been carried out
}

// note notes a reply. A nil ticket notes nothing.
func (t *ticket) note(err error) {
	if t == nil {
		return
	}
	t.unknown = t.unknown || retry.Unknown(t.last)
	t.last = err
}

// wait returns the ticket of a deletion when it is done, or at once when ctx is done, the client
// closed, or the only session over that may delete the node.
func (d *Debt) wait(ctx context.Context) (t *ticket, err error) {
	s := d.debts
	t, c := d.ticket, s.core
	var over <-chan struct{}
	if d.only != nil {
		over = d.only.Done()
	}
	select {
	case <-t.done:
		return t, afterTries(t.err, t.unknown)
	case <-ctx.Done():
	case <-c.ctx.Done():
	case <-over:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.state == settled {
		return t, afterTries(t.err, t.unknown)
	}
	d.ticket = nil
	now := c.current()
	switch {
	case c.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil:
		err = wait.Err(ctx)
	default:
		err = d.only.Err()
	}
	t.unknown = t.unknown || retry.Unknown(t.last)
	switch {
	case d.state == sent:
		return t, wire.Abandoned(err)
	case ctx.Err() == nil || c.ctx.Err() != nil:
	case now.authErr != nil:
		err = fmt.Errorf("%w: %w", err, now.authErr)
	case !now.usable(d.only):
		err = c.unreachable(err)
	case t.last != nil:
		err = fmt.Errorf("%w: %w", err, t.last)
	}
	return t, afterTries(err, t.unknown)
}
