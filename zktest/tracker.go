package zktest

import (
	"slices"
	"time"
)

// tracker knows when sessions end. A server of its own has one, and so has the leader of a
// cluster. Guarded by Server.mu.
type tracker struct {
	tick     time.Duration
	began    time.Time // ticks are counted from here
	sessions map[int64]*tracked
}

type tracked struct {
	timeout time.Duration
	expires time.Time
	owner   *Server // the member that it was at last; nil: not known
	ending  bool    // its end is chosen: it gets no transaction any more, and is not resumed
}

func newTracker(tick time.Duration, began time.Time) *tracker {
	return &tracker{tick: tick, began: began, sessions: make(map[int64]*tracked)}
}

func (t *tracker) open(id int64, timeout time.Duration, now time.Time) {
	t.sessions[id] = &tracked{}
	t.touch(id, timeout, now)
}

func (t *tracker) close(id int64) { delete(t.sessions, id) }

// touch notes that a session was heard at a time. Like a real server, it rounds the end up to the next
// tick. It reports whether there is such a session, and it is not being ended.
func (t *tracker) touch(id int64, timeout time.Duration, at time.Time) bool {
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

// shift makes a time during which nothing was counted as if it had not been.
func (t *tracker) shift(by time.Duration) {
	t.began = t.began.Add(by)
	for _, sess := range t.sessions {
		sess.expires = sess.expires.Add(by)
	}
}

// due lists the sessions whose time has passed, in the order in which they began.
func (t *tracker) due(now time.Time) []int64 {
	var ids []int64
	for id, sess := range t.sessions {
		if !sess.ending && !now.Before(sess.expires) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// untilTick is the time until the next tick begins.
func (t *tracker) untilTick(now time.Time) time.Duration { return t.tick - now.Sub(t.began)%t.tick }
