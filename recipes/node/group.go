package node

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/internal/follow"
)

// Member is our membership of a group: a kept node below the group's path, and a copy of all
// nodes there. It is Curator's GroupMember. Path, Set, Present and Err are those of our node.
//
// All methods are safe for concurrent use.
type Member struct {
	*Node
	id        string
	group     *cache.Cache
	seen      wait.Value[struct{}] // set at each change of the group, and at its end
	following sync.WaitGroup       // whoever sets seen
}

// Join makes the node id below the group's path, with payload as its data, keeps it there as
// [Keep] does, and follows the group. It returns when the node is there and the group has been
// read. A nil payload means the client's default data.
//
// The options [WithIfTaken], [WithoutParents] and [WithErrorPolicy] can be given. If there is a member with the same
// id, WithIfTaken decides: with [Fail], Join returns [ErrTaken]. Errors are those of [Keep], and zk.ErrNoAuth if the client may not
// read the group. After an error no node of ours stays.
func Join(ctx context.Context, client *framework.Client, path, id string, payload []byte, opts ...Option) (*Member, error) {
	cfg, err := configureMember(client, path, id, opts)
	if err != nil {
		return nil, follow.OpError("join", path, err)
	}
	n, err := keep(ctx, client, framework.Join(path, id), payload, cfg)
	if err != nil {
		return nil, follow.OpError("join", path, err)
	}
	m := &Member{Node: n, id: id}
	if m.group, err = cache.New(client, path, cache.WithDepth(1)); err == nil {
		m.following.Go(m.follow) // ends with the cache
		if err = m.group.Sync(ctx); err == nil {
			return m, nil
		}
		_ = m.group.Close()
	}
	n.shut() // deletes the node in the background
	return nil, follow.OpError("join", path, err)
}

func configureMember(client *framework.Client, path, id string, opts []Option) (config, error) {
	if id == "" || strings.Contains(id, "/") {
		return config{}, fmt.Errorf("%w: id %q", framework.ErrBadArgument, id)
	}
	if err := framework.ValidatePath(path); err != nil {
		return config{}, err
	}
	cfg, err := configure(client, framework.Join(path, id), opts)
	if err == nil && (cfg.protected || cfg.sequential || cfg.persistent) {
		err = fmt.Errorf("%w: a member is a plain ephemeral node", framework.ErrBadArgument)
	}
	return cfg, err
}

// Members returns the payloads of all members by their ids, as they were read last. They must not be changed. We are in it exactly while
// our node is there: see [Node.Present]. A member that this client may not read is left out.
//
// It never goes back in time. While there is no connection it may be out of date: see [Member.Current].
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
	case !s.present() && slices.Contains(s.sessions, own.Stat.EphemeralOwner):
		delete(members, m.id) // it goes or is about to, or we do not know yet that it is there
	}
	return members
}

// Current reports whether Members is up to date, and returns a channel that is closed when that may have changed: see
// [cache.Cache.Current]. It is false from a loss of the connection until the group has been read again, and while a change is being read.
func (m *Member) Current() (ok bool, changed <-chan struct{}) { return m.group.Current() }

// Changes yields the members, first as they are now and then after each change. A slow reader gets the newest state instead of every
// one. The last pair has an error, after which the loop ends: that of ctx, [framework.ErrEnded] or [framework.ErrClosed]. Any number of
// goroutines may have an iteration of their own.
func (m *Member) Changes(ctx context.Context) iter.Seq2[map[string][]byte, error] {
	return func(yield func(map[string][]byte, error) bool) {
		var last map[string][]byte
		for {
			_, theirs := m.seen.Get()
			_, ours := m.get()
			members := m.Members()
			switch end := m.ended(ctx); {
			case end != nil:
				yield(nil, follow.OpError("changes", m.group.Path(), end))
				return
			case last == nil || !maps.EqualFunc(last, members, bytes.Equal):
				last = maps.Clone(members)
				if !yield(members, nil) {
					return
				}
				continue
			}
			select {
			case <-ours:
			case <-theirs:
			case <-ctx.Done():
			}
		}
	}
}

// ended is why the group is not followed any more, or not by an iteration with ctx.
func (m *Member) ended(ctx context.Context) error {
	switch {
	case m.ctx.Err() != nil:
		return framework.ErrEnded
	case m.group.Err() != nil:
		return m.group.Err()
	case ctx.Err() != nil:
		return wait.Err(ctx)
	}
	return nil
}

// follow sets seen.
func (m *Member) follow() {
	defer m.seen.Set(func(*struct{}) {})
	for range m.group.Changes(context.Background()) {
		m.seen.Set(func(*struct{}) {})
	}
}

// ID is our id.
func (m *Member) ID() string { return m.id }

// Close leaves the group: it deletes our node, as [Node.Close] does, and ends what follows the group. It may
// be called again, and returns the same.
func (m *Member) Close() error {
	err := m.Node.Close()
	_ = m.group.Close() // it returns nil
	m.following.Wait()
	return err
}
