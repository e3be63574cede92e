package node

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/cache"
)

// Member is our membership of a group: a kept node below the group's path, and a copy of all
// nodes there. It is Curator's GroupMember.
//
// All methods are safe for concurrent use.
type Member struct {
	node  *Node
	id    string
	group *cache.Cache
	seen  wait.Value[int] // how many changes of the group there were
	over  chan struct{}   // closed when there will be no more
}

// Join makes the node id below the group's path, with payload as its data, keeps it there as
// [Keep] does, and follows the group. It returns when the node is there and the group has been
// read. A nil payload means the client's default data.
//
// The options [IfTaken], [WithoutParents] and [WithErrorPolicy] can be given. If there is a member with the same
// id, IfTaken decides: with [Fail], Join returns [ErrTaken]. Errors are those of [Keep], and zk.ErrNoAuth if the client may not
// read the group. After an error no node of ours stays.
func Join(ctx context.Context, client *framework.Client, path, id string, payload []byte, opts ...Option) (*Member, error) {
	if err := checkMember(client, path, id, opts); err != nil {
		return nil, failed("join", path, err)
	}
	n, err := Keep(ctx, client, framework.Join(path, id), payload, opts...)
	if err != nil {
		return nil, err
	}
	group, err := cache.New(client, path, cache.Depth(1))
	if err != nil {
		n.shut() // deletes the node in the background
		return nil, failed("join", path, err)
	}
	if err := group.Sync(ctx); err != nil {
		n.shut()
		_ = group.Close()
		if op, ok := err.(*framework.OpError); ok {
			err = op.Err
		}
		return nil, failed("join", path, err)
	}
	m := &Member{node: n, id: id, group: group, over: make(chan struct{})}
	go func() { // ends with the cache
		defer close(m.over)
		for range group.Changes(context.Background()) {
			m.seen.Set(func(changes *int) { *changes++ })
		}
	}()
	return m, nil
}

func checkMember(client *framework.Client, path, id string, opts []Option) error {
	cfg, err := configure(client, path, opts)
	switch {
	case err != nil && path != "/":
		return err
	case cfg.protected || cfg.sequential || cfg.persistent:
		return fmt.Errorf("%w: a member is a plain ephemeral node", framework.ErrBadArgument)
	case id == "" || strings.Contains(id, "/"):
		return fmt.Errorf("%w: id %q", framework.ErrBadArgument, id)
	}
	return nil
}

// Members returns the payloads of all members by their ids, as they were read last. We are in it exactly while our
// node is there: see [Member.Present]. A member that this client may not read is left out.
//
// It never goes back in time. While there is no connection it may be out of date: see [Member.Fresh].
func (m *Member) Members() map[string][]byte {
	members, _, _ := m.snapshot()
	return members
}

// Fresh reports whether Members is up to date: see [cache.Cache.Current]. It is false from a loss of the connection until the
// group has been read again, and while a change is being read.
func (m *Member) Fresh() bool {
	fresh, _ := m.group.Current()
	return fresh
}

// Changes yields the members, first as they are now and then after each change, until ctx is done, or the
// membership or the client is closed. A slow reader gets the newest state instead of every one. Any
// number of goroutines may have an iteration of their own.
func (m *Member) Changes(ctx context.Context) iter.Seq[map[string][]byte] {
	return func(yield func(map[string][]byte) bool) {
		var last map[string][]byte
		for ctx.Err() == nil && m.node.ctx.Err() == nil {
			members, ours, theirs := m.snapshot()
			if last == nil || !maps.EqualFunc(last, members, bytes.Equal) {
				last = members
				if !yield(copied(members)) {
					return
				}
				continue
			}
			select {
			case <-ours:
			case <-theirs:
			case <-m.over:
				return
			case <-m.node.ctx.Done():
			case <-ctx.Done():
			}
		}
	}
}

// Set changes our payload: see [Node.Set].
func (m *Member) Set(ctx context.Context, payload []byte) error { return m.node.Set(ctx, payload) }

// Present reports whether we are a member: see [Node.Present].
func (m *Member) Present() (there bool, changed <-chan struct{}) { return m.node.Present() }

// Err says why we are not a member: see [Node.Err].
func (m *Member) Err() error { return m.node.Err() }

// ID is our id.
func (m *Member) ID() string { return m.id }

// Close leaves the group: it deletes our node, as [Node.Close] does, and ends what follows the group. It may
// be called again, and returns the same.
func (m *Member) Close() error {
	err := m.node.Close()
	_ = m.group.Close() // it returns nil
	<-m.over
	return err
}

// snapshot is who is in the group, and channels that are closed when that may have changed: because of
// us, or of the others.
func (m *Member) snapshot() (members map[string][]byte, ours, theirs <-chan struct{}) {
	_, theirs = m.seen.Get()
	s, ours := m.node.now.Get()
	members = make(map[string][]byte)
	var own cache.Node
	for n := range m.group.Children(m.group.Path()) {
		_, id := framework.Split(n.Path)
		members[id] = slices.Clone(n.Data)
		if id == m.id {
			own = n
		}
	}
	switch {
	case s.present && own.Stat.Mzxid < s.shown.mzxid: // the copy follows
		members[m.id] = slices.Clone(s.shown.data)
	case !s.present && s.sessions[own.Stat.EphemeralOwner]:
		delete(members, m.id) // it goes or is about to, or we do not know yet that it is there
	}
	return members, ours, theirs
}

// copied is for somebody who may change it.
func copied(members map[string][]byte) map[string][]byte {
	c := make(map[string][]byte, len(members))
	for id, payload := range members {
		c[id] = slices.Clone(payload)
	}
	return c
}
