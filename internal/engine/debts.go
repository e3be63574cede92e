package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// debts owns what outlives a call: the nodes that this client has created, or may have created, and
// that no caller wants. Everything that gives up a node registers a [Debt] and returns. Close reads
// the remaining nodes from this type only.
//
// # States of a debt
//
//	from        to          when
//	expected    settled     the caller wants the node, or its create was refused, before Close
//	expected    unanswered  the caller gives up while its create is under way
//	expected,   due         its create was answered, and no caller wants the node
//	unanswered  settled     its create was refused
//	            sought      the outcome of its create is unknown
//	due         sent        there is a connection: the deletion is on it
//	sent        settled     the node is deleted or missing
//	            sought      the same, and a create in another session may still be carried out
//	            due         the connection was lost, or the server refused for now
//	            refused     the server refused for good; there is a line in the log
//	sought      looking     it is time to look, and there is a connection
//	looking     due         the node of a protected create was found: its name is unique
//	            sought      it was not found, or may be created again, or the connection was lost
//	            settled     nothing can be created any more
//	any         settled     its only session is over: the one that may delete it, or that has created it;
//	                        Close ends that session
//
// # Identities
//
// A node of a unique name is deleted blindly, and again after a lost reply. The node of a protected
// create is sought by its id among the children of its parent. A node of a reusable name is looked
// at, and deleted at the version that was seen, once for all debts that claim it. One of them has
// created it: after a deletion that may have been carried out, that debt deletes a persistent node
// only if it is still the one that was seen.
//
// # When nothing can be created any more
//
// A server that stands still can carry out a create long after its connection was lost. So a look
// that finds nothing is repeated, with growing pauses, until one of these holds:
//   - the create was answered;
//   - the name is reusable, and the session of the create has committed a write since, on the
//     connection of the look;
//   - the session of the create was lost twice its timeout ago: it has expired on the servers;
//   - the look was the last of the session, by Close;
//   - sweepFor has passed.
//
// # Who owns the node of a protected create
//
//	while                                      owner
//	its create is under way                    the debt, expected: Close looks for it
//	the caller waits for a retry               the debt, expected: the retry may find the node
//	the caller has given up                    the debt, from unanswered on
//	Create has returned it                     the caller; with [Owing], the debt until Settle
//
// # Order
//
// The deletion of a unique name is sent before [Client.Discard] returns, if there is a connection.
// No order on a connection holds across sessions, so a create of this client waits until no debt at
// its path can delete the new node. An owner in this process that wants the node does not wait for
// a debt that is sought: looks skip the node while it does.
//
// mu orders giving up, attaching a connection and Close. Nothing is sent while it is held.
type debts struct {
	core *core
	wake wait.Signal // run looks at the clock, the sessions and the connection again

	mu      sync.Mutex // guards what follows, and the states of all debts
	all     map[*Debt]struct{}
	link    *Connection   // on which deletions are sent; nil: there is none
	backlog []*Debt       // due when link was attached, and not sent yet
	looks   int           // under way
	moved   chan struct{} // closed when a debt changes its state; nil: no caller waits
	closed  bool          // Close has taken the remaining debts
	over    chan struct{} // closed when Close has deleted the nodes that it could
}

const (
	firstSweepPause = 500 * time.Millisecond
	sweepFor        = 17 * time.Minute

	// backlogWindow limits the deletions in flight that have waited for a connection: a heartbeat
	// must not wait behind thousands.
	backlogWindow = 64

	maxLooks = 16 // that are under way at a time
)

func newDebts(c *core) *debts {
	return &debts{core: c, all: make(map[*Debt]struct{}), over: make(chan struct{})}
}

// add registers a debt.
func (s *debts) add(d *Debt) *Debt {
	d.debts, d.pauses = s, connectPauses()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[d] = struct{}{}
	if s.closed {
		s.endWithSession(d)
	}
	return d
}

// endWithSession settles a debt whose node ends with a session that Close has ended: its owner may
// register it before or after Close has taken the debts. s.mu is held.
func (s *debts) endWithSession(d *Debt) {
	if d.only == nil && !d.ephemeral {
		return
	}
	why := ErrClosed
	if d.state == sent {
		why = wire.Abandoned(ErrClosed)
	}
	s.drop(d, why)
}

