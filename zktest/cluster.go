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

	"github.com/gocurator/curator/zktest/internal/cluster"
)

// ErrNoLeader means that no member of the cluster leads a majority.
var ErrNoLeader = cluster.ErrNoLeader

// ErrNotMember means that a server is not a member of the cluster.
var ErrNotMember = cluster.ErrNotMember

// Cluster is several servers in this process that behave as a ZooKeeper ensemble does towards its
// clients. The package comment lists what a client may rely on.
//
// All methods are safe for concurrent use.
type Cluster struct {
	core    *cluster.Cluster
	cfg     config
	wg      sync.WaitGroup
	end     sync.Once
	servers map[*cluster.Member]*Server // guarded by the core's lock
}

// NewCluster starts a cluster of n members for a test, and closes it when the test ends. A failure
// fails the test.
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
		if err := c.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return c
}

// StartCluster starts a cluster of n members, one of them the leader. The caller must call
// [Cluster.Close]. Errors are an invalid n, invalid options and errors of the network.
func StartCluster(n int, opts ...Option) (*Cluster, error) {
	if n < 1 || n > cluster.MaxMembers {
		return nil, fmt.Errorf("zktest: a cluster of %d members: must be 1 to %d", n, cluster.MaxMembers)
	}
	cfg, err := configure(append([]Option{func(c *config) error { c.addr = ""; return nil }}, opts...))
	if err != nil {
		return nil, err
	}
	if cfg.addr != "" {
		return nil, errors.New("zktest: WithAddr is not for a cluster: each member has an address of its own")
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

// Members returns the members, in a fixed order. Members of [Cluster.Add] are last.
func (c *Cluster) Members() []*Server {
	c.core.Lock()
	defer c.core.Unlock()
	var list []*Server
	for _, m := range c.core.Members() {
		list = append(list, c.servers[m])
	}
	return list
}

// Servers returns the members' addresses.
func (c *Cluster) Servers() []string {
	var list []string
	for _, s := range c.Members() {
		list = append(list, s.Addr())
	}
	return list
}

// DialContext connects to the member with this address without a network, like
// net.Dialer.DialContext. It fails while the member is stopped, refuses connections or has no
// leader.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	for _, s := range c.Members() {
		if s.Addr() == address {
			return s.DialContext(ctx, network, address)
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotMember, address)
}

// Leader returns the member that leads a majority. The error is [ErrNoLeader].
func (c *Cluster) Leader() (*Server, error) {
	c.core.Lock()
	defer c.core.Unlock()
	if m := c.core.Leader(); m != nil {
		return c.servers[m], nil
	}
	return nil, ErrNoLeader
}

// WaitLeader waits for a leader of a majority, and returns it. Errors are the error of ctx, and
// [ErrClosed].
func (c *Cluster) WaitLeader(ctx context.Context) (*Server, error) {
	m, err := c.core.WaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	c.core.Lock()
	defer c.core.Unlock()
	return c.servers[m], nil
}

// StopLeader stops the leader, as [Server.Stop] does, and returns it. The error is [ErrNoLeader] if
// there is no leader.
func (c *Cluster) StopLeader() (*Server, error) {
	leader, err := c.Leader()
	if err == nil {
		leader.Stop()
	}
	return leader, err
}

// Partition cuts these members off from all others, until [Cluster.Heal] or the next partition.
// The listed members can still reach each other, and clients can reach all members. The error is
// [ErrNotMember] if a server is not a member.
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
	return nil
}

// Heal ends [Cluster.Partition].
func (c *Cluster) Heal() {
	c.core.Lock()
	defer c.core.Release()
	c.core.Part(nil)
}

// has reports whether a server is a member. The lock is held.
func (c *Cluster) has(s *Server) bool { return s != nil && c.core.Has(s.member) }

// Lag sets the delay between a commit and its application by member, instead of the random time of
// [WithLag]. It applies to later transactions. It returns [ErrNotMember] if member is not in the
// cluster, and another error if d is negative.
func (c *Cluster) Lag(member *Server, d time.Duration) error {
	c.core.Lock()
	defer c.core.Unlock()
	switch {
	case !c.has(member):
		return ErrNotMember
	case d < 0:
		return fmt.Errorf("zktest: lag %v is negative", d)
	}
	member.member.SetLag(d)
	return nil
}

// ExpireSession makes the leader expire a session now, as if its client were silent. Each member
// ends the session when it applies that. Errors are [ErrNoLeader], and [ErrNoSession] if the leader
// does not know the session.
func (c *Cluster) ExpireSession(id int64) error {
	c.core.Lock()
	defer c.core.Release()
	return c.core.Expire(id)
}

// MemberOf returns the member to which the client of a session is connected. The error is
// [ErrNoSession] if the session has ended, its client is not connected, or no member has applied
// the beginning of the session.
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

// Add starts another member, without the faults of the others, and adds it to the cluster as a
// reconfiguration does. It returns when the configuration in which the member votes is committed.
// /zookeeper/config then has the member's address.
//
// Errors are the error of ctx, an error of the network, [ErrClosed], and one for the 128th member
// in the life of a cluster. If ctx ends, Add also returns the member, which may become a voter
// later: call [Cluster.Remove] if it must not.
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

// Remove removes a member from the cluster, and closes it and deletes its data when that is
// committed. If it was the leader, the others elect one.
//
// Errors are the error of ctx, [ErrClosed], [ErrNotMember], and one for the last voter. If ctx
// ends, the member may still lose its vote later: call Remove again.
func (c *Cluster) Remove(ctx context.Context, s *Server) error {
	if s == nil || s.member == nil {
		return ErrNotMember
	}
	if err := c.core.Remove(ctx, s.member); err != nil {
		return err
	}
	return c.forget(s)
}

// Close closes all members: see [Server.Close].
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
