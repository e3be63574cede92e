package zktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrNoLeader means that no member of the cluster leads a majority now.
var ErrNoLeader = errors.New("zktest: no leader")

// ErrNotMember means that a server is not a member of the cluster.
var ErrNotMember = errors.New("zktest: the server is not a member of this cluster")

// Cluster is several servers in this process that behave as a ZooKeeper ensemble does towards its
// clients. All methods are safe for concurrent use.
//
// Its members are servers, with all faults of a [Server]: [Server.Stop] and [Server.Restart] end a
// member's process and start it again with its data and its log, [Server.Pause] and [Server.Resume] stop and continue
// it, [Server.Freeze] cuts its clients off. [Cluster.MemberOf] says which one serves a session. All random choices come from [WithSeed].
//
// What a client may rely on, and what it may not:
//
//   - A write goes to the leader, wherever the client is connected. It is committed when a majority of
//     members has it in the log. Each member applies the log in order, and answers its own clients when it has
//     applied what they wrote.
//   - A read is served from what the member has applied, which may be old: see [WithLag] and [Cluster.Lag].
//     Sync waits for what was committed when the leader heard of it.
//   - A member fires watches when it applies a transaction. A client sees the event of a transaction before it sees
//     any reply that shows it.
//   - A member refuses a client that has seen more than the member has applied.
//   - The leader counts sessions. It knows of followers' clients what followers answer to its pings, every half tick, and ends
//     sessions at the end of a tick. A session may move to another member; then its old connection cannot write.
//   - When the leader is lost, its members cut all connections and serve nobody until a majority of members
//     reach each other and have elected the one that was part of the newest epoch, and among those the one with the longest log.
//     Transactions that are not in its log are lost; their clients got no answer. Sessions get their whole time again.
//   - [Cluster.Add] and [Cluster.Remove] change the members one at a time. A transaction is committed when a majority of the committed
//     configuration has it, and a reconfiguration when a majority of the old and of the new configuration has. A leader is elected by a
//     majority of the committed configuration, and of that in the log which it takes over. A member that joins has what was committed
//     before, and follows, before it is proposed as a voter. The data of one that was removed are gone.
//   - A member that is paused or partitioned is given up after the time of [WithSyncTimeout]. Until it notices itself, it
//     serves its clients with old data, but commits nothing.
//   - A leader looks for its followers once per tick. For up to a tick after they have elected another one, it answers
//     pings, reads, syncs, and sessions that come back, without asking anybody. Only the answer to a write proves that
//     a majority follows.
type Cluster struct {
	*shared
	cfg    config
	agenda *agenda
	began  time.Time     // ticks are counted from here
	done   chan struct{} // closed by Close
	wg     sync.WaitGroup
	end    sync.Once

	// Guarded by mu.
	members  []*member // with those that do not vote yet, or no longer; replaced, not changed
	voters   voters    // who decides, by the last committed configuration
	made     int       // so many members there were ever
	random   *rand.Rand
	ahead    time.Duration // see Server.Advance
	log      []*entry      // committed transactions, from number base on
	base     int
	baseZxid int64 // of the last transaction before base
	epoch    int64
	term     *term         // the newest
	terms    []*term       // that are not over; an old leader may not have noticed yet
	electing bool          // an election is under way
	changed  chan struct{} // closed and replaced when there may be another leader
}

