package cluster

import (
	"slices"
	"time"
)

// leadership records the leaders of a cluster.
type leadership struct {
	epoch    int64
	term     *term         // the newest
	terms    []*term       // terms that are not over: a replaced leader may not have noticed
	electing bool          // an election is under way
	changed  chan struct{} // closed and replaced when another member may lead
}

// review finds out which members reach each other, after that may have changed.
func (c *Cluster) review() {
	for _, t := range slices.Clone(c.terms) {
		for _, l := range slices.Clone(t.links) {
			l.look()
		}
	}
	c.elect()
	c.announce()
}

// announce wakes callers that wait for a leader.
func (c *Cluster) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// elect starts an election, unless one is under way. It takes a random time.
func (c *Cluster) elect() {
	if c.electing {
		return
	}
	c.electing = true
	c.after(c.cfg.Election/2+c.upTo(c.cfg.Election/2), func() {
		c.electing = false
		c.decide()
	})
}

// decide ends an election. A member without a leader joins the present one only if a majority
// follows that leader: the votes of its followers count, not its own word. A member that finds none
// looks again when it reaches other members.
func (c *Cluster) decide() {
	var sides [2][]*Member
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
		if c.voters.majority(func(m *Member) bool { return slices.Contains(side, m) }) {
			c.begin(side)
		}
	}
	c.announce()
}

// begin begins a new term of a side that has a majority. The best voter leads. That commits its
// log, and discards transactions that only others have. If its log has an uncommitted
// reconfiguration, the side needs a majority of the new configuration as well.
func (c *Cluster) begin(side []*Member) {
	var leader *Member
	for _, m := range side {
		if slices.Contains(c.voters, m) && (leader == nil || better(m, leader) > 0) {
			leader = m
		}
	}
	tail := leader.tail[c.committed()-leader.known:]
	for _, e := range tail {
		if e.voters != nil && !e.voters.majority(func(m *Member) bool { return slices.Contains(side, m) }) {
			return
		}
	}
	c.log = append(c.log, tail...)
	for _, e := range tail {
		c.adopt(e)
	}
	c.epoch++
	now := time.Now()
	t := &term{cluster: c, epoch: c.epoch, leader: leader, tracker: NewTracker(c.cfg.Tick, c.began)}
	leader.follow(t, nil)
	for id, sess := range leader.Sessions {
		t.tracker.Open(id, sess.began, now) // its whole timeout again
	}
	c.term = t
	c.terms = append(c.terms, t)
	leader.host.Leads(true)
	for _, m := range side {
		if m != leader {
			t.join(m)
		}
	}
	// A real leader's ticks are not the ticks in which sessions expire.
	c.after(c.upTo(c.cfg.Tick), t.checkMajority)
}
