package cluster

import (
	"slices"
	"time"
)

// Tracker records when sessions expire. A standalone server has one, and so has each leader of a
// cluster.
type Tracker struct {
	tick     time.Duration
	began    time.Time // ticks are counted from here
	sessions map[int64]*tracked
}

type tracked struct {
	timeout time.Duration
	expires time.Time
	owner   int  // the number of the last member that had the session; 0: unknown
	ending  bool // chosen to expire: it is not resumed, and has no more transactions
}

// NewTracker returns a tracker without sessions, whose ticks start at began.
func NewTracker(tick time.Duration, began time.Time) *Tracker {
	return &Tracker{tick: tick, began: began, sessions: make(map[int64]*tracked)}
}

// Open adds a session, whose timeout starts now.
func (t *Tracker) Open(id int64, timeout time.Duration, now time.Time) {
	t.sessions[id] = &tracked{}
	t.Touch(id, timeout, now)
}

// Close removes a session.
func (t *Tracker) Close(id int64) { delete(t.sessions, id) }

// Touch records that a session's client was heard at a time, and rounds the expiry up to the next
// tick, like a real server. It reports whether the session exists and is not about to expire.
func (t *Tracker) Touch(id int64, timeout time.Duration, at time.Time) bool {
	sess := t.sessions[id]
	if sess == nil || sess.ending {
		return false
	}
	ticks := (at.Sub(t.began)+timeout)/t.tick + 1
	end := t.began.Add(ticks * t.tick)
	if timeout != sess.timeout || end.After(sess.expires) {
		sess.timeout, sess.expires = timeout, end
	}
	return true
}

// Shift postpones the expiry of all sessions by this duration, which may be negative.
func (t *Tracker) Shift(by time.Duration) {
	t.began = t.began.Add(by)
	for _, sess := range t.sessions {
		sess.expires = sess.expires.Add(by)
	}
}

// Due returns the ids of the sessions whose timeout has passed, sorted.
func (t *Tracker) Due(now time.Time) []int64 {
	var ids []int64
	for id, sess := range t.sessions {
		if !sess.ending && !now.Before(sess.expires) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// UntilTick returns the time from now until the next tick.
func (t *Tracker) UntilTick(now time.Time) time.Duration { return t.tick - now.Sub(t.began)%t.tick }

// expires returns the time at which a session expires, or now if there is no such session.
func (t *Tracker) expires(id int64) time.Time {
	if sess := t.sessions[id]; sess != nil {
		return sess.expires
	}
	return time.Now()
}
