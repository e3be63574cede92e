package zktest

import (
	"cmp"
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// member is a server's part in a cluster. Guarded by the cluster's lock.
type member struct {
	*Server
	cluster *Cluster
	number  int
	apart   bool          // on the other side of a partition
	lag     time.Duration // if lagSet
	lagSet  bool

	term  *term // that it leads or follows; nil while it looks for a leader
	link  *link // to the leader, if it follows
	epoch int64 // of the last term that it was part of

	known   int      // so many entries of the cluster's log it knows to be committed
	applied int      // so many of these it has applied
	tail    []*entry // proposed to it after these, and not known to be committed
	steps   []step   // what it has to do, in order
	wake    time.Time

	waiting  []*entry        // writes of a follower's clients, in the order in which it passed them on: see answers
	touched  map[int64]touch // sessions heard since the last report to the leader
	resuming map[int64]*call // handshakes that wait for the leader, by session
}

// step is an entry to be applied, or something to be done after the entries before it were.
type step struct {
	due   time.Time
	entry *entry
	do    func()
}

// touch is when a session was heard.
type touch struct {
	timeout time.Duration
	at      time.Time
}

// runs reports whether the member's process exists and is not paused.
func (m *member) runs() bool { return !m.stopped && m.paused.IsZero() }

// reaches reports whether messages pass between two members now.
func (m *member) reaches(other *member) bool {
	return m.runs() && other.runs() && m.apart == other.apart
}

func (m *member) leads() bool { return m.term != nil && m.term.leader == m }

// lastZxid is that of the last entry in the member's log, committed or not.
func (m *member) lastZxid() int64 {
	if len(m.tail) > 0 {
		return m.tail[len(m.tail)-1].zxid
	}
	return m.cluster.zxidOf(m.known)
}

// leadsBefore reports whether m is to lead rather than other, by their votes. The epoch comes before the log: the newest leader's members
// have what was committed before it, and what others have in their logs may have been given up by then.
func (m *member) leadsBefore(other *member) bool {
	return cmp.Or(cmp.Compare(m.epoch, other.epoch), cmp.Compare(m.lastZxid(), other.lastZxid()), cmp.Compare(m.number, other.number)) > 0
}

// toLeader has f run at the leader.
func (m *member) toLeader(f func(t *term)) {
	switch {
	case m.leads():
		f(m.term)
	case m.link != nil:
		t := m.term
		m.link.send(&m.link.up, func() { f(t) })
	}
}

// submit hands a transaction to the leader.
func (m *member) submit(e *entry) {
	if e.origin != nil && !m.leads() {
		m.waiting = append(m.waiting, e)
	}
	m.toLeader(func(t *term) { t.receive(e) })
}

// answers is the call that is answered when a transaction is applied, or nil. A follower knows a transaction by its session and the
// number that the client has given the request. So one that the session has sent over an earlier connection, to another server, answers
// the oldest write here if that has the same number. A leader has all writes in their order, and takes none for another.
func (m *member) answers(e *entry) *call {
	if len(m.waiting) == 0 || !m.waiting[0].sameNumber(e) {
		return nil
	}
	q := m.waiting[0].origin
	m.waiting = m.waiting[1:]
	return q
}

// refuse is called when the leader does not carry out what a client here has sent.
func (m *member) refuse(e *entry) {
	m.waiting = slices.DeleteFunc(m.waiting, func(other *entry) bool { return other == e })
	e.origin.conn.cut()
}

// resumeSession asks the leader whether a session that comes to this member is alive. As on a real server, the
// answer does not say which handshake it is for: it goes to the newest one of the session.
func (m *member) resumeSession(q *call, id int64, timeout time.Duration) {
	if earlier := m.resuming[id]; earlier != nil {
		earlier.conn.cut()
	}
	m.resuming[id] = q
	m.toLeader(func(t *term) {
		code := proto.SessionExpired
		if t.tracker.touch(id, timeout, time.Now()) {
			code = proto.OK
			t.tracker.sessions[id].owner = m.Server
		}
		t.runAt(m, func() {
			if q := m.resuming[id]; q != nil {
				delete(m.resuming, id)
				q.answer(m.tree.zxid, result{code: code})
			}
		})
	})
}

// sync answers q once this member has applied what was committed when the leader heard of it. As in a real
// ensemble, the leader does not ask a majority whether it still leads.
func (m *member) sync(q *call, path string) {
	then := func() { m.do(func() { q.answer(m.tree.zxid, result{body: &proto.PathResponse{Path: path}}) }) }
	if m.leads() {
		then() // its own clients wait for nothing that is not committed
		return
	}
	m.toLeader(func(t *term) { t.afterOutstanding(func() { t.runAt(m, then) }) })
}

// edit hands the leader a transaction that the test wants, and waits until this member has applied it.
// The lock is held, and is unlocked. Errors are ErrNoLeader and ErrClosed.
func (m *member) edit(e *entry) error {
	c, q := m.cluster, e.origin
	t := c.term
	if !c.led() || m.term != t {
		c.unlock()
		return ErrNoLeader
	}
	q.done = make(chan struct{})
	t.receive(e)
	for {
		answered, lost, changed := q.answered, m.term != t, c.changed
		c.unlock()
		switch {
		case answered:
			return nil
		case lost:
			return ErrNoLeader
		}
		select {
		case <-q.done:
		case <-changed:
		case <-m.Server.done:
			return ErrClosed
		}
		c.mu.Lock()
	}
}

// accept takes an entry that the leader proposes into the log.
func (m *member) accept(e *entry) { m.tail = append(m.tail, e) }

// commit is called when the leader says that the first entry of the tail is committed.
func (m *member) commit() {
	e := m.tail[0]
	m.tail = m.tail[1:]
	m.known++
	lag := m.lag
	if !m.lagSet && !m.leads() {
		lag = m.cluster.upTo(m.cfg.cluster.lag)
	}
	m.steps = append(m.steps, step{due: time.Now().Add(lag), entry: e})
	m.schedule()
}

// do has f done after what was committed so far is applied.
func (m *member) do(f func()) {
	m.steps = append(m.steps, step{do: f})
	m.schedule()
}

// schedule has work called when the first step is due.
func (m *member) schedule() {
	if len(m.steps) == 0 {
		return
	}
	due := m.steps[0].due
	if m.wake.IsZero() || due.Before(m.wake) {
		m.wake = due
		m.cluster.agenda.add(due, m.work)
	}
}

// work does the steps that are due, in order.
func (m *member) work() {
	m.wake = time.Time{}
	for len(m.steps) > 0 && m.runs() && !time.Now().Before(m.steps[0].due) {
		s := m.steps[0]
		m.steps = m.steps[1:]
		if s.entry != nil {
			m.applied++
			m.apply(s.entry)
		} else {
			s.do()
		}
	}
	if m.runs() {
		m.schedule()
	}
}

// follow makes the member part of a term: its log becomes the leader's, and it applies all that is
// committed.
func (m *member) follow(t *term, tail []*entry) {
	m.term, m.epoch, m.tail, m.steps = t, t.epoch, slices.Clone(tail), nil
	m.known = m.cluster.committed()
	for _, e := range m.cluster.entries(m.applied) {
		m.applied++
		m.apply(e)
	}
	if m.leads() {
		m.tree.zxid = max(m.tree.zxid, t.epoch<<32) // followers learn of it with the first transaction
	}
	clear(m.touched)
	clear(m.resuming)
}

// look has the member leave its term and look for a leader. It serves no clients meanwhile.
func (m *member) look() {
	t, l := m.term, m.link
	if t == nil {
		return
	}
	m.term, m.link, m.steps, m.waiting = nil, nil, nil, nil
	m.hangUpAll()
	if t.leader == m {
		t.end()
	} else if !l.ended {
		l.drop()
	}
	m.cluster.elect()
	m.cluster.announce()
}

// resumed is called when a pause is over.
func (m *member) resumed() {
	c := m.cluster
	m.schedule()
	if m.leads() && time.Since(m.term.pinged) >= c.cfg.tick/2 {
		m.term.ping() // its wait has ended
	}
	c.review()
	if m.link != nil && m.link.ended {
		m.noticeEnd(m.link, c.upTo(c.cfg.tick/2))
	}
}

// noticeEnd has the member notice after a while that its link has ended. One that is paused notices later.
func (m *member) noticeEnd(l *link, after time.Duration) {
	m.cluster.after(after, func() {
		if m.link == l && m.runs() {
			m.look()
		}
	})
}

// hear notes that a session was heard, for the next report.
func (m *member) hear(id int64, timeout time.Duration, at time.Time) {
	m.touched[id] = touch{timeout, at}
}

// report returns the sessions heard since the last report.
func (m *member) report() map[int64]touch {
	m.hearAll()
	heard := m.touched
	m.touched = make(map[int64]touch)
	return heard
}
