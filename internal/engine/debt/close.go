package debt

import (
	"context"
	"slices"
	"time"

	"github.com/gocurator/curator/internal/engine/wire"
)

// Close begins the end: from now on only DeleteRest sends anything. The debts of nodes that end
// with a session are settled, whether they are registered before Close or later: the client ends
// that session.
func (s *Ledger) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.link, s.backlog = true, line{}, nil
	for d := range s.all {
		s.on(d, event{what: closing}, wire.ErrClosed)
	}
}

// Sessions returns the sessions in which the creates of the remaining debts were sent. One of them
// is nil if any session can delete a node.
func (s *Ledger) Sessions() (sessions []Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.all {
		of := d.node.Session
		if !d.record.open {
			of = nil
		}
		if !slices.Contains(sessions, of) {
			sessions = append(sessions, of)
		}
	}
	return sessions
}

// DeleteRest deletes the nodes that it can before the session of a connection is closed. Earlier
// requests of the connection are answered first, and after Drain nothing else is sent. So every
// request of the session of, for which the connection stands, has been carried out by then, or
// never will be.
func (s *Ledger) DeleteRest(ctx context.Context, conn *wire.Conn, session, of Session) {
	conn.Drain()
	var left []*Debt
	var posts []func()
	looks := make(map[place]*look)
	s.mu.Lock()
	s.link = line{conn, session}
	for d := range s.all {
		left = append(left, d)
		if d.record.state == sent && d.conn == conn { // it is answered before what follows
			continue
		}
		s.on(d, event{what: lastLook}, nil)
		if d.record.state == sought && looks[d.place()] == nil {
			x := s.newLook(d.place(), s.link, time.Now())
			x.of, x.last = of, true
			looks[d.place()] = x
		}
		posts = append(posts, s.offer(d))
	}
	for _, x := range looks {
		s.begin(x)
	}
	s.mu.Unlock()
	if len(left) > 0 { // the server may be behind the one that created a node: see CatchUp
		q := wire.AskNothing()
		q.Last = true
		wire.Post(conn, q)
	}
	for _, post := range posts {
		call(post)
	}
	for _, x := range looks {
		x.find(nil)
	}
	s.await(ctx, left)
}

// await returns when no request for one of these debts is under way.
func (s *Ledger) await(ctx context.Context, list []*Debt) {
	for ctx.Err() == nil {
		s.mu.Lock()
		list = slices.DeleteFunc(list, func(d *Debt) bool { return d.record.state != sent && d.record.state != looking })
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

// Report logs what could not be deleted, and ends.
func (s *Ledger) Report() {
	s.mu.Lock()
	places := make(map[place]int)
	for d := range s.all {
		places[d.place()]++
	}
	s.mu.Unlock()
	for where, count := range places {
		s.host.Log().Warn("nodes might not have been deleted", "path", where.path, "count", count, "reason", s.host.Unreachable())
	}
	close(s.over)
}