// discard registers a node of a unique name whose deletion is due, and sends the deletion if there
// is a connection.
func (s *debts) discard(d *Debt) *Debt {
	d.state = due
	s.send(s.add(d))
	return d
}

// set changes a state. s.mu is held.
func (s *debts) set(d *Debt, to debtState) {
	d.state = to
	if to == settled {
		delete(s.all, d)
		if d.ticket != nil {
			close(d.ticket.done)
		}
	}
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// changed returns a channel that is closed when a debt changes its state. s.mu is held.
func (s *debts) changed() <-chan struct{} {
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// resolve chooses the state of a debt that no caller waits for. s.mu is held.
func (s *debts) resolve(d *Debt) {
	switch {
	case s.closed && d.create != notMade: // it is sought already
	case d.place.kind == reusableName, d.create == mayBeMade:
		d.since = time.Now()
		s.set(d, sought)
		s.wake.Raise()
	case d.create == created:
		s.set(d, due)
	case d.create == notMade:
		s.set(d, settled)
	}
}

// attached sets the connection on which debts are deleted. It is called before anything else uses
// l.
func (s *debts) attached(l *Connection) {
	s.mu.Lock()
	s.link, s.backlog = l, nil
	for d := range s.all {
		if d.state == due {
			d.next = time.Time{}
			s.backlog = append(s.backlog, d)
		}
	}
	n := min(len(s.backlog), backlogWindow)
	s.mu.Unlock()
	for range n {
		s.sendNext()
	}
	s.wake.Raise()
}

func (s *debts) detached() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = nil
}

// sendNext sends the next deletion of the backlog.
func (s *debts) sendNext() {
	for {
		s.mu.Lock()
		if len(s.backlog) == 0 {
			s.mu.Unlock()
			return
		}
		d := s.backlog[0]
		s.backlog = s.backlog[1:]
		s.mu.Unlock()
		if s.send(d) {
			return
		}
	}
}

// usable returns the connection on which a debt can be deleted or sought, or nil. s.mu is held.
func (s *debts) usable(d *Debt) *Connection {
	l := s.link
	switch {
	case l == nil, wait.Closed(l.Down()), d.only != nil && d.only != l.session:
		return nil
	case l.session.Err() != nil && !s.closed:
		return nil
	}
	return l
}

// send puts the deletion of a debt on the connection. It reports false if the debt is not due, or
// if there is no connection: then attached sends it.
func (s *debts) send(d *Debt) bool {
	s.mu.Lock()
	post := s.take(d)
	s.mu.Unlock()
	if post == nil {
		return false
	}
	post()
	return true
}

// take sets a debt that is due to sent, and returns the function that sends its deletion, which
// must be called without s.mu. It returns nil if send cannot send it. s.mu is held.
func (s *debts) take(d *Debt) (post func()) {
	l := s.usable(d)
	if d.state != due || l == nil || d.next.After(time.Now()) {
		return nil
	}
	d.link = l
	if d.ticket != nil {
		d.ticket.tries++
	}
	s.set(d, sent)
	last := s.closed
	if d.with == (Companion{}) {
		q := wire.AskDelete(d.place.path, -1)
		q.Last, q.Done = last, func(_ wire.None, err error) { s.answeredOn(d, l, err) }
		return func() { wire.Post(l.Conn, q) }
	}
	x := &deletion{debt: d, link: l, last: last, done: func(err error) { s.answeredOn(d, l, err) }}
	return x.begin
}

// answeredOn takes the reply to a deletion that was sent on l.
func (s *debts) answeredOn(d *Debt, l *Connection, err error) {
	s.deleted(d, l, err)
	s.sendNext()
}

// deleted notes the reply to a deletion that was sent on l.
func (s *debts) deleted(d *Debt, l *Connection, err error) {
	s.mu.Lock()
	if d.state != sent || d.link != l {
		s.mu.Unlock()
		return
	}
	d.ticket.note(err)
	switch {
	case isGone(err):
		s.concluded(d, time.Now(), l.session)
	case d.only != nil && d.only.Err() != nil:
		s.drop(d, d.only.Err())
	case verdict.MayPass(err):
		s.later(d, due, l)
	default:
		s.refuse(d, err)
	}
	s.mu.Unlock()
	s.send(d) // there may be another connection by now
}

// later has a request repeated that has failed on l: after a pause, or on the next connection. s.mu
// is held.
func (s *debts) later(d *Debt, to debtState, l *Connection) {
	d.next = time.Time{}
	if !wait.Closed(l.Down()) {
		d.next = time.Now().Add(d.pauses.Next())
	}
	s.set(d, to)
	s.wake.Raise()
}

// refuse notes that the server does not delete the node. s.mu is held.
func (s *debts) refuse(d *Debt, err error) {
	if d.ticket == nil {
		s.core.background(func() { s.core.cfg.Log.Warn("node was not deleted", "path", d.place.path, "reason", err) }) // ends at once
	}
	if d.ephemeral && d.session != nil && d.place.kind == uniqueName {
		s.set(d, refused)
		return
	}
	s.drop(d, err)
}

// drop settles a debt whose node may exist. s.mu is held.
func (s *debts) drop(d *Debt, why error) {
	if t := d.ticket; t != nil {
		t.err, t.unknown = why, t.unknown || retry.Unknown(t.last)
	}
	s.set(d, settled)
}

// concluded notes that a look or a deletion that began then has found no node, in session of: the
// debt is settled if nothing can be created any more, and otherwise sought again. s.mu is held.
func (s *debts) concluded(d *Debt, began time.Time, of *Session) {
	if d.since.IsZero() {
		d.since = began
	}
	if d.session == nil || d.session == of && (s.closed || d.place.kind != protectedID) || s.isOver(d, began) {
		s.set(d, settled)
		return
	}
	s.set(d, sought)
	s.wake.Raise()
}

// isOver reports whether a look that began then was the last that is needed, and otherwise sets the
// next. s.mu is held.
func (s *debts) isOver(d *Debt, began time.Time) bool {
	switch {
	case d.session.Err() == nil:
		age := began.Sub(d.since)
		d.next = began.Add(max(firstSweepPause, age))
		return age > sweepFor
	case d.ephemeral && d.place.kind == protectedID:
		return true // the servers delete it with its session
	case d.lost.IsZero():
		d.lost = began
	}
	// For us it is over earlier than for the servers. A follower reports after half a tick that it
	// has heard a session, and the leader ends sessions once per tick, which is half a timeout at
	// most.
	d.next = d.lost.Add(d.session.Timeout() * 2)
	return !began.Before(d.next)
}

// blocks reports whether a node that is created at a path now may be deleted for the debt. s.mu is
// held.
func (d *Debt) blocks(path string) bool {
	switch {
	case d.place.path != path || d.place.kind == protectedID:
		return false
	case d.state == sought:
		return d.wanted == nil || !d.wanted()
	}
	return d.state == due || d.state == sent || d.state == looking
}

// awaitPlace waits until no node that is created at one of these paths is deleted for a debt.
func (s *debts) awaitPlace(ctx context.Context, paths ...string) error {
	for {
		var changed <-chan struct{}
		s.mu.Lock()
		for d := range s.all {
			if slices.ContainsFunc(paths, d.blocks) {
				changed = s.changed()
				break
			}
		}
		s.mu.Unlock()
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: this client is still deleting an earlier node", wait.Err(ctx))
		case <-s.core.ctx.Done():
			return ErrClosed
		}
	}
}

// AwaitPlace waits for deletions that this client still owes for an earlier call and that could hit
// a new node at one of the paths creates, which are the server's. op and path name the caller's
// operation in errors.
func (c Client) AwaitPlace(ctx context.Context, op, path string, creates ...string) error {
	began := time.Now()
	err := c.debts.awaitPlace(ctx, creates...)
	if err != nil {
		c.report(ctx, Operation{Op: op, Path: path, Began: began, Attempts: 1, Err: err})
	}
	return err
}

// Owed returns the names of the children of dir that this client owes. While the deletion of one is
// unanswered, changed is a channel that is closed when the answer may have arrived.
func (c Client) Owed(dir string) (names []string, changed <-chan struct{}) {
	s, dir := c.debts, c.Real(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.all {
		parent, name := proto.Split(d.place.path)
		if d.state == expected || d.place.kind == protectedID || parent != dir {
			continue
		}
		names = append(names, name)
		if d.state == due || d.state == sent {
			changed = s.changed()
		}
	}
	slices.Sort(names)
	return names, changed
}
