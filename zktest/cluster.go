package zktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/zktest/internal/cluster"
)

// ErrNoLeader is returned while no member of the cluster leads a majority.
var ErrNoLeader = cluster.ErrNoLeader

// ErrNotMember is returned if a server is not a member of the cluster.
var ErrNotMember = cluster.ErrNotMember

// Cluster is a group of servers in this process that behaves like a ZooKeeper ensemble towards its
// clients. All methods are safe for concurrent use.
//
// The members are servers, with all faults of a [Server]. [Server.Stop] and [Server.Restart] stop a
// member's process and start it again with its data and its log. [Server.Pause] and [Server.Resume]
// suspend and continue it. [Server.Freeze] blocks its clients. [Cluster.MemberOf] returns the
// member that serves a session. All random choices depend on [WithSeed].
//
// A client can rely on the following:
//
//   - A write is sent to the leader, wherever the client is connected. It is committed when a
//     majority of members has it in the log. Each member applies the log in order, and answers its
//     own clients when it has applied their writes.
//   - A member serves a read from the transactions that it has applied, which may be old: see
//     [WithLag] and [Cluster.Lag]. Sync waits for all transactions that were committed when the
//     leader received it.
//   - A member fires watches when it applies a transaction. A client sees the event of a
//     transaction before it sees any reply that shows it.
//   - A member refuses a client that has seen more than the member has applied.
//   - The leader tracks sessions. Every half tick it pings the followers, whose replies report the
//     clients that they have heard. It expires sessions at tick boundaries. If a session moves to
//     another member, its old connection can no longer write.
//   - When the leader is lost, its members cut all connections. They serve no client until a
//     majority of members reach each other and have elected a leader: the member of the newest
//     epoch, and among these the member with the longest log. Transactions that are not in its log
//     are lost, and their clients have received no reply. The timeouts of all sessions start again.
//   - [Cluster.Add] and [Cluster.Remove] change the members one at a time. A transaction is
//     committed when a majority of the committed configuration has it. A reconfiguration needs a
//     majority of the old and of the new configuration. A leader is elected by a majority of the
//     committed configuration, and of the configuration in the log that it takes over. A new member
//     has everything that was committed before, and follows, before it is proposed as a voter. The
//     data of a removed member are deleted.
//   - The other members close their links to a paused or partitioned member after the time of
//     [WithSyncTimeout]. Until the member itself detects that, it serves old data to its clients,
//     but commits nothing.
//   - A leader checks its followers once per tick. For up to a tick after they have elected another
//     leader, it answers pings, reads, syncs and resumed sessions without asking another member.
//     Only the reply to a write proves that a majority follows.
type Cluster struct {
	core    *cluster.Cluster
	cfg     config
	wg      sync.WaitGroup
	end     sync.Once
	servers map[*cluster.Member]*Server // guarded by the core's lock
}

