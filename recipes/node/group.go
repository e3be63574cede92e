package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/internal/follow"
)

// Member is our membership of a group: a kept node below the group's path, and a copy of all nodes there. It is Curator's GroupMember.
// Path, Set, Present and Err are those of our node.
//
// All methods are safe for concurrent use.
type Member struct {
	*Node
	id    string
	group *cache.Cache
}

// Join makes the node id below the group's path, with payload as its data, keeps it there as [Keep] does, and follows the group. It returns
// when the node is there and the group has been read. A nil payload means the client's default data.
//
// The options [WithIfTaken], which is for a member with the same id, [WithoutParents] and [WithErrorPolicy] can be given. Errors are those
// of [Keep], and zk.ErrNoAuth if the client may not read the group. After an error no node of ours stays.
func Join(ctx context.Context, client *framework.Client, path, id string, payload []byte, opts ...Option) (_ *Member, err error) {
	defer func() { err = follow.OpError("join", path, err) }()
	own := framework.Join(path, id)
	cfg, err := configure(client, own, opts)
	switch {
	case id == "" || strings.Contains(id, "/"):
		err = fmt.Errorf("%w: id %q", framework.ErrBadArgument, id)
	case cfg.protected || cfg.sequential || cfg.persistent():
		err = fmt.Errorf("%w: a member is a plain ephemeral node", framework.ErrBadArgument)
	}
	if err = cmp.Or(framework.ValidatePath(path), err); err != nil {
		return nil, err
	}
	m := &Member{id: id}
	if m.Node, err = Keep(ctx, client, own, payload, opts...); err != nil {
		return nil, err
	}
	changed := cache.OnChange(func(cache.Change) { m.now.Set(func(*status) {}) }) // for Changes
	if m.group, err = cache.New(client, path, cache.WithDepth(1), changed); err == nil {
		if err = m.group.Sync(ctx); err == nil {
			return m, nil
		}
		_ = m.group.Close()
	}
	m.shut() // deletes the node in the background
	return nil, err
}

// Members returns the payloads of all members by their ids, as they were read last. They must not be changed. We are in it exactly while
// our node is there: see [Node.Present]. A member that this client may not read is left out. It never goes back in time.
func (m *Member) Members() map[string][]byte {
	s := m.status()
	members := make(map[string][]byte)
	var own cache.Node
	for n := range m.group.Children(m.group.Path()) {
		_, id := framework.Split(n.Path)
		members[id] = n.Data
		if id == m.id {
			own = n
		}
	}
	switch {
	case s.present() && own.Stat.Mzxid < s.shown.mzxid: // the copy follows
		members[m.id] = s.shown.data
	case !s.present() && slices.Contains(s.owners, own.Stat.EphemeralOwner):
		delete(members, m.id) // it goes or is about to, or we do not know yet that it is there
	}
	return members
}

// Current reports whether Members is up to date, and returns a channel that is closed when that may have changed: see
// [cache.Cache.Current]. It is false from a loss of the connection until the group has been read again, and while a change is being read.
func (m *Member) Current() (ok bool, changed <-chan struct{}) { return m.group.Current() }

// Changes yields the members, first as they are now and then after each change. A slow reader gets the newest state instead of every
// one. The last pair has an error, after which the loop ends: that of ctx, [framework.ErrEnded] or [framework.ErrClosed].
func (m *Member) Changes(ctx context.Context) iter.Seq2[map[string][]byte, error] {
	return func(yield func(map[string][]byte, error) bool) {
		var last map[string][]byte
		for {
			var members map[string][]byte
			s, err := m.now.Until(ctx, func(s status) bool {
				members = m.Members()
				return s.over() || ctx.Err() == nil && (last == nil || !maps.EqualFunc(last, members, bytes.Equal))
			})
			if s.over() {
				err = s.err
			}
			if err != nil {
				yield(nil, follow.OpError("changes", m.group.Path(), err))
				return
			}
			if last = maps.Clone(members); !yield(members, nil) {
				return
			}
		}
	}
}

// ID is our id.
func (m *Member) ID() string { return m.id }

// Close leaves the group: it is [Node.Close] of our node, and ends what follows the group.
func (m *Member) Close() error {
	err := m.Node.Close()
	_ = m.group.Close() // it returns nil
	return err
}
