package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gocurator/curator/zktest/internal/tree"
)

// Config configures a cluster.
type Config struct {
	Seed          uint64        // seed of all random choices
	Tick          time.Duration // unit of the servers' time
	ContainerScan time.Duration // interval between checks of containers and TTL nodes
	Lag           time.Duration // maximum delay between a commit and its application by a follower
	Latency       time.Duration // maximum delay of a message between members
	Election      time.Duration // maximum duration of an election
	SyncTimeout   time.Duration // a link that is silent for this long is closed
}

// Cluster is an ensemble: its members, the committed log, and the leader.
type Cluster struct {
	*Monitor
	cfg    Config
	rules  tree.Rules
	agenda *Agenda
	began  time.Time     // ticks are counted from here
	done   chan struct{} // closed by Close

	members []*Member // including members without a vote; replaced, not modified
	voters  voters    // the members that decide, by the last committed configuration
	made    int       // the number of members there ever were
	random  *rand.Rand
	ahead   time.Duration // see Advance
	history
	leadership
}

// history is what a cluster has committed.
type history struct {
	log      []*Entry // committed transactions, from number base on
	base     int
	baseZxid int64 // the zxid of the last transaction before base
}

// committed returns the number of committed transactions.
func (h *history) committed() int { return h.base + len(h.log) }

// entries lists the committed transactions from number n on.
func (h *history) entries(n int) []*Entry { return h.log[n-h.base:] }

// zxidOf returns the zxid of the last of n committed transactions.
func (h *history) zxidOf(n int) int64 {
	if n == h.base {
		return h.baseZxid
	}
	return h.log[n-h.base-1].Zxid
}

// forget drops the transactions before number n.
func (h *history) forget(n int) {
	if dropped := n - h.base; dropped > 0 {
		h.baseZxid = h.zxidOf(n)
		h.log = slices.Clone(h.log[dropped:])
		h.base = n
	}
}

// New returns a cluster without members, with a new lock.
func New(cfg Config, rules tree.Rules) *Cluster {
	c := &Cluster{
		Monitor: &Monitor{},
		cfg:     cfg,
		rules:   rules,
		agenda:  NewAgenda(),
		began:   time.Now(),
		done:    make(chan struct{}),
		random:  rand.New(rand.NewPCG(cfg.Seed, 0)),
	}
	c.changed = make(chan struct{})
	c.settle = c.agenda.Settle
	return c
}

// MaxMembers is the number of members that a session id can distinguish by its upper byte.
const MaxMembers = 127

// NewMember returns a member that is not yet in the cluster. Its server must call [Replica.Attach].
// The lock must not be held.
func (c *Cluster) NewMember() (*Member, error) {
	c.Lock()
	defer c.Unlock()
	if c.made == MaxMembers {
		return nil, fmt.Errorf("zktest: cannot add a member: the cluster has had %d already", MaxMembers)
	}
	c.made++
	return &Member{
		Replica:  newReplica(c.Monitor, c.rules, c.made),
		cluster:  c,
		touched:  make(map[int64]touch),
		resuming: make(map[int64]Caller),
	}, nil
}

// Begin starts the cluster with its first members, which must run, and elects a leader. The lock
// must not be held.
func (c *Cluster) Begin(members []*Member) {
	c.Lock()
	defer c.Release()
	c.members, c.voters = members, members
	for _, m := range c.members {
		if path, text := c.voters.config(c.rules, 0); path != "" {
			m.Tree.InitConfig(path, text)
		}
	}
	c.decide()
	c.every(c.cfg.Tick/2, c.halfTick)
	c.every(c.cfg.ContainerScan, c.reap)
}

// Run runs the agenda until Close. The lock must not be held.
func (c *Cluster) Run() { c.agenda.Run(c.Monitor, c.done) }

// Close makes Run and all waits return. It must be called once, and the lock must not be held.
func (c *Cluster) Close() { close(c.done) }

// Members returns the members in the order in which they joined, including members without a vote.
func (c *Cluster) Members() []*Member { return c.members }

// Has reports whether a server is a member.
func (c *Cluster) Has(m *Member) bool { return slices.Contains(c.members, m) }

// Leader returns the member that leads a majority, or nil.
func (c *Cluster) Leader() *Member {
	if !c.led() {
		return nil
	}
	return c.term.leader
}

// led reports whether a leader can commit transactions.
func (c *Cluster) led() bool { return c.term != nil && c.voters.majority(c.term.reaches) }

// WaitLeader waits until a member leads a majority, the cluster is closed or ctx is done. The lock
// must not be held.
func (c *Cluster) WaitLeader(ctx context.Context) (*Member, error) {
	for {
		c.Lock()
		leader, changed := c.Leader(), c.changed
		c.Unlock()
		if leader != nil {
			return leader, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.done:
			return nil, ErrClosed
		}
	}
}

// Part disconnects these members from all others, in place of an earlier partition. No members
// means no partition.
func (c *Cluster) Part(members []*Member) {
	for _, m := range c.members {
		m.apart = slices.Contains(members, m)
	}
	c.review()
}

// Expire makes the leader expire a session now. It returns ErrNoLeader without a leader, and
// ErrNoSession if the leader does not know the session.
func (c *Cluster) Expire(session int64) error {
	switch {
	case !c.led():
		return ErrNoLeader
	case c.term.tracker.sessions[session] == nil:
		return ErrNoSession
	}
	c.term.receive(ending(session))
	return nil
}

// reap makes the leader delete the containers and TTL nodes that are due. Nodes that become empty
// by that wait for the next check.
func (c *Cluster) reap() {
	if !c.led() {
		return
	}
	for _, path := range c.term.leader.Tree.ReapDue(time.Now().Add(c.ahead)) {
		c.term.receive(reaping(path))
	}
}

// advance moves the clock of all members.
func (c *Cluster) advance(d time.Duration) {
	c.halfTick() // sessions that were heard before the advance
	c.settle()   // reach the leader, unless messages take their time
	c.ahead += d
	for _, t := range c.terms {
		t.tracker.Shift(-d)
	}
	c.halfTick()
	c.reap()
}

// halfTick makes the leaders ping their followers and expire sessions. Real leaders do the latter
// at the end of a tick.
func (c *Cluster) halfTick() {
	now := time.Now()
	for _, t := range slices.Clone(c.terms) {
		if !t.leader.runs() {
			continue
		}
		t.ping()
		for _, id := range t.tracker.Due(now) {
			t.expire(id)
		}
	}
	least := c.committed() // what all members have applied is not needed again
	for _, m := range c.members {
		least = min(least, m.applied)
	}
	c.forget(least)
}

// after calls f once d has passed.
func (c *Cluster) after(d time.Duration, f func()) { c.agenda.Add(time.Now().Add(d), f) }

// every calls f each time d has passed since began.
func (c *Cluster) every(d time.Duration, f func()) {
	at := c.began
	var again func()
	again = func() {
		at = at.Add(d)
		c.agenda.Add(at, func() {
			f()
			again()
		})
	}
	again()
}

// upTo returns a random time from 0 to d.
func (c *Cluster) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(c.random.Int64N(int64(d) + 1))
}

// better compares two members by their votes. The epoch precedes the log: members of the newest
// leader have everything that was committed before it, and others may have entries that were lost.
func better(a, b *Member) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.lastZxid(), b.lastZxid()), cmp.Compare(a.Number, b.Number))
}
