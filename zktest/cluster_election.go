package zktest

import (
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// committed is the number of committed transactions.
func (c *Cluster) committed() int { return c.base + len(c.log) }

// entries lists the committed transactions from number n on.
func (c *Cluster) entries(n int) []*entry { return c.log[n-c.base:] }

// zxidOf is the zxid of the last of n committed transactions.
func (c *Cluster) zxidOf(n int) int64 {
	if n == c.base {
		return c.baseZxid
	}
	return c.log[n-c.base-1].zxid
}

// trim forgets what all members have applied.
func (c *Cluster) trim() {
	least := c.committed()
	for _, m := range c.members {
		least = min(least, m.applied)
	}
	if n := least - c.base; n > 0 {
		c.baseZxid = c.zxidOf(least)
		c.log = slices.Clone(c.log[n:])
		c.base = least
	}
}

// review finds out who still reaches whom, when that may have changed.
func (c *Cluster) review() {
	for _, t := range slices.Clone(c.terms) {
		for _, l := range slices.Clone(t.links) {
			l.look()
		}
	}
	c.elect()
	c.announce()
}

// announce wakes those who wait for a leader.
func (c *Cluster) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// elect has the members that look for a leader find one after the time of an election, if they can.
func (c *Cluster) elect() {
	if c.electing {
		return
	}
	c.electing = true
	c.after(c.cfg.cluster.election/2+c.upTo(c.cfg.cluster.election/2), func() {
		c.electing = false
		c.decide()
	})
}

// decide gives a leader to the members that look for one. They join a leader only if a majority follows it: the votes
// of its followers count, not what it says itself. Those that find none look again when it changes who reaches whom.
func (c *Cluster) decide() {
	var sides [2][]*member
	for _, m := range c.members {
		switch {
		case m.term != nil || !m.runs():
		case c.term != nil && !c.term.over && c.term.followed() && c.term.leader.reaches(m):
			c.term.join(m)
		case m.apart:
			sides[1] = append(sides[1], m)
		default:
			sides[0] = append(sides[0], m)
		}
	}
	for _, side := range sides {
		if c.voters.majority(func(m *member) bool { return slices.Contains(side, m) }) {
			c.begin(side)
		}
	}
	c.announce()
}

// begin begins a new term of members of which a majority votes. The voter of the newest epoch leads, and among those the one with the
// longest log; what is in its log is committed by that, and what else another one has is not. If a reconfiguration is in it that is not
// committed, it takes a majority of the new configuration as well.
func (c *Cluster) begin(side []*member) {
	var leader *member
	for _, m := range side {
		if slices.Contains(c.voters, m) && (leader == nil || m.leadsBefore(leader)) {
			leader = m
		}
	}
	tail := leader.tail[c.committed()-leader.known:]
	for _, e := range tail {
		if e.voters != nil && !e.voters.majority(func(m *member) bool { return slices.Contains(side, m) }) {
			return
		}
	}
	c.log = append(c.log, tail...)
	for _, e := range tail {
		c.adopt(e)
	}
	c.epoch++
	now := time.Now()
	t := &term{cluster: c, epoch: c.epoch, leader: leader, tracker: newTracker(c.cfg.tick, c.began)}
	leader.follow(t, nil)
	leader.tracker = t.tracker
	for id, sess := range leader.sessions {
		t.tracker.open(id, sess.began, now) // its whole time again
	}
	c.term = t
	c.terms = append(c.terms, t)
	for _, m := range side {
		if m != leader {
			t.join(m)
		}
	}
	c.after(c.upTo(c.cfg.tick), t.checkMajority) // a real leader's ticks are not those in which sessions end
}

// halfTick has the leaders ping their followers, and end the sessions whose time has passed: at the end of a tick, as real ones do.
func (c *Cluster) halfTick() {
	now := time.Now()
	for _, t := range slices.Clone(c.terms) {
		if !t.leader.runs() {
			continue
		}
		t.ping()
		for _, id := range t.tracker.due(now) {
			t.expire(id)
		}
	}
	c.trim()
}

// advance moves the clock of all members.
func (c *Cluster) advance(d time.Duration) {
	c.halfTick() // what was heard was heard before
	c.settle()   // and reaches the leader, unless messages take their time
	c.ahead += d
	for _, t := range c.terms {
		t.tracker.shift(-d)
	}
	c.halfTick()
	c.reap()
}

// reap has the leader delete the containers and TTL nodes that are to go.
func (c *Cluster) reap() {
	if !c.led() {
		return
	}
	for _, path := range c.term.leader.tree.reapDue(time.Now().Add(c.ahead)) {
		c.term.receive(&entry{edit: func(x *txn) proto.Code { return x.reap(path) }})
	}
}
