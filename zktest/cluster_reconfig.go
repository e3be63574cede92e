package zktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Add starts another member and adds it to the cluster, as a reconfiguration of ZooKeeper does. The new member gets what the
// others have committed, follows the leader, and only then the leader proposes the configuration in which it votes. Add
// returns when that is committed. The new member has none of the faults of the others, and an address of its own, which
// /zookeeper/config names.
//
// Errors are those of ctx and of the network, [ErrClosed], and that of the 128th member in the life of a cluster. If ctx ends,
// the member that Add returns follows, and may become a voter later: call [Cluster.Remove] if it must not.
func (c *Cluster) Add(ctx context.Context) (*Server, error) {
	c.mu.Lock()
	m, err := c.newMember()
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := m.listen("127.0.0.1:0"); err != nil {
		return nil, errors.Join(fmt.Errorf("zktest: %w", err), m.Close())
	}
	c.mu.Lock()
	select {
	case <-c.done:
		c.mu.Unlock()
		return nil, errors.Join(ErrClosed, m.Close())
	default:
	}
	m.copyOf(slices.MaxFunc(c.members, func(a, b *member) int { return a.applied - b.applied }))
	c.members = append(slices.Clone(c.members), m)
	c.elect() // it finds the leader
	c.unlock()
	return m.Server, c.reconfigure(ctx, m, true)
}

// Remove takes a member out of the cluster by a reconfiguration, and ends it when that is committed, see [Server.Close]. Its data
// are gone. If it led, the others elect another leader.
//
// Errors are those of ctx, [ErrClosed], [ErrNotMember], and that of the last voter. If ctx ends, the member
// may lose its vote later, and runs on: call Remove again.
func (c *Cluster) Remove(ctx context.Context, s *Server) error {
	c.mu.Lock()
	has, last := c.has(s), len(c.voters) == 1 && c.has(s) && c.voters[0] == s.member
	c.mu.Unlock()
	switch {
	case !has:
		return ErrNotMember
	case last:
		return errors.New("zktest: the last voter cannot be removed")
	}
	if err := c.reconfigure(ctx, s.member, false); err != nil {
		return err
	}
	c.mu.Lock()
	c.members = slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m == s.member })
	c.unlock()
	return s.Close()
}

// voters are the members that a configuration of the cluster counts. A list is replaced, not changed.
type voters []*member

// majority reports whether has selects more than half of them.
func (v voters) majority(has func(*member) bool) bool {
	n := 0
	for _, m := range v {
		if has(m) {
			n++
		}
	}
	return n > len(v)/2
}

// newMember makes a member, which does not listen yet. c.mu is held, as in all that follows if nothing else is said.
func (c *Cluster) newMember() (*member, error) {
	if c.made == maxMembers {
		return nil, fmt.Errorf("zktest: a cluster has at most %d members in its life", maxMembers)
	}
	c.made++
	s := newServer(c.cfg, int64(c.made), c.shared)
	s.addr = fmt.Sprintf("127.0.0.1:%d", 2180+c.made)
	s.member = &member{Server: s, cluster: c, number: c.made, touched: make(map[int64]touch), resuming: make(map[int64]*call)}
	if len(c.members) > 0 {
		s.logf = c.members[0].logf
	}
	return s.member, nil
}

// copyOf gives a member that has nothing what another one has applied, as the snapshot of a leader does.
func (m *member) copyOf(other *member) {
	m.tree, m.applied = other.tree.clone(), other.applied
	for id, sess := range other.sessions {
		m.sessions[id] = &session{id: id, began: sess.began, timeout: sess.began}
	}
}

// clone is a copy that shares what is replaced and never changed: data and access lists.
func (t *tree) clone() *tree {
	copied := &tree{
		nodes: make(map[string]*node), ephemerals: make(map[int64]map[string]struct{}), reapable: make(map[string]*node), cfg: t.cfg, zxid: t.zxid,
	}
	for path, n := range t.nodes {
		other := *n
		other.children = slices.Clone(n.children)
		copied.nodes[path] = &other
	}
	for owner, paths := range t.ephemerals {
		copied.ephemerals[owner] = maps.Clone(paths)
	}
	for path := range t.reapable {
		copied.reapable[path] = copied.nodes[path]
	}
	return copied
}

// reconfigure has the leader propose a configuration with a member or without it, until one is committed. A proposal that is lost with
// its leader is made again. The lock is not held.
func (c *Cluster) reconfigure(ctx context.Context, m *member, in bool) error {
	again := time.NewTicker(c.cfg.tick)
	defer again.Stop()
	for {
		c.mu.Lock()
		if slices.Contains(c.voters, m) == in && (in || !slices.ContainsFunc(c.members, (*member).reconfigures)) {
			c.mu.Unlock()
			return nil
		}
		if t := c.term; c.led() && !t.leader.reconfigures() && (!in || m.term == t) {
			next := slices.DeleteFunc(slices.Clone(c.voters), func(v *member) bool { return v == m })
			if in {
				next = append(next, m)
			}
			t.receive(&entry{voters: next, edit: func(x *txn) proto.Code { return x.setConfig(next) }})
		}
		changed := c.changed
		c.unlock()
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

// reconfigures reports whether a configuration is in the member's log that is not committed, and may become so.
func (m *member) reconfigures() bool {
	committed := m.cluster.zxidOf(m.cluster.committed())
	return slices.ContainsFunc(m.tail, func(e *entry) bool { return e.voters != nil && e.zxid > committed })
}

// adopt makes the configuration of a committed entry that of the cluster, if it has one.
func (c *Cluster) adopt(e *entry) {
	if e.voters != nil {
		c.voters = e.voters
		c.announce()
	}
}

// setConfig writes a configuration to the node where clients read it.
func (x *txn) setConfig(v voters) proto.Code {
	path, text := v.config(x.tree.cfg, x.zxid)
	if path == "" {
		return proto.OK
	}
	_, code := x.setData(path, []byte(text), -1, everyRight)
	if code == proto.OK && x.tree.cfg.keeper == 0 {
		x.tree.nodes[path].stat.Version = configVersion
	}
	return code
}

// configVersion is the version in the stat of ZooKeeper's configuration, whichever it is: its text has the one that counts.
const configVersion = -1

// config is a configuration as clients read it, and where they do; there is none on an old Keeper.
func (v voters) config(cfg config, version int64) (path, text string) {
	var lines []string
	switch {
	case cfg.keeper == KeeperOld:
		return "", ""
	case cfg.keeper != 0:
		for _, m := range v {
			lines = append(lines, keeperLine(m.number, m.addr))
		}
		return "/keeper/config", strings.Join(lines, "\n")
	}
	for _, m := range v {
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:2888:3888:participant;%s", m.number, m.addr))
	}
	return "/zookeeper/config", strings.Join(append(lines, fmt.Sprintf("version=%x", version)), "\n")
}