// NewCluster starts a cluster of n members for a test, which ends with the test. If it cannot be started
// the test fails.
func NewCluster(t T, n int, opts ...Option) *Cluster {
	t.Helper()
	c, err := StartCluster(n, opts...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	for _, m := range c.members {
		m.logf = t.Logf
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return c
}

// maxMembers is what fits into the upper byte of a session's id.
const maxMembers = 127

// StartCluster starts a cluster of n members, one of which leads when it returns. Whoever starts one must
// [Cluster.Close] it. Errors are those of a bad n, of bad options and of the network.
func StartCluster(n int, opts ...Option) (*Cluster, error) {
	if n < 1 || n > maxMembers {
		return nil, fmt.Errorf("zktest: a cluster of %d members: must be 1 to %d", n, maxMembers)
	}
	cfg, err := configure(append([]Option{func(c *config) error { c.addr = ""; return nil }}, opts...))
	if err != nil {
		return nil, err
	}
	if cfg.addr != "" {
		return nil, errors.New("zktest: WithAddr is not for a cluster: each member has an address of its own")
	}
	c := &Cluster{
		shared:  &shared{},
		cfg:     cfg,
		began:   time.Now(),
		done:    make(chan struct{}),
		random:  rand.New(rand.NewPCG(cfg.cluster.seed, 0)),
		changed: make(chan struct{}),
	}
	c.agenda = newAgenda()
	c.settle = c.agenda.settle
	for range n {
		m, err := c.newMember()
		if err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
	}
	c.voters = c.members
	for _, m := range c.members {
		if err := m.listen("127.0.0.1:0"); err != nil {
			return nil, errors.Join(fmt.Errorf("zktest: %w", err), c.Close())
		}
	}
	c.mu.Lock()
	for _, m := range c.members {
		if path, text := c.voters.config(cfg, 0); path != "" {
			n := m.tree.nodes[path]
			n.data = []byte(text)
			if cfg.keeper == 0 {
				n.stat.Version = configVersion
			}
		}
	}
	c.decide()
	c.every(cfg.tick/2, c.halfTick)
	c.every(cfg.containerScan, c.reap)
	c.unlock()
	c.wg.Go(func() { c.agenda.run(&c.mu, c.unlock, c.done) })
	return c, nil
}

// Members lists the members. Their order is always the same; those of [Cluster.Add] come last.
func (c *Cluster) Members() []*Server {
	var list []*Server
	for _, m := range c.all() {
		list = append(list, m.Server)
	}
	return list
}

// all lists the members. The lock is not held.
func (c *Cluster) all() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members
}

// Servers lists the members' addresses, which is what clients take.
func (c *Cluster) Servers() []string {
	var list []string
	for _, m := range c.all() {
		list = append(list, m.Addr())
	}
	return list
}

// ConnectString is the members' addresses, separated by commas, which is what Java takes.
func (c *Cluster) ConnectString() string { return strings.Join(c.Servers(), ",") }

// Dial connects to the member with this address without a network. It is a zk.Dialer. While the
// member is stopped, refuses connections or has no leader it returns an error.
func (c *Cluster) Dial(_, address string, _ time.Duration) (net.Conn, error) {
	for _, m := range c.all() {
		if m.Addr() == address {
			return m.Dial("", address, 0)
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotMember, address)
}

// DialContext is Dial with the signature of net.Dialer.DialContext.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.Dial(network, address, 0)
}

// Leader returns the member that leads a majority. The error is [ErrNoLeader].
func (c *Cluster) Leader() (*Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.led() {
		return nil, ErrNoLeader
	}
	return c.term.leader.Server, nil
}

// led reports whether there is a leader that can commit transactions.
func (c *Cluster) led() bool { return c.term != nil && c.voters.majority(c.term.reaches) }

// WaitLeader waits until a member leads a majority, and returns it. Errors are those of ctx, and
// [ErrClosed].
func (c *Cluster) WaitLeader(ctx context.Context) (*Server, error) {
	for {
		c.mu.Lock()
		led, t, changed := c.led(), c.term, c.changed
		c.mu.Unlock()
		if led {
			return t.leader.Server, nil
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

// StopLeader stops the leader, see [Server.Stop], and returns it. The error is [ErrNoLeader].
func (c *Cluster) StopLeader() (*Server, error) {
	leader, err := c.Leader()
	if err == nil {
		leader.Stop()
	}
	return leader, err
}

// Partition cuts these members off from all others. They reach each other, and clients reach all. A
// partition replaces the one before it. [Cluster.Heal] ends it. It is an error if one is not a member.
func (c *Cluster) Partition(members ...*Server) error {
	c.mu.Lock()
	defer c.unlock()
	for _, s := range members {
		if !c.has(s) {
			return ErrNotMember
		}
	}
	for _, m := range c.members {
		m.apart = false
	}
	for _, s := range members {
		s.member.apart = true
	}
	c.review()
	return nil
}

// Heal ends what [Cluster.Partition] began.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.unlock()
	for _, m := range c.members {
		m.apart = false
	}
	c.review()
}

// has reports whether a server is a member.
func (c *Cluster) has(s *Server) bool {
	return s != nil && s.member != nil && slices.Contains(c.members, s.member)
}

// Lag makes a member apply each transaction this long after it has heard that it is committed,
// instead of after a random time, see [WithLag]. It is for transactions from now on. It is an error if the
// member is not one, or d is negative.
func (c *Cluster) Lag(member *Server, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.has(member):
		return ErrNotMember
	case d < 0:
		return fmt.Errorf("zktest: lag %v is negative", d)
	}
	member.member.lag, member.member.lagSet = d, true
	return nil
}

// ExpireSession has the leader end a session now, as if its time had passed. Each member ends
// it when it applies that. Errors are [ErrNoLeader], and [ErrNoSession] if the leader knows no such
// session.
func (c *Cluster) ExpireSession(id int64) error {
	c.mu.Lock()
	defer c.unlock()
	switch {
	case !c.led():
		return ErrNoLeader
	case c.term.tracker.sessions[id] == nil:
		return ErrNoSession
	}
	c.term.receive(&entry{op: OpCloseSession, session: id})
	return nil
}

// MemberOf returns the member that the client of a session is connected to. The error is [ErrNoSession] if there is none:
// the session is over, its client is not connected, or no member has applied the beginning of the session.
func (c *Cluster) MemberOf(session int64) (*Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last *conn // it may have moved, and an earlier member may not have noticed
	for _, m := range c.members {
		if s := m.sessions[session]; s != nil && s.conn != nil && (last == nil || s.conn.since.After(last.since)) {
			last = s.conn
		}
	}
	if last == nil {
		return nil, ErrNoSession
	}
	return last.server, nil
}

// ReapContainers has the leader check containers and TTL nodes now, as it does by itself from time to
// time, see [Server.ReapContainers]. What becomes empty by that goes with the next check. Without a
// leader nothing goes.
func (c *Cluster) ReapContainers() {
	c.mu.Lock()
	defer c.unlock()
	c.reap()
}

// Close ends all members, see [Server.Close].
func (c *Cluster) Close() error {
	c.end.Do(func() { close(c.done) })
	var errs []error
	for _, m := range c.all() {
		errs = append(errs, m.Close())
	}
	c.wg.Wait()
	return errors.Join(errs...)
}
