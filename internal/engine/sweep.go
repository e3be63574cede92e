package engine

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

// run starts the deletions and looks that are due, until the client is closed.
func (s *debts) run() {
	for c := s.core; c.ctx.Err() == nil; {
		within, cancel := c.within(c.ctx, time.Until(s.step()))
		select {
		case <-within.Done():
		case <-s.wake.C():
		}
		cancel()
	}
}

// step starts the deletions and looks that are due, and returns the time of its next call: a
// distant one if nothing is due.
func (s *debts) step() (next time.Time) {
	now := time.Now()
	next = now.Add(sweepFor)
	var deletions []*Debt
	looks := make(map[place]*look)
	s.mu.Lock()
	for d := range s.all {
		s.outlive(d, now)
		l := s.usable(d)
		switch {
		case d.state == refused && !d.lost.IsZero() && d.next.Before(next):
			next = d.next
		case d.state != due && d.state != sought, l == nil: // attached wakes run
		case d.state == due && d.next.IsZero(): // it is in the backlog
		case d.next.After(now):
			if d.next.Before(next) {
				next = d.next
			}
		case d.state == due:
			deletions = append(deletions, d)
		case d.place.kind == uniqueName:
			s.set(d, due)
			deletions = append(deletions, d)
		case looks[d.place] == nil && s.looks < maxLooks: // the end of a look wakes run
			s.looks++
			looks[d.place] = &look{debts: s, link: l, of: l.session, place: d.place, began: now}
		}
	}
	for _, x := range looks {
		s.begin(x)
	}
	s.mu.Unlock()
	for _, d := range deletions {
		s.send(d)
	}
	for _, x := range looks {
		x.link.CatchUp(x.find)
	}
	return next
}

// outlive notes that the session of a debt is over. s.mu is held.
func (s *debts) outlive(d *Debt, now time.Time) {
	switch {
	case d.only != nil && d.only.Err() != nil && (d.state == due || d.state == sought):
		s.drop(d, d.only.Err())
	case d.session == nil || d.session.Err() == nil || d.state != sought && d.state != refused:
	case d.lost.IsZero():
		if d.lost, d.next = now, now; d.state == refused {
			s.isOver(d, now)
		}
	case d.state == refused && !now.Before(d.next):
		s.set(d, settled)
	}
}

// look is a search for all debts that are sought at one place.
type look struct {
	debts *debts
	link  *Connection
	of    *Session // once the look is answered, its unanswered creates are settled
	place place
	began time.Time
	last  bool // Close waits for it
	debt  []*Debt
}

// begin adds all debts that are sought at the place of a look to it. s.mu is held.
func (s *debts) begin(x *look) {
	for d := range s.all {
		if d.place == x.place && d.state == sought && s.usable(d) == x.link {
			d.look = x
			x.debt = append(x.debt, d)
			s.set(d, looking)
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
		wire.Post(x.link.Conn, q)
	default:
		q := wire.AskExists(x.place.path, false)
		q.Last, q.Done = x.last, x.seen
		wire.Post(x.link.Conn, q)
	}
}

// ended is called with s.mu held when the look is answered. It returns the debts that remain part
// of it.
func (x *look) ended() []*Debt {
	s := x.debts
	s.looks--
	s.wake.Raise()
	return slices.DeleteFunc(x.debt, func(d *Debt) bool { return d.state != looking || d.look != x })
}

// failed has the look repeated, or gives up if the server has refused it for good.
func (x *look) failed(err error) {
	s := x.debts
	s.mu.Lock()
	defer s.mu.Unlock()
	debts := x.ended()
	for _, d := range debts {
		if verdict.MayPass(err) {
			s.later(d, sought, x.link)
			continue
		}
		s.drop(d, err)
	}
	if !verdict.MayPass(err) && len(debts) > 0 {
		s.core.background(func() { // ends at once
			s.core.cfg.Log.Warn("nodes may not have been deleted", "path", x.place.path, "count", len(debts), "reason", err)
		})
	}
}

// listed takes the children of a place, among which are nodes with ids.
func (x *look) listed(r wire.WithStat[[]string], err error) {
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		x.failed(err)
		return
	}
	s, found := x.debts, make(map[string]string)
	for _, name := range r.Value {
		if _, id := Unprotected(name); id != "" {
			found[id] = name
		}
	}
	var deletions []func()
	s.mu.Lock()
	for _, d := range x.ended() {
		if name, exists := found[d.id]; exists {
			d.place, d.session, d.next = place{proto.Join(x.place.path, name), uniqueName}, nil, time.Time{}
			s.set(d, due)
			// In one step with the end of the look: between the two, Close would take the debt for
			// one without a request, and would close the session first.
			if post := s.take(d); post != nil {
				deletions = append(deletions, post)
			}
		} else {
			s.concluded(d, x.began, x.of)
		}
	}
	s.mu.Unlock()
	for _, post := range deletions {
		post()
	}
}

