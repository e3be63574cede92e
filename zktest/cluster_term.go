package zktest

import (
	"slices"
	"time"
)

// term is the time of one leader, which ZooKeeper calls an epoch. The leader gives each transaction a number
// and proposes it to all followers; it is committed when a majority has it in the log. Guarded by
// the cluster's lock.
type term struct {
	cluster     *Cluster
	epoch       int64
	leader      *member
	links       []*link // to those who follow
	count       int64   // of the transactions proposed
	outstanding []*proposal
	tracker     *tracker
	pinged      time.Time // when the leader has pinged its followers last
	over        bool      // the leader has noticed that it does not lead any more
}

// proposal is a transaction that is not committed.
type proposal struct {
	entry *entry
	then  []func() // run at the leader when it is
}

// link carries messages between a leader and a follower, in order, both ways. While it is blocked
// they wait, as they do on a network that drops packets. It ends with the term, or when it was
// blocked for too long.
type link struct {
	term     *term
	follower *member
	up, down lane // to the leader, to the follower
	acked    int64
	blocked  bool
	blocks   int // so often it was
	ended    bool
}

// lane is one direction of a link. Messages are run in the order in which they were sent.
type lane struct {
	last    time.Time // when the last message arrives
	waiting []func()  // sent and not run
	arrived int       // so many of these have arrived, and wait for the end of a block
}

// send has f run at the other end.
func (l *link) send(way *lane, f func()) {
	c := l.term.cluster
	at := time.Now().Add(c.upTo(c.cfg.cluster.latency))
	if at.Before(way.last) {
		at = way.last
	}
	way.last = at
	way.waiting = append(way.waiting, f)
	c.agenda.add(at, func() {
		way.arrived++
		l.deliver(way)
	})
}

// deliver runs what has arrived, unless the link is blocked or has ended.
func (l *link) deliver(way *lane) {
	for way.arrived > 0 && !l.blocked && !l.ended {
		f := way.waiting[0]
		way.waiting = way.waiting[1:]
		way.arrived--
		f()
	}
}

// look finds out whether the link is blocked. Both ends give it up if that lasts too long.
func (l *link) look() {
	c := l.term.cluster
	blocked := !l.term.leader.reaches(l.follower)
	switch {
	case blocked && !l.blocked:
		l.blocks++
		times := l.blocks
		c.after(c.cfg.cluster.syncTimeout, func() {
			if l.blocked && l.blocks == times && !l.ended {
				l.drop()
				l.follower.noticeEnd(l, 0)
			}
		})
	case !blocked && l.blocked:
		for _, way := range []*lane{&l.up, &l.down} {
			c.agenda.add(time.Now(), func() { l.deliver(way) })
		}
	}
	l.blocked = blocked
}

// drop ends the link. The leader looks for its followers with checkMajority only.
func (l *link) drop() {
	t := l.term
	l.ended = true
	t.links = slices.DeleteFunc(t.links, func(other *link) bool { return other == l })
}

// ping has the leader ask its followers which sessions they have heard. A follower that was paused, or cut off for a while, finds the pings
// of that time before what the leader has sent after them, and answers them first.
func (t *term) ping() {
	t.pinged = time.Now()
	for id, heard := range t.leader.report() {
		t.tracker.touch(id, heard.timeout, heard.at)
	}
	for _, l := range t.links {
		l.send(&l.down, func() {
			heard := l.follower.report()
			if len(heard) == 0 {
				return
			}
			l.send(&l.up, func() {
				for id, h := range heard {
					t.tracker.touch(id, h.timeout, time.Now())
				}
			})
		})
	}
}

// reaches reports whether the leader reaches a member: itself, or one that follows. One that does not run reaches nobody.
func (t *term) reaches(m *member) bool {
	if t.over || !t.leader.runs() {
		return false
	}
	l := t.linkOf(m)
	return m == t.leader || l != nil && !l.blocked
}

// linkOf is the link to a follower, or nil.
func (t *term) linkOf(m *member) *link {
	if l := m.link; l != nil && l.term == t && !l.ended {
		return l
	}
	return nil
}

// followed reports whether a majority follows, whether or not messages reach it now.
func (t *term) followed() bool {
	return t.cluster.voters.majority(func(m *member) bool { return m == t.leader || t.linkOf(m) != nil })
}

