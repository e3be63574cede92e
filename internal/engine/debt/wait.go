package debt

import (
	"context"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// ticket lets a caller wait for a debt, which does not depend on the ticket. All but done is
// guarded by Ledger.mu while the caller waits. The methods of a nil ticket do nothing.
type ticket struct {
	done chan struct{} // closed when the debt is settled
	err  error         // why the node may exist then
	Outcome
}

// Outcome describes the deletion of a node up to the time when the caller stopped waiting.
type Outcome struct {
	Tries    int
	Last     error // the last reply
	Unknown  bool  // a request before the last may have been carried out
	InFlight bool  // the last request is not answered
	Settled  bool  // the deletion has ended
}

func newTicket() *ticket { return &ticket{done: make(chan struct{})} }

// tried notes that a deletion is sent.
func (t *ticket) tried() {
	if t != nil {
		t.Tries++
	}
}

// note notes a reply.
func (t *ticket) note(err error) {
	if t != nil {
		t.Unknown = t.Unknown || verdict.Unknown(t.Last)
		t.Last = err
	}
}

// fails notes that the debt is abandoned.
func (t *ticket) fails(why error) {
	if t != nil {
		t.err, t.Unknown = why, t.Unknown || verdict.Unknown(t.Last)
	}
}

// end wakes the caller.
func (t *ticket) end() {
	if t != nil {
		t.Settled = true
		close(t.done)
	}
}

// Await gives up the debt, and waits until its node is deleted, or cannot be created any more. If
// the client is closed, it waits for Close. It returns the server's error if the server refuses the
// deletion, [wire.ErrClosed] if Close could not delete the node, and the error of ctx if ctx is
// done.
func (d *Debt) Await(ctx context.Context) error {
	s, t := d.ledger, newTicket()
	s.mu.Lock()
	if d.record.state == settled {
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
	case t.Settled:
		return t.err
	case ctx.Err() != nil:
		d.ticket = nil // the log says if the server refuses
		return wait.Err(ctx)
	}
	return wire.ErrClosed
}

// awaited is a debt and its ticket, in one allocation.
type awaited struct {
	debt   Debt
	ticket ticket
}

// Delete deletes a node and waits until it is deleted. It returns early if ctx is done, if the
// client is closed, or if the only session that may delete the node is over. Then the error is the
// reason, and the deletion continues in the background.
func (s *Ledger) Delete(ctx context.Context, n Node) (Outcome, error) {
	w := new(awaited)
	d, t := &w.debt, &w.ticket
	t.done = make(chan struct{})
	d.ticket = t
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Outcome{}, wire.ErrClosed
	}
	post := s.offer(s.add(d, n, due))
	s.mu.Unlock()
	call(post)
	var over <-chan struct{}
	if n.Only != nil {
		over = n.Only.Done()
	}
	select {
	case <-t.done:
		return t.Outcome, t.err
	case <-ctx.Done():
	case <-s.host.Life().Done():
	case <-over:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Settled {
		return t.Outcome, t.err
	}
	d.ticket = nil
	t.note(t.Last) // nothing follows: the last reply counts, too
	t.InFlight = d.record.state == sent
	switch {
	case s.host.Life().Err() != nil:
		return t.Outcome, wire.ErrClosed
	case ctx.Err() != nil:
		return t.Outcome, wait.Err(ctx)
	}
	return t.Outcome, n.Only.Err()
}
