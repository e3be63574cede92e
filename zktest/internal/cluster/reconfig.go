package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/tree"
)

// voters are the members that a configuration of the cluster counts. A list is replaced, not
// changed.
type voters []*Member

// majority reports whether has selects more than half of the voters.
func (v voters) majority(has func(*Member) bool) bool {
	n := 0
	for _, m := range v {
		if has(m) {
			n++
		}
	}
	return n > len(v)/2
}

// config returns a configuration as clients read it, and the path at which they do. An old Keeper
// has none.
func (v voters) config(rules tree.Rules, version int64) (path, text string) {
	var lines []string
	switch {
	case rules.Keeper == tree.KeeperOld:
		return "", ""
	case rules.Keeper != 0:
		for _, m := range v {
			lines = append(lines, KeeperLine(m.Number, m.host.Address()))
		}
		return "/keeper/config", strings.Join(lines, "\n")
	}
	for _, m := range v {
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:2888:3888:participant;%s", m.Number, m.host.Address()))
	}
	return "/zookeeper/config", strings.Join(append(lines, fmt.Sprintf("version=%x", version)), "\n")
}

// KeeperLine returns the line for a server in the configuration of a ClickHouse Keeper.
func KeeperLine(number int, addr string) string {
	return fmt.Sprintf("server.%d=%s;participant;1", number, addr)
}

// Admit adds a member without a vote. It copies the most advanced member's state, and follows the
// leader. The lock must not be held.
func (c *Cluster) Admit(m *Member) error {
	c.Lock()
	defer c.Release()
	select {
	case <-c.done:
		return ErrClosed
	default:
	}
	m.copyOf(slices.MaxFunc(c.members, func(a, b *Member) int { return a.applied - b.applied }))
	c.members = append(slices.Clone(c.members), m)
	c.elect() // it finds the leader
	return nil
}

// Promote makes an admitted member a voter. If ctx is done first, it returns ctx.Err(), but the
// member may still become a voter. The lock must not be held.
func (c *Cluster) Promote(ctx context.Context, m *Member) error { return c.reconfigure(ctx, m, true) }

// Remove removes a member from the cluster by a reconfiguration. It returns ErrNotMember if it is
// not in the cluster, and another error if it is the last voter. The lock must not be held.
func (c *Cluster) Remove(ctx context.Context, m *Member) error {
	c.Lock()
	has, last := c.Has(m), len(c.voters) == 1 && c.voters[0] == m
	c.Unlock()
	switch {
	case !has:
		return ErrNotMember
	case last:
		return errors.New("zktest: cannot remove the last voter")
	}
	if err := c.reconfigure(ctx, m, false); err != nil {
		return err
	}
	c.Lock()
	defer c.Release()
	c.members = slices.DeleteFunc(slices.Clone(c.members), func(other *Member) bool { return other == m })
	return nil
}

// copyOf copies the applied state of another member to a new member, like the snapshot of a leader.
func (m *Member) copyOf(other *Member) {
	m.Tree, m.applied = other.Tree.Clone(), other.applied
	for id, sess := range other.Sessions {
		m.Sessions[id] = &Session{ID: id, began: sess.began, Timeout: sess.began}
	}
}

// reconfigure makes the leader propose a configuration with a member or without it, until one is
// committed. A proposal that is lost with its leader is repeated. The lock is not held.
func (c *Cluster) reconfigure(ctx context.Context, m *Member, in bool) error {
	again := time.NewTicker(c.cfg.Tick)
	defer again.Stop()
	for {
		c.Lock()
		if c.configured(m, in) {
			c.Unlock()
			return nil
		}
		c.propose(m, in)
		changed := c.changed
		c.Release()
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return ErrClosed
		}
	}
}

// configured reports whether a member is a voter, or certainly none any more.
func (c *Cluster) configured(m *Member, in bool) bool {
	return slices.Contains(c.voters, m) == in && (in || !slices.ContainsFunc(c.members, (*Member).reconfigures))
}

// propose makes the leader propose a configuration with a member or without it, if it can now.
func (c *Cluster) propose(m *Member, in bool) {
	t := c.term
	if !c.led() || t.leader.reconfigures() || in && m.term != t {
		return
	}
	next := slices.DeleteFunc(slices.Clone(c.voters), func(v *Member) bool { return v == m })
	if in {
		next = append(next, m)
	}
	t.receive(&Entry{Request: tree.Request{Edit: next.write}, voters: next})
}

// write writes the configuration to the node where clients read it.
func (v voters) write(x *tree.Txn) proto.Code {
	path, text := v.config(x.Tree.Rules, x.Zxid)
	if path == "" {
		return proto.OK
	}
	return x.SetConfig(path, text)
}

// reconfigures reports whether the member's log has a configuration that is not committed, and may
// become so.
func (m *Member) reconfigures() bool {
	committed := m.cluster.zxidOf(m.cluster.committed())
	return slices.ContainsFunc(m.tail, func(e *Entry) bool { return e.voters != nil && e.Zxid > committed })
}

// adopt sets the configuration of the cluster to the one in a committed entry, if it has one.
func (c *Cluster) adopt(e *Entry) {
	if e.voters != nil {
		c.voters = e.voters
		c.announce()
	}
}