// checkMajority has the leader give up if no majority follows. As a real leader, it looks once per tick. Between two
// looks it answers pings, reads, syncs and resumed sessions of its own clients, even if it has been replaced.
func (t *term) checkMajority() {
	if !t.over && t.leader.runs() && !t.followed() {
		t.leader.look()
	}
	if !t.over {
		t.cluster.after(t.cluster.cfg.tick, t.checkMajority)
	}
}

// end is called when the leader leads no more. What it has proposed and not committed stays in the
// logs of those who have it; nobody is answered.
func (t *term) end() {
	c := t.cluster
	t.over = true
	c.terms = slices.DeleteFunc(c.terms, func(other *term) bool { return other == t })
	for _, l := range t.links {
		l.ended = true
		after := time.Duration(0) // the connection is closed
		if t.leader.apart != l.follower.apart {
			after = c.cfg.cluster.syncTimeout
		}
		l.follower.noticeEnd(l, after)
	}
	t.links = nil
}

// runAt runs f at a member.
func (t *term) runAt(m *member, f func()) {
	if m == t.leader {
		f()
	} else if m.link != nil && m.link.term == t {
		m.link.send(&m.link.down, f)
	}
}

// receive is called at the leader with a transaction from a member.
func (t *term) receive(e *entry) {
	now := time.Now()
	switch {
	case t.over:
		return
	case e.edit != nil || e.session == 0:
	case e.op == OpConnect:
		t.tracker.open(e.session, e.timeout, now)
		t.tracker.sessions[e.session].owner = e.at
	case e.op == OpCloseSession: // nobody asks whether the session has moved
		t.tracker.close(e.session)
	case !t.permits(e):
		if e.origin != nil {
			t.runAt(e.at.member, func() { e.at.member.refuse(e) })
		}
		return
	}
	t.count++
	e.zxid, e.time = t.epoch<<32|t.count, now.Add(t.cluster.ahead)
	t.outstanding = append(t.outstanding, &proposal{entry: e})
	t.leader.accept(e)
	for _, l := range t.links {
		l.send(&l.down, func() {
			l.follower.accept(e)
			l.send(&l.up, func() { l.ack(e.zxid) })
		})
	}
	if t.cluster.voters.majority(func(m *member) bool { return m == t.leader }) {
		t.cluster.after(0, t.commit)
	}
}

// permits reports whether a session may have a transaction: it lives, and it has not moved to another
// member.
func (t *term) permits(e *entry) bool {
	sess := t.tracker.sessions[e.session]
	if sess == nil || sess.ending {
		return false
	}
	if e.origin == nil {
		return true // of a member, not of its client
	}
	if sess.owner == nil {
		sess.owner = e.at
	}
	return sess.owner == e.at
}

// expire ends a session whose time has passed. As in a real leader, that takes two steps: it is chosen, and then it is ended. Between
// them its client is answered what needs no leader, and nothing else. How long that takes is part of [WithLag].
func (t *term) expire(id int64) {
	end := func() { t.receive(&entry{op: OpCloseSession, session: id}) }
	d := t.cluster.upTo(t.cluster.cfg.cluster.lag)
	if d == 0 {
		end()
		return
	}
	t.tracker.sessions[id].ending = true
	t.cluster.after(d, end)
}

// ack is called at the leader when the follower has an entry and all before it in its log.
func (l *link) ack(zxid int64) {
	l.acked = zxid
	l.term.commit()
}

// commit commits what a majority has: of the configuration that is committed, and, if the transaction is a reconfiguration, of the new one
// as well. Those after it wait until it is committed.
func (t *term) commit() {
	c := t.cluster
	for len(t.outstanding) > 0 && !t.over {
		p := t.outstanding[0]
		has := func(m *member) bool {
			l := t.linkOf(m)
			return m == t.leader || l != nil && l.acked >= p.entry.zxid
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

// afterOutstanding has f run at the leader once all that is proposed now is committed.
func (t *term) afterOutstanding(f func()) {
	if n := len(t.outstanding); n > 0 {
		p := t.outstanding[n-1]
		p.then = append(p.then, f)
		return
	}
	f()
}

// join makes a member follow.
func (t *term) join(m *member) {
	m.follow(t, t.leader.tail)
	l := &link{term: t, follower: m}
	m.link = l
	t.links = append(t.links, l)
	last := m.lastZxid()
	l.send(&l.up, func() { l.ack(last) })
}
