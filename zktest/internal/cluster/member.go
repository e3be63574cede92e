package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// Member is the quorum of one server in a cluster. It sends transactions to the leader.
type Member struct {
	*Replica
	cluster *Cluster
	apart   bool           // it is on the other side of a partition
	lag     *time.Duration // nil: random, as the cluster's configuration says

	term  *term // the term that it leads or follows; nil while it looks for a leader
	link  *link // the link to the leader, if it follows
	epoch int64 // the epoch of the last term that it was part of

	memberLog

	waiting  []*Entry         // writes of a follower's clients, in order: see answers
	touched  map[int64]touch  // sessions heard since the last report to the leader
	resuming map[int64]Caller // handshakes that wait for the leader, by session
}

// memberLog is the part of the cluster's log that a member has.
type memberLog struct {
	known   int      // the number of entries of the cluster's log that it knows to be committed
	applied int      // the number of these that it has applied
	tail    []*Entry // entries proposed to it after these, and not known to be committed
	steps   []step   // steps to be done, in order
	wake    time.Time
}

// step is an entry to be applied, or something to be done after the entries before it were.
type step struct {
	due   time.Time
	entry *Entry
	do    func()
}

// touch records when a session was last heard, and its timeout.
type touch struct {
	timeout time.Duration
	at      time.Time
}

// SetLag sets the delay between the member's receipt of a commit and its application of the
// transaction.
func (m *Member) SetLag(d time.Duration) { m.lag = &d }

func (m *Member) runs() bool { return m.host.Runs() }

// reaches reports whether messages pass between two members now.
func (m *Member) reaches(other *Member) bool {
	return m.runs() && other.runs() && m.apart == other.apart
}

func (m *Member) leads() bool { return m.term != nil && m.term.leader == m }

func (m *Member) Role() Role {
	if m.leads() {
		return Leader
	}
	return Follower
}

func (m *Member) Serves() bool { return m.term != nil }

// lastZxid returns the zxid of the last entry in the member's log, committed or not.
func (m *Member) lastZxid() int64 {
	if len(m.tail) > 0 {
		return m.tail[len(m.tail)-1].Zxid
	}
	return m.cluster.zxidOf(m.known)
}

// toLeader calls f at the leader.
func (m *Member) toLeader(f func(t *term)) {
	switch {
	case m.leads():
		f(m.term)
	case m.link != nil:
		t := m.term
		m.link.send(&m.link.up, func() { f(t) })
	}
}

func (m *Member) Submit(e *Entry) {
	e.at = m
	if e.Origin != nil && !m.leads() {
		m.waiting = append(m.waiting, e)
	}
	m.toLeader(func(t *term) { t.receive(e) })
}

// answers returns the caller that is answered when a transaction is applied, or nil.
//
// A leader has all writes in their order, and takes none for another. A follower knows a
// transaction by its session and the number that the client has given the request. A transaction
// that the session has sent over an earlier connection, to another server, therefore answers the
// oldest write here if that has the same number.
func (m *Member) answers(e *Entry) Caller {
	if m.leads() || e.Edit != nil {
		if e.at == m {
			return e.Origin
		}
		return nil
	}
	if len(m.waiting) == 0 || !sameNumber(m.waiting[0], e) {
		return nil
	}
	q := m.waiting[0].Origin
	m.waiting = m.waiting[1:]
	return q
}

// sameNumber reports whether two entries have the same session and number.
func sameNumber(a, b *Entry) bool {
	number := func(e *Entry) int32 {
		if e.Origin == nil {
			return 0
		}
		return e.Origin.Xid()
	}
	return a.Session == b.Session && number(a) == number(b)
}

// refuse is called when the leader does not carry out what a client here has sent.
func (m *Member) refuse(e *Entry) {
	m.waiting = slices.DeleteFunc(m.waiting, func(other *Entry) bool { return other == e })
	e.Origin.Hang()
}

// Resume asks the leader whether the session exists. As in a real ensemble, the reply does not
// identify a handshake: it answers the session's newest one.
func (m *Member) Resume(q Caller, session int64, timeout time.Duration) {
	if earlier := m.resuming[session]; earlier != nil {
		earlier.Hang()
	}
	m.resuming[session] = q
	m.toLeader(func(t *term) {
		code := proto.SessionExpired
		if t.tracker.Touch(session, timeout, time.Now()) {
			code = proto.OK
			t.tracker.sessions[session].owner = m.Number
		}
		t.runAt(m, func() {
			if q := m.resuming[session]; q != nil {
				delete(m.resuming, session)
				q.Answer(m.Tree.Zxid, tree.Result{Code: code})
			}
		})
	})
}

// Sync answers q when this member has applied all transactions that were committed when the leader
// received the request. As in a real ensemble, the leader does not ask a majority whether it still
// leads.
func (m *Member) Sync(q Caller, path string) {
	then := func() { m.do(func() { q.Answer(m.Tree.Zxid, tree.Result{Body: &proto.PathResponse{Path: path}}) }) }
	if m.leads() {
		then() // its own clients wait for nothing that is not committed
		return
	}
	m.toLeader(func(t *term) { t.afterOutstanding(func() { t.runAt(m, then) }) })
}

// Heard records for the next report to the leader that the session's client was heard.
func (m *Member) Heard(session int64, timeout time.Duration, at time.Time) {
	m.touched[session] = touch{timeout, at}
}

