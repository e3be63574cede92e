package cluster

import (
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// Alone is the quorum of a standalone server. It applies each transaction at once.
type Alone struct {
	*Replica
	tracker *Tracker
	ahead   time.Duration // see Advance
}

// NewAlone returns the quorum of a standalone server without sessions, with a new lock.
func NewAlone(rules tree.Rules, tick time.Duration) *Alone {
	return &Alone{Replica: newReplica(&Monitor{}, rules, 1), tracker: NewTracker(tick, time.Now())}
}

// Run expires sessions at each tick until done is closed. The lock must not be held.
func (a *Alone) Run(done <-chan struct{}) {
	a.repeat(done, a.untilTick, a.expireDue)
}

// Scan periodically deletes empty containers and expired TTL nodes, until done is closed. The lock
// must not be held.
func (a *Alone) Scan(every time.Duration, done <-chan struct{}) {
	a.repeat(done, func() time.Duration { return every }, func() { a.reap() })
}

// repeat calls f again and again while the server runs. pause returns the time until the next call.
func (a *Alone) repeat(done <-chan struct{}, pause func() time.Duration, f func()) {
	timer := time.NewTimer(pause())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-done:
			return
		}
		a.Lock()
		if a.host.Runs() {
			f()
		}
		a.Release()
		timer.Reset(pause())
	}
}

func (a *Alone) untilTick() time.Duration {
	a.Lock()
	defer a.Unlock()
	return a.tracker.UntilTick(time.Now())
}

// expireDue ends the sessions whose time has passed.
func (a *Alone) expireDue() {
	a.host.Hear()
	for _, id := range a.tracker.Due(time.Now()) {
		a.Submit(ending(id))
	}
}

// reap is one check of containers and TTL nodes. Each deletion is a transaction. It returns the
// number of deletions.
func (a *Alone) reap() int {
	due := a.Tree.ReapDue(time.Now().Add(a.ahead))
	for _, path := range due {
		a.Submit(reaping(path))
	}
	return len(due)
}

func (a *Alone) Role() Role   { return Standalone }
func (a *Alone) Serves() bool { return true }

func (a *Alone) Submit(e *Entry) {
	now := time.Now()
	e.Zxid, e.Time = a.Tree.Zxid+1, now.Add(a.ahead)
	switch e.Op {
	case proto.OpConnect:
		a.tracker.Open(e.Session, e.Timeout, now)
	case proto.OpCloseSession:
		a.tracker.Close(e.Session)
	}
	a.apply(e, e.Origin)
}

func (a *Alone) Resume(q Caller, session int64, timeout time.Duration) {
	code := proto.OK
	if !a.tracker.Touch(session, timeout, time.Now()) {
		code = proto.SessionExpired
	}
	q.Answer(a.Tree.Zxid, tree.Result{Code: code})
}

func (a *Alone) Sync(q Caller, path string) {
	q.Answer(a.Tree.Zxid, tree.Result{Body: &proto.PathResponse{Path: path}})
}

func (a *Alone) Heard(session int64, timeout time.Duration, at time.Time) {
	a.tracker.Touch(session, timeout, at)
}

func (a *Alone) Expires(session int64) time.Time { return a.tracker.expires(session) }

func (a *Alone) Edit(change func(*tree.Txn) proto.Code) (tree.Result, error) {
	q := newEdit()
	a.Lock()
	a.Submit(&Entry{Request: tree.Request{Edit: change}, Origin: q})
	a.Release()
	return q.res, nil
}

func (a *Alone) Expire(session int64) error {
	a.Lock()
	defer a.Release()
	if a.Sessions[session] == nil {
		return ErrNoSession
	}
	a.Submit(ending(session))
	return nil
}

// Reap deletes all containers and TTL nodes that are due, including parents that it has emptied.
func (a *Alone) Reap() {
	a.Lock()
	defer a.Release()
	for a.reap() > 0 {
	}
}

func (a *Alone) Advance(d time.Duration) {
	a.Lock()
	defer a.Release()
	a.host.Hear()
	a.ahead += d
	a.tracker.Shift(-d)
	if !a.host.Runs() {
		return // nothing expires before the server runs again
	}
	a.expireDue()
	for a.reap() > 0 {
	}
}

func (a *Alone) Halted() {}

// Started restarts the timeout of each session, as a new leader does.
func (a *Alone) Started() {
	for id, sess := range a.Sessions {
		a.tracker.Touch(id, sess.began, time.Now())
	}
}

func (a *Alone) Paused() {}

func (a *Alone) Resumed(pause time.Duration) { a.tracker.Shift(pause) }
