package debt

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
)

// maxLooks limits the looks that are under way at a time.
const maxLooks = 16

// Run starts the deletions and looks that are due, until the client is closed.
func (s *Ledger) Run() {
	for life := s.host.Life(); life.Err() == nil; {
		until, cancel := context.WithDeadline(life, s.turn(time.Now()))
		select {
		case <-until.Done():
		case <-s.wake.C():
		}
		cancel()
	}
}

// Wake has Run look at the sessions again. A session is over.
func (s *Ledger) Wake() { s.wake.Raise() }

// turn starts the deletions and looks that are due, and returns the time of its next call: a
// distant one if nothing is due.
func (s *Ledger) turn(now time.Time) (next time.Time) {
	next = now.Add(sweepFor)
	var posts []func()
	looks := make(map[place]*look)
	s.mu.Lock()
	for d := range s.all {
		s.on(d, event{what: looked}, nil)
		r := d.record
		l, ok := s.usable(d)
		timed := r.timed(ok)
		switch {
		case timed && r.next.After(now):
			if r.next.Before(next) {
				next = r.next
			}
		case !timed || r.state == refused: // Attach or the end of a session wakes Run
		case r.state == due && r.next.IsZero(): // it is in the backlog
		case r.state == due || r.kind == uniqueName:
			posts = append(posts, s.deliver(d))
		case looks[d.place()] == nil && s.looks < maxLooks: // the end of a look wakes Run
			looks[d.place()] = s.newLook(d.place(), l, now)
		}
	}
	for _, x := range looks {
		s.begin(x)
	}
	s.mu.Unlock()
	for _, post := range posts {
		call(post)
	}
	for _, x := range looks {
		x.on.conn.CatchUp(x.find)
	}
	return next
}

// timed reports whether a debt has a time at which it is looked at again. connected is whether
// there is a connection for it.
func (r record) timed(connected bool) bool {
	return (r.state == due || r.state == sought) && connected || r.state == refused
}

// place is a place where the ledger looks for nodes.
type place struct {
	path string // the node's path; with protectedID, its parent's
	kind identity
}

// place is where the node of a debt is sought. The mutex is held.
func (d *Debt) place() place { return place{d.node.Path, d.record.kind} }

// look is a search for all debts that are sought at one place.
type look struct {
	ledger *Ledger
	on     line
	// of is the session whose unanswered creates are settled once the look is answered.
	of    Session
	place place
	began time.Time
	last  bool // Close waits for it
	debts []*Debt
}

// newLook returns a look, which begin begins. s.mu is held.
func (s *Ledger) newLook(at place, on line, now time.Time) *look {
	s.looks++
	return &look{ledger: s, on: on, of: on.session, place: at, began: now}
}

// begin adds all debts that are sought at the place of a look to it. s.mu is held.
func (s *Ledger) begin(x *look) {
	for d := range s.all {
		if l, ok := s.usable(d); d.place() != x.place || d.record.state != sought || !ok || l != x.on {
			continue
		}
		if s.on(d, event{what: ready}, nil) == seek {
			d.look = x
			x.debts = append(x.debts, d)
		}
	}
}

// find asks for what exists at the place, once the server has caught up.
func (x *look) find(err error) {
	switch {
	case err != nil:
		x.failed(err)
	case x.place.kind == protectedID:
		q := wire.AskChildren(x.place.path, false)
		q.Last, q.Done = x.last, x.listed
		wire.Post(x.on.conn, q)
	default:
		q := wire.AskExists(x.place.path, false)
		q.Last, q.Done = x.last, x.seen
		wire.Post(x.on.conn, q)
	}
}

// ended is called with the mutex held when the look is answered. It returns the debts that remain
// part of it.
func (x *look) ended() []*Debt {
	s := x.ledger
	s.looks--
	s.wake.Raise()
	return slices.DeleteFunc(x.debts, func(d *Debt) bool { return !x.has(d) })
}

// has reports whether a debt is part of the look. The mutex is held.
func (x *look) has(d *Debt) bool { return d.record.state == looking && d.look == x }

