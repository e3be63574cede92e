package sim

import (
	"context"
	"slices"
	"time"

	"github.com/gocurator/curator/zktest"
)

// A trap is a fault for the next holder, which keeps the lock until it is over: faults that hit
// only a long hold are too rare otherwise.
type trap struct {
	fault fault
	suits func(h *held) bool
	// run injects the fault and returns when the holder may release. It reports whether there was a
	// target.
	run func(h *held) bool
	// sprung is what the world does with run.
	sprung func(t *trap, h *held)
}

// arm sets a trap.
func (m *monitor) arm(t *trap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.traps = append(m.traps, t)
}

// disarm removes all traps that have not caught anybody, and returns how many.
func (m *monitor) disarm() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := len(m.traps)
	m.traps = nil
	return left
}

// spring has the first trap that suits catch a holder. m.mu is held.
func (m *monitor) spring(h *held) {
	if !h.judged || h.node == "" || h.session == 0 {
		return
	}
	i := slices.IndexFunc(m.traps, func(t *trap) bool { return t.suits(h) })
	if i < 0 {
		return
	}
	t := m.traps[i]
	m.traps = slices.Delete(m.traps, i, i+1)
	h.pinned = make(chan struct{})
	t.sprung(t, h)
}

// pinOf is closed when a holder may release; it is nil if it may now.
func (m *monitor) pinOf(h *held) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return h.pinned
}

// trapOf returns the trap that a fault stands for, or nil if it is of another kind.
func (w *world) trapOf(f fault) *trap {
	t := &trap{fault: f, suits: func(h *held) bool { return h.timeout <= 10*time.Second }, sprung: w.sprung}
	switch f.Kind {
	case isolateHolder:
		t.run = w.isolate
	case cutOffHolder:
		t.run = w.cutOff
	case deleteHolder:
		t.suits = func(h *held) bool { return h.watches }
		t.run = w.deleteNodeOf
	case revokeHolder:
		t.suits = func(h *held) bool { return h.revoked != nil }
		t.run = func(h *held) bool { return w.ask(f, h) }
	case revokeFar:
		t.suits = func(h *held) bool { return h.revoked != nil && h.trusting }
		t.run = w.revokeFar
	case replaceLeader:
		t.run = func(h *held) bool { return w.replaceLeader(f, h) }
	default:
		return nil
	}
	return t
}

// sprung runs a trap in the background.
func (w *world) sprung(t *trap, h *held) {
	w.healing.Go(func() { // ends when the trap does
		defer close(h.pinned)
		w.monitor.note("FAULT %v: %s with %s", t.fault, h.who, h.node)
		kind := "fault: " + t.fault.Kind.String()
		if !t.run(h) {
			kind = nothingToHit
		}
		w.monitor.count(kind)
	})
}

const nothingToHit = "faults that found nothing to hit"

// ends waits until the holder does not believe in its lock any more, but not longer than d. It
// reports whether that is so.
func (h *held) ends(d time.Duration) bool {
	return rest(d, h.ctx.Done(), h.revoked)
}

// isolate cuts a holder off from all members for longer than its session.
func (w *world) isolate(h *held) bool {
	w.freeze(h.session)
	defer w.thaw(h.session)
	h.ends(2*h.timeout + 4*time.Second)
	time.Sleep(2 * time.Second) // the next one holds
	return true
}

func (w *world) freeze(session int64) {
	for _, member := range w.cluster.Members() {
		member.Freeze(session)
	}
}

func (w *world) thaw(session int64) {
	for _, member := range w.cluster.Members() {
		member.Thaw(session)
	}
}

// cutOff cuts the follower that a holder is connected to off from the other members for longer than
// its session.
func (w *world) cutOff(h *held) bool {
	leader, err := w.cluster.Leader()
	if err != nil {
		return false
	}
	member, err := w.cluster.MemberOf(h.session)
	if err != nil || member == leader {
		return false
	}
	w.check(w.cluster.Partition(member))
	h.ends(2*h.timeout + w.SyncTimeout)
	time.Sleep(2 * time.Second) // virtual time
	w.cluster.Heal()
	return true
}