// NewCluster starts a cluster of n members for a test, and closes it when the test completes. It
// fails the test if the cluster cannot start.
func NewCluster(t T, n int, opts ...Option) *Cluster {
	t.Helper()
	c, err := StartCluster(n, opts...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	for _, s := range c.Members() {
		s.logf = t.Logf
	}
	t.Cleanup(func() {
		explain(t, c.cfg.Timeline)
		if err := c.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return c
}

// StartCluster starts a cluster of n members, one of them the leader. The caller must call
// [Cluster.Close]. It fails if n or an option is invalid, or if a member cannot listen.
func StartCluster(n int, opts ...Option) (*Cluster, error) {
	if n < 1 || n > cluster.MaxMembers {
		return nil, fmt.Errorf("zktest: invalid number of members %d: must be 1 to %d", n, cluster.MaxMembers)
	}
	cfg, err := configure(append([]Option{func(c *config) error { c.addr = ""; return nil }}, opts...))
	if err != nil {
		return nil, err
	}
	if cfg.addr != "" {
		return nil, errors.New("zktest: WithAddr cannot be used for a cluster, whose members have separate addresses")
	}
	c := &Cluster{core: cluster.New(cfg.cluster, cfg.Rules), cfg: cfg, servers: make(map[*cluster.Member]*Server)}
	var members []*cluster.Member
	for range n {
		s, err := c.newMember()
		if err == nil {
			err = s.listen("127.0.0.1:0")
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("zktest: %w", err), c.Close())
		}
		members = append(members, s.member)
	}
	c.core.Begin(members)
	c.wg.Go(c.core.Run)
	return c, nil
}

// newMember returns a server that is a member and does not listen.
func (c *Cluster) newMember() (*Server, error) {
	m, err := c.core.NewMember()
	if err != nil {
		return nil, err
	}
	s := newServer(c.cfg, m, fmt.Sprintf("127.0.0.1:%d", 2180+m.Number))
	s.member = m
	c.core.Lock()
	defer c.core.Unlock()
	c.servers[m] = s
	return s, nil
}

// forget closes the server of a member that was removed.
func (c *Cluster) forget(s *Server) error {
	c.core.Lock()
	delete(c.servers, s.member)
	c.core.Unlock()
	return s.Close()
}

// Members returns the members in the order in which they joined.
func (c *Cluster) Members() []*Server {
	c.core.Lock()
	defer c.core.Unlock()
	var list []*Server
	for _, m := range c.core.Members() {
		list = append(list, c.servers[m])
	}
	return list
}

// Servers returns the members' addresses, in the order of [Cluster.Members].
func (c *Cluster) Servers() []string {
	var list []string
	for _, s := range c.Members() {
		list = append(list, s.Addr())
	}
	return list
}

// DialContext connects in memory to the member with this address. It has the signature of
// net.Dialer.DialContext.
//
// Errors are
//   - [ErrNotMember] if no member has the address;
//   - ctx.Err() if ctx is done;
//   - another error while the member is stopped, refuses connections or has no leader.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	for _, s := range c.Members() {
		if s.Addr() == address {
			return s.DialContext(ctx, network, address)
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotMember, address)
}

// Leader returns the member that leads a majority. The only error is [ErrNoLeader], if no member
// does.
func (c *Cluster) Leader() (*Server, error) {
	c.core.Lock()
	defer c.core.Unlock()
	if m := c.core.Leader(); m != nil {
		return c.servers[m], nil
	}
	return nil, ErrNoLeader
}

// WaitLeader waits until a member leads a majority, and returns it.
//
// Errors are
//   - ctx.Err() if ctx is done first;
//   - [ErrClosed] if the cluster is closed first.
func (c *Cluster) WaitLeader(ctx context.Context) (*Server, error) {
	m, err := c.core.WaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	c.core.Lock()
	defer c.core.Unlock()
	return c.servers[m], nil
}

// StopLeader stops the leader's process, and returns that member. All members cut their
// connections, and clients reconnect with their sessions after an election. Without a leader
// StopLeader returns [ErrNoLeader].
func (c *Cluster) StopLeader() (*Server, error) {
	leader, err := c.Leader()
	if err == nil {
		leader.Stop()
	}
	return leader, err
}

// Partition disconnects these members from all others, until [Cluster.Heal] or the next Partition.
// The listed members can still reach each other, and clients can reach all members. It returns
// [ErrNotMember] if a server is not a member.
//
// A member without a majority commits nothing, and serves old data until it detects the partition.
func (c *Cluster) Partition(members ...*Server) error {
	c.core.Lock()
	defer c.core.Release()
	var list []*cluster.Member
	for _, s := range members {
		if !c.has(s) {
			return ErrNotMember
		}
		list = append(list, s.member)
	}
	c.core.Part(list)
	for _, s := range c.servers {
		s.faults.apart(slices.Contains(members, s), len(list) > 0)
	}
	return nil
}

// Heal reconnects the members that [Cluster.Partition] has disconnected.
func (c *Cluster) Heal() {
	c.core.Lock()
	defer c.core.Release()
	c.core.Part(nil)
	for _, s := range c.servers {
		s.faults.apart(false, false)
	}
}

// has reports whether a server is a member. The lock is held.
func (c *Cluster) has(s *Server) bool { return s != nil && c.core.Has(s.member) }

// Lag sets how long after a commit member applies a transaction, instead of the random delay of
// [WithLag]. It applies to later transactions. Until then the member's clients see old data.
//
// Errors are
//   - [ErrNotMember] if member is not in the cluster;
//   - another error if d is negative.
func (c *Cluster) Lag(member *Server, d time.Duration) error {
	c.core.Lock()
	defer c.core.Unlock()
	switch {
	case !c.has(member):
		return ErrNotMember
	case d < 0:
		return fmt.Errorf("zktest: lag %v, must not be negative", d)
	}
	member.member.SetLag(d)
	return nil
}

// ExpireSession makes the leader expire a session now, as if its client were silent. Each member
// closes the session when it applies that transaction.
//
// Errors are
//   - [ErrNoLeader] without a leader;
//   - [ErrNoSession] if the leader does not know the session.
func (c *Cluster) ExpireSession(id int64) error {
	c.core.Lock()
	defer c.core.Release()
	c.cfg.Timeline.Add(time.Now(), timeline.Entry{Kind: timeline.Act, Lane: "test", What: "expire session " + timeline.SessionText(id)})
	return c.core.Expire(id)
}

// MemberOf returns the member to which the client of a session is connected. It returns
// [ErrNoSession] if no member has created the session yet, if the session was closed or has
// expired, or if its client is not connected.
func (c *Cluster) MemberOf(session int64) (*Server, error) {
	c.core.Lock()
	defer c.core.Unlock()
	var at *Server // the session may have moved, and an earlier member may not have noticed
	var last time.Time
	for _, m := range c.core.Members() {
		if conn, since := c.servers[m].core.ConnOf(session); conn != nil && (at == nil || since.After(last)) {
			at, last = c.servers[m], since
		}
	}
	if at == nil {
		return nil, ErrNoSession
	}
	return at, nil
}

// Add starts another member and adds it to the cluster by a reconfiguration. It returns when the
// configuration in which the member votes is committed. The new member does not inherit faults of
// other members.
//
// /zookeeper/config then lists the member's address.
//
// Errors are
//   - ctx.Err() and the member, if ctx is done first. The member may still become a voter: call
//     [Cluster.Remove] if it must not;
//   - [ErrClosed] if the cluster is closed;
//   - another error if the member cannot listen, or if the cluster has had 127 members already.
func (c *Cluster) Add(ctx context.Context) (*Server, error) {
	s, err := c.newMember()
	if err != nil {
		return nil, err
	}
	if len(c.Members()) > 0 {
		s.logf = c.Members()[0].logf
	}
	if err := s.listen("127.0.0.1:0"); err != nil {
		return nil, errors.Join(fmt.Errorf("zktest: %w", err), c.forget(s))
	}
	if err := c.core.Admit(s.member); err != nil {
		return nil, errors.Join(err, c.forget(s))
	}
	return s, c.core.Promote(ctx, s.member)
}

// Remove removes a member from the cluster by a reconfiguration. When that is committed, Remove
// closes the member and deletes its data. If the member was the leader, the other members elect
// one.
//
// Errors are
//   - ctx.Err() if ctx is done first. The member may still lose its vote: call Remove again;
//   - [ErrClosed] if the cluster is closed;
//   - [ErrNotMember] if the server is not a member;
//   - another error if the member is the last voter.
func (c *Cluster) Remove(ctx context.Context, s *Server) error {
	if s == nil || s.member == nil {
		return ErrNotMember
	}
	if err := c.core.Remove(ctx, s.member); err != nil {
		return err
	}
	return c.forget(s)
}

// Close stops all members, and waits for their goroutines. The error is always nil. A function
// passed to [Server.Trace] or [On] must not call Close.
func (c *Cluster) Close() error {
	c.end.Do(c.core.Close)
	c.core.Lock()
	servers := slices.SortedFunc(maps.Values(c.servers), func(a, b *Server) int { return a.member.Number - b.member.Number })
	c.core.Unlock()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	c.wg.Wait()
	return errors.Join(errs...)
}