// seen takes the stat of a node with a reusable name, and deletes the version that was seen.
func (x *look) seen(stat *zk.Stat, err error) {
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		x.failed(err)
		return
	}
	s := x.debts
	var claims []*Debt
	s.mu.Lock()
	for _, d := range x.ended() {
		if err != nil || !d.owns(stat) || d.wanted != nil && d.wanted() {
			s.concluded(d, x.began, x.of)
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
		wire.Post(x.link.Conn, q)
	}
}

// creator returns the debt whose create has made the node that was seen: one that has tried to
// delete it before, or else one of this session, whose create was answered. The others still owe
// the nodes of their own creates.
func (x *look) creator(claims []*Debt, stat *zk.Stat) *Debt {
	return slices.MaxFunc(claims, func(a, b *Debt) int {
		rank := func(d *Debt) int {
			switch {
			case d.deleting == stat.Czxid:
				return 2
			case d.session == x.of:
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
	return d.mine(stat.EphemeralOwner) && (stat.EphemeralOwner != 0 || d.deleting == 0 || d.deleting == stat.Czxid)
}

// deleted takes the reply to a deletion of the version that was seen, for the debts that claim the
// node.
func (x *look) deleted(claims []*Debt, err error) {
	s := x.debts
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range claims {
		if d.state != looking || d.look != x {
			continue
		}
		d.ticket.note(err)
		switch {
		case isGone(err):
			s.concluded(d, x.began, x.of)
		case errors.Is(err, zk.ErrBadVersion): // another client has written to it
			d.next = time.Time{}
			s.set(d, sought)
			s.wake.Raise()
		case verdict.MayPass(err):
			s.later(d, sought, x.link)
		default:
			s.refuse(d, err)
		}
	}
}

// isGone reports whether the reply to a deletion says that there is no node.
func isGone(err error) bool { return err == nil || errors.Is(err, zk.ErrNoNode) }

// close begins the end: from now on only deleteRest sends anything.
func (s *debts) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.link, s.backlog = true, nil, nil
	for d := range s.all {
		s.endWithSession(d)
	}
}

// sessions returns the sessions in which the creates of the remaining debts were sent. One of them
// is nil if any session can delete a node.
func (s *debts) sessions() (sessions []*Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.all {
		if !slices.Contains(sessions, d.session) {
			sessions = append(sessions, d.session)
		}
	}
	return sessions
}

// deleteRest deletes the nodes that it can before the session of a connection is closed. Earlier
// requests of the connection are answered first, and after Drain nothing else is sent. So every
// request of the session of, for which the connection stands, has been carried out by then, or
// never will be.
func (s *debts) deleteRest(ctx context.Context, l *Connection, of *Session) {
	l.Drain()
	now, left := time.Now(), []*Debt(nil)
	looks := make(map[place]*look)
	s.mu.Lock()
	s.link = l
	for d := range s.all {
		left = append(left, d)
		d.next = time.Time{}
		switch {
		case d.state == sent && d.link == l: // it is answered before what follows
		case d.place.kind == uniqueName:
			s.set(d, due)
		default:
			s.set(d, sought)
			looks[d.place] = &look{debts: s, link: l, of: of, place: d.place, began: now, last: true}
		}
	}
	for _, x := range looks {
		s.looks++
		s.begin(x)
	}
	s.mu.Unlock()
	if len(left) > 0 { // the server may be behind the one that created a node: see CatchUp
		q := wire.AskNothing()
		q.Last = true
		wire.Post(l.Conn, q)
	}
	for _, d := range left {
		s.send(d)
	}
	for _, x := range looks {
		x.find(nil)
	}
	s.await(ctx, left)
}

// await returns when no request for one of these debts is under way.
func (s *debts) await(ctx context.Context, list []*Debt) {
	for ctx.Err() == nil {
		s.mu.Lock()
		list = slices.DeleteFunc(list, func(d *Debt) bool { return d.state != sent && d.state != looking })
		changed := s.changed()
		s.mu.Unlock()
		if len(list) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// report logs what could not be deleted, and ends.
func (s *debts) report() {
	s.mu.Lock()
	places := make(map[place]int)
	for d := range s.all {
		places[d.place]++
	}
	s.mu.Unlock()
	for where, count := range places {
		s.core.cfg.Log.Warn("nodes may not have been deleted", "path", where.path, "count", count, "reason", s.core.unreachable(nil))
	}
	close(s.over)
}