// report returns the sessions heard since the last report.
func (m *Member) report() map[int64]touch {
	m.host.Hear()
	heard := m.touched
	m.touched = make(map[int64]touch)
	return heard
}

// Expires returns the time from the leader's tracker. Without a leader it returns the present time.
func (m *Member) Expires(session int64) time.Time {
	if m.term == nil {
		return time.Now()
	}
	return m.term.tracker.expires(session)
}

// Edit sends a transaction to the leader, and waits until this member has applied it. It returns
// ErrNoLeader if the member has no leader or loses it, and ErrClosed if the server is closed.
func (m *Member) Edit(change func(*tree.Txn) proto.Code) (tree.Result, error) {
	q := newEdit()
	m.Lock()
	c, t := m.cluster, m.cluster.term
	if !c.led() || m.term != t {
		m.Release()
		return tree.Result{}, ErrNoLeader
	}
	t.receive(&Entry{Request: tree.Request{Edit: change}, Origin: q, at: m})
	for {
		answered, lost, changed := q.answered(), m.term != t, c.changed
		m.Release()
		switch {
		case answered:
			return q.res, nil
		case lost:
			return tree.Result{}, ErrNoLeader
		}
		select {
		case <-q.done:
		case <-changed:
		case <-m.host.Done():
			return tree.Result{}, ErrClosed
		}
		m.Lock()
	}
}

func (m *Member) Expire(session int64) error {
	m.Lock()
	defer m.Release()
	return m.cluster.Expire(session)
}

func (m *Member) Reap() {
	m.Lock()
	defer m.Release()
	m.cluster.reap()
}

func (m *Member) Advance(d time.Duration) {
	m.Lock()
	defer m.Release()
	m.cluster.advance(d)
}

// accept takes an entry that the leader proposes into the log.
func (m *Member) accept(e *Entry) { m.tail = append(m.tail, e) }

// commit is called when the leader says that the first entry of the tail is committed.
func (m *Member) commit() {
	e := m.tail[0]
	m.tail = m.tail[1:]
	m.known++
	lag := time.Duration(0)
	switch {
	case m.lag != nil:
		lag = *m.lag
	case !m.leads():
		lag = m.cluster.upTo(m.cluster.cfg.Lag)
	}
	m.steps = append(m.steps, step{due: time.Now().Add(lag), entry: e})
	m.schedule()
}

// do calls f after everything that is committed now was applied.
func (m *Member) do(f func()) {
	m.steps = append(m.steps, step{do: f})
	m.schedule()
}

// schedule arranges a call of work when the first step is due.
func (m *Member) schedule() {
	if len(m.steps) == 0 {
		return
	}
	due := m.steps[0].due
	if m.wake.IsZero() || due.Before(m.wake) {
		m.wake = due
		m.cluster.agenda.Add(due, m.work)
	}
}

// work does the steps that are due, in order.
func (m *Member) work() {
	m.wake = time.Time{}
	for len(m.steps) > 0 && m.runs() && !time.Now().Before(m.steps[0].due) {
		s := m.steps[0]
		m.steps = m.steps[1:]
		if s.entry != nil {
			m.applied++
			m.apply(s.entry, m.answers(s.entry))
		} else {
			s.do()
		}
	}
	if m.runs() {
		m.schedule()
	}
}

// follow adds the member to a term. Its log becomes the leader's, and it applies everything
// that is committed.
func (m *Member) follow(t *term, tail []*Entry) {
	m.term, m.epoch, m.tail, m.steps = t, t.epoch, slices.Clone(tail), nil
	m.known = m.cluster.committed()
	for _, e := range m.cluster.entries(m.applied) {
		m.applied++
		m.apply(e, m.answers(e))
	}
	if m.leads() {
		m.Tree.Zxid = max(m.Tree.Zxid, t.epoch<<32) // followers notice at the first transaction
	}
	clear(m.touched)
	clear(m.resuming)
}

// look makes the member leave its term and look for a leader. Until it finds one it serves no
// client.
func (m *Member) look() {
	t, l := m.term, m.link
	if t == nil {
		return
	}
	m.term, m.link, m.steps, m.waiting = nil, nil, nil, nil
	m.host.HangUp()
	if t.leader == m {
		t.end()
	} else if !l.ended {
		t.drop(l)
	}
	m.cluster.elect()
	m.cluster.announce()
}

// noticeEnd makes the member notice after a while that its link has ended. A member that is paused
// notices later.
func (m *Member) noticeEnd(l *link, after time.Duration) {
	m.cluster.after(after, func() {
		if m.link == l && m.runs() {
			m.look()
		}
	})
}

func (m *Member) Halted()  { m.look() }
func (m *Member) Started() { m.cluster.elect() }
func (m *Member) Paused()  { m.cluster.review() }

func (m *Member) Resumed(pause time.Duration) {
	c := m.cluster
	if m.leads() {
		m.term.tracker.Shift(pause)
	}
	m.schedule()
	if m.leads() && time.Since(m.term.pinged) >= c.cfg.Tick/2 {
		m.term.ping() // its wait has ended
	}
	c.review()
	if m.link != nil && m.link.ended {
		m.noticeEnd(m.link, c.upTo(c.cfg.Tick/2))
	}
}

// String returns the member's number, such as "member 1", for test failures.
func (m *Member) String() string { return fmt.Sprintf("member %d", m.Number) }
