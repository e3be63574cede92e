package cluster

import "time"

// link carries messages between a leader and a follower, in order, in both directions. While it is
// blocked they wait, as on a network that drops packets. It ends with the term, or when it was
// blocked for too long.
type link struct {
	term     *term
	follower *Member
	up, down lane // lanes to the leader and to the follower
	acked    int64
	blocked  bool
	blocks   int // the number of times it was
	ended    bool
}

// lane is one direction of a link. Messages are run in the order in which they were sent.
type lane struct {
	last    time.Time // when the last message arrives
	waiting []func()  // sent and not run
	arrived int       // the number of these that have arrived and wait for the end of a block
}

// send calls f at the other end.
func (l *link) send(way *lane, f func()) {
	c := l.term.cluster
	at := time.Now().Add(c.upTo(c.cfg.Latency))
	if at.Before(way.last) {
		at = way.last
	}
	way.last = at
	way.waiting = append(way.waiting, f)
	c.agenda.Add(at, func() {
		way.arrived++
		l.deliver(way)
	})
}

// deliver processes messages that have arrived, unless the link is blocked or has ended.
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
		c.after(c.cfg.SyncTimeout, func() {
			if l.blocked && l.blocks == times && !l.ended {
				l.term.drop(l)
				l.follower.noticeEnd(l, 0)
			}
		})
	case !blocked && l.blocked:
		for _, way := range []*lane{&l.up, &l.down} {
			c.agenda.Add(time.Now(), func() { l.deliver(way) })
		}
	}
	l.blocked = blocked
}

// ack is called at the leader when the follower has an entry and all before it in its log.
func (l *link) ack(zxid int64) {
	l.acked = zxid
	l.term.commit()
}
