package cluster

import (
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// term is the reign of one leader, which ZooKeeper calls an epoch. The leader numbers each
// transaction and proposes it to all followers. It is committed when a majority has it in the log.
type term struct {
	cluster     *Cluster
	epoch       int64
	leader      *Member
	links       []*link // links to the followers
	count       int64   // the number of proposed transactions
	outstanding []*proposal
	tracker     *Tracker
	pinged      time.Time // when the leader last pinged its followers
	over        bool      // the leader has noticed that it does not lead any more
}

// proposal is a transaction that is not committed.
type proposal struct {
	entry *Entry
	then  []func() // run at the leader when it is
}

// drop ends a link. The leader misses its follower in checkMajority only.
func (t *term) drop(l *link) {
	l.ended = true
	t.links = slices.DeleteFunc(t.links, func(other *link) bool { return other == l })
}

// ping makes the leader ask its followers which sessions they have heard. A follower that was
// paused or cut off finds the pings of that time before everything that the leader has sent later,
// and answers them first.
func (t *term) ping() {
	t.pinged = time.Now()
	for id, heard := range t.leader.report() {
		t.tracker.Touch(id, heard.timeout, heard.at)
	}
	for _, l := range t.links {
		l.send(&l.down, func() {
			heard := l.follower.report()
			if len(heard) == 0 {
				return
			}
			l.send(&l.up, func() {
				for id, h := range heard {
					t.tracker.Touch(id, h.timeout, time.Now())
				}
			})
		})
	}
}

// reaches reports whether the leader reaches a member: itself, or a follower. A leader that does
// not run reaches no member.
func (t *term) reaches(m *Member) bool {
	if t.over || !t.leader.runs() {
		return false
	}
	l := t.linkOf(m)
	return m == t.leader || l != nil && !l.blocked
}

// linkOf returns the link to a follower, or nil.
func (t *term) linkOf(m *Member) *link {
	if l := m.link; l != nil && l.term == t && !l.ended {
		return l
	}
	return nil
}

// followed reports whether a majority follows, whether or not messages reach it now.
func (t *term) followed() bool {
	return t.cluster.voters.majority(func(m *Member) bool { return m == t.leader || t.linkOf(m) != nil })
}

// checkMajority makes the leader give up if no majority follows. Like a real leader, it checks once
// per tick. Between two checks it answers pings, reads, syncs and resumed sessions of its clients,
// even if it has been replaced.
func (t *term) checkMajority() {
	if !t.over && t.leader.runs() && !t.followed() {
		t.leader.look()
	}
	if !t.over {
		t.cluster.after(t.cluster.cfg.Tick, t.checkMajority)
	}
}

// end is called when the leader leads no more. Proposals that are not committed stay in the logs of
// the members that have them. No client is answered.
func (t *term) end() {
	c := t.cluster
	t.over = true
	t.leader.host.Leads(false)
	c.terms = slices.DeleteFunc(c.terms, func(other *term) bool { return other == t })
	for _, l := range t.links {
		l.ended = true
		after := time.Duration(0) // the connection is closed
		if t.leader.apart != l.follower.apart {
			after = c.cfg.SyncTimeout
		}
		l.follower.noticeEnd(l, after)
	}
	t.links = nil
}

// runAt runs f at a member.
func (t *term) runAt(m *Member, f func()) {
	if m == t.leader {
		f()
	} else if m.link != nil && m.link.term == t {
		m.link.send(&m.link.down, f)
	}
}

// receive is called at the leader with a transaction from a member.
func (t *term) receive(e *Entry) {
	now := time.Now()
	switch {
	case t.over:
		return
	case e.Edit != nil || e.Session == 0:
	case e.Op == proto.OpConnect:
		t.tracker.Open(e.Session, e.Timeout, now)
		t.tracker.sessions[e.Session].owner = e.at.Number
	case e.Op == proto.OpCloseSession: // even if the session has moved
		t.tracker.Close(e.Session)
	case !t.permits(e):
		if e.Origin != nil {
			t.runAt(e.at, func() { e.at.refuse(e) })
		}
		return
	}
	t.count++
	e.Zxid, e.Time = t.epoch<<32|t.count, now.Add(t.cluster.ahead)
	t.outstanding = append(t.outstanding, &proposal{entry: e})
	t.leader.accept(e)
	for _, l := range t.links {
		l.send(&l.down, func() {
			l.follower.accept(e)
			l.send(&l.up, func() { l.ack(e.Zxid) })
		})
	}
	if t.cluster.voters.majority(func(m *Member) bool { return m == t.leader }) {
		t.cluster.after(0, t.commit)
	}
}

// permits reports whether a session may have a transaction: it lives, and it has not moved to
// another member.
func (t *term) permits(e *Entry) bool {
	sess := t.tracker.sessions[e.Session]
	if sess == nil || sess.ending {
		return false
	}
	if e.Origin == nil {
		return true // the request is from a member, not from its client
	}
	at := e.at.Number
	if sess.owner == 0 {
		sess.owner = at
	}
	return sess.owner == at
}

// expire ends a session whose time has passed. As in a real leader, that takes two steps: the
// session is chosen, and later it ends. Between them its client is answered what needs no leader,
// and nothing else. The time between them is part of the lag.
func (t *term) expire(id int64) {
	end := func() { t.receive(ending(id)) }
	d := t.cluster.upTo(t.cluster.cfg.Lag)
	if d == 0 {
		end()
		return
	}
	t.tracker.sessions[id].ending = true
	t.cluster.after(d, end)
}

// commit commits the proposals that a majority of the committed configuration has. A
// reconfiguration needs a majority of the new one as well, and later proposals wait for it.
func (t *term) commit() {
	c := t.cluster
	for len(t.outstanding) > 0 && !t.over {
		p := t.outstanding[0]
		has := func(m *Member) bool {
			l := t.linkOf(m)
			return m == t.leader || l != nil && l.acked >= p.entry.Zxid
		}
		if !c.voters.majority(has) || p.entry.voters != nil && !p.entry.voters.majority(has) {
			return
		}
		t.outstanding = t.outstanding[1:]
		c.log = append(c.log, p.entry)
		c.adopt(p.entry)
		t.leader.commit()
		for _, l := range t.links {
			l.send(&l.down, l.follower.commit)
		}
		for _, f := range p.then {
			f()
		}
	}
}

// afterOutstanding calls f at the leader once all present proposals are committed.
func (t *term) afterOutstanding(f func()) {
	if n := len(t.outstanding); n > 0 {
		p := t.outstanding[n-1]
		p.then = append(p.then, f)
		return
	}
	f()
}

// join adds a follower.
func (t *term) join(m *Member) {
	m.follow(t, t.leader.tail)
	l := &link{term: t, follower: m}
	m.link = l
	t.links = append(t.links, l)
	last := m.lastZxid()
	l.send(&l.up, func() { l.ack(last) })
}