// replaceLeader cuts a leader and a holder that is connected to it off from the other members,
// until these have elected another leader, and for longer than the session. The old leader answers
// until it looks for its followers. Then its clients lose their connections, and some reconnect to
// it.
func (w *world) replaceLeader(f fault, h *held) bool {
	old, err := w.cluster.MemberOf(h.session)
	if leader, noLeader := w.cluster.Leader(); err != nil || noLeader != nil || old != leader || len(w.cluster.Members()) == 1 {
		return false
	}
	w.check(w.cluster.Partition(old))
	defer w.cluster.Heal()
	ctx, cancel := context.WithTimeout(context.Background(), 2*w.SyncTimeout)
	defer cancel()
	if _, err := w.cluster.WaitLeader(ctx); err != nil {
		return false // of another fault
	}
	w.monitor.note("another member leads")
	for _, member := range w.cluster.Members() {
		if member != old {
			member.Freeze(h.session)
		}
	}
	defer w.thaw(h.session)
	for range f.N {
		time.Sleep(time.Duration(100+f.Target) * time.Millisecond) // virtual time
		old.CutConnections()
	}
	h.ends(2*h.timeout + 4*time.Second)
	time.Sleep(2 * time.Second) // the next one comes
	return true
}

// deleteNodeOf deletes a holder's node by hand. After a while the holder must know.
func (w *world) deleteNodeOf(h *held) bool {
	leader, err := w.cluster.Leader()
	if err != nil {
		return false
	}
	w.monitor.delete(h.node)
	if leader.Delete(h.node) != nil {
		return false
	}
	w.monitor.isGone(h.node)
	if !h.ends(notifiedWithin(h.timeout)) {
		w.monitor.fail("not notified", "%s does not know that %s was deleted", h.who, h.node)
	}
	return true
}

// revoke asks a holder to release, by hand. After a while the holder must know.
func (w *world) revoke(h *held) bool {
	leader, err := w.cluster.Leader()
	if err != nil || leader.Set(h.node, []byte(revokeMessage)) != nil {
		return false
	}
	if !h.ends(notifiedWithin(h.timeout)) {
		w.monitor.fail("not notified", "%s was not notified of the message to %s", h.who, h.node)
	}
	return true
}

// revokeFar asks a holder to release while it reaches no member, but not so long that it could lose
// its session.
func (w *world) revokeFar(h *held) bool {
	back := w.outOfReach(h)
	leader, err := w.cluster.Leader()
	written := err == nil && leader.Set(h.node, []byte(revokeMessage)) == nil
	h.ends(h.timeout / 2)
	back()
	if written && !h.ends(notifiedWithin(h.timeout)) {
		w.monitor.fail("not notified", "%s was not notified of the message to %s, which was sent while it was out of reach", h.who, h.node)
	}
	return written
}

// outOfReach has a holder reach no member. In a world with credentials all members refuse them, so
// its requests fail at once; otherwise its requests wait for a connection.
func (w *world) outOfReach(h *held) (back func()) {
	if w.ACL != "" {
		return w.refuseCredentials(fault{})
	}
	w.freeze(h.session)
	w.cut() // the others may reconnect at once
	return func() { w.thaw(h.session) }
}

// notifiedWithin is how long it may take until a holder knows what the servers know: connections
// may be cut and members lag, and callbacks be delayed.
func notifiedWithin(timeout time.Duration) time.Duration { return 2*timeout + time.Minute }

// loseCreate has a session lose the reply to a create, and then all contact.
func (w *world) loseCreate(f fault) bool {
	id := w.sessionOf(f)
	if id == 0 {
		return false
	}
	met := make(chan struct{}, len(w.cluster.Members()))
	over := make(chan struct{})
	for _, member := range w.cluster.Members() {
		i := member.Inject(zktest.LoseReply, f.N/2, zktest.OnSession(id), zktest.OnOp("create", "create2", "multi"))
		w.healing.Go(func() { // ends with loseCreate
			select {
			case <-i.Done():
				met <- struct{}{}
			case <-over:
			}
		})
	}
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	defer close(over)
	select {
	case <-met:
	case <-timer.C:
		return false
	}
	w.freeze(id)
	defer w.thaw(id)
	time.Sleep(20 * time.Second) // virtual time
	return true
}