// answer returns the event of a debt whose node was not found, or was deleted.
func (x *look) answer(d *Debt, what what) event {
	return event{what: what, began: x.began, facts: facts{same: d.node.Session == x.of}}
}

// failed repeats the look, or gives up if the server has refused it for good.
func (x *look) failed(err error) {
	s := x.ledger
	s.mu.Lock()
	defer s.mu.Unlock()
	debts := x.ended()
	for _, d := range debts {
		if verdict.MayPass(err) {
			s.again(d, x.on)
			continue
		}
		s.on(d, event{what: unreadable}, err)
	}
	if !verdict.MayPass(err) && len(debts) > 0 {
		s.host.Background(func() { // ends at once
			s.host.Log().Warn("nodes might not have been deleted", "path", x.place.path, "count", len(debts), "reason", err)
		})
	}
}

// listed takes the children of a place, among which are nodes with ids.
func (x *look) listed(r wire.WithStat[[]string], err error) {
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		x.failed(err)
		return
	}
	s, names := x.ledger, make(map[string]string)
	for _, name := range r.Value {
		if _, id := Unprotected(name); id != "" {
			names[id] = name
		}
	}
	var deletions []func()
	s.mu.Lock()
	for _, d := range x.ended() {
		name, exists := names[d.node.id]
		if !exists {
			s.on(d, x.answer(d, missing), nil)
			continue
		}
		d.node.Path = proto.Join(x.place.path, name)
		s.on(d, event{what: found}, nil)
		// In one step with the end of the look: between the two, Close would take the debt for one
		// without a request, and would close the session first.
		deletions = append(deletions, s.offer(d))
	}
	s.mu.Unlock()
	for _, post := range deletions {
		call(post)
	}
}

// seen takes the stat of a node with a reusable name, and deletes the version that was seen.
func (x *look) seen(stat *zk.Stat, err error) {
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		x.failed(err)
		return
	}
	s := x.ledger
	var claims []*Debt
	s.mu.Lock()
	for _, d := range x.ended() {
		if err != nil || !d.owns(stat) || d.wanted() {
			s.on(d, x.answer(d, missing), nil)
			continue
		}
		claims = append(claims, d)
	}
	if len(claims) > 0 {
		x.creator(claims, stat).deleting = stat.Czxid
	}
	s.mu.Unlock()
	if len(claims) > 0 {
		q := wire.AskDelete(x.place.path, stat.Version)
		q.Last, q.Done = x.last, func(_ wire.None, err error) { x.deleted(claims, err) }
		wire.Post(x.on.conn, q)
	}
}

// creator returns the debt whose create has made the node that was seen: a debt that has tried to
// delete the node before, or else a debt of this session whose create was answered. The others
// still owe the nodes of their creates.
func (x *look) creator(claims []*Debt, stat *zk.Stat) *Debt {
	return slices.MaxFunc(claims, func(a, b *Debt) int {
		rank := func(d *Debt) int {
			switch {
			case d.deleting == stat.Czxid:
				return 2
			case d.node.Session == x.of:
				return 1
			}
			return 0
		}
		return cmp.Compare(rank(a), rank(b))
	})
}

// owns reports whether the node that was seen is to be deleted. A persistent node does not show
// whose it is: after the deletion of one, another is not this client's.
func (d *Debt) owns(stat *zk.Stat) bool {
	return d.node.mine(stat.EphemeralOwner) && (stat.EphemeralOwner != 0 || d.deleting == 0 || d.deleting == stat.Czxid)
}

// deleted takes the reply to a deletion of the version that was seen, for the debts that claim the
// node.
func (x *look) deleted(claims []*Debt, err error) {
	s := x.ledger
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range claims {
		if !x.has(d) {
			continue
		}
		d.ticket.note(err)
		switch {
		case isGone(err):
			s.on(d, x.answer(d, gone), nil)
		case errors.Is(err, zk.ErrBadVersion): // another client has written to it
			s.on(d, event{what: changed}, nil)
		default:
			s.answered(d, x.on, x.began, err)
		}
	}
}

// isGone reports whether the reply to a deletion says that there is no node.
func isGone(err error) bool { return err == nil || errors.Is(err, zk.ErrNoNode) }
