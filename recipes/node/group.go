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
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/recipes/cache"
)

// Member is a membership of a group: a kept node below the group's path, and a copy of all nodes
// there. It is Curator's GroupMember. All methods are safe for concurrent use.
//
// Path, Set, Present, Problem and Err are the methods of its node.
type Member struct {
	*Node
	id    string
	group *cache.Cache
}

// Join creates and keeps the node id below the group's path, and follows the group. It returns when
// the node exists and the group has been read. A nil payload means the client's default data.
//
// Options are [WithIfTaken], [WithoutParents] and [WithErrorPolicy]. If Join fails, its node is
// deleted.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with the obstacle, such as zk.ErrNoServer or
//     [ErrTaken];
//   - [ErrTaken] if the path is taken and [Fail] is given;
//   - [framework.ErrTooLong] if the data are too long for a request;
//   - zk.ErrNoAuth if the client is not permitted to read the group;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrShutdown], which wraps framework.ErrClosed, if the client shuts down;
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrBadArgument] if id is empty or contains a slash, the client is nil, or an
//     option is invalid.
func Join(ctx context.Context, client *framework.Client, path, id string, payload []byte, opts ...Option) (_ *Member, err error) {
	defer func() { err = operr.New("join", path, err) }()
	own := framework.Join(path, id)
	cfg, err := configure(client, own, opts)
	switch {
	case id == "" || strings.Contains(id, "/"):
		err = fmt.Errorf("%w: invalid id %q", framework.ErrBadArgument, id)
	case cfg.protected || cfg.sequential || cfg.persistent():
		err = fmt.Errorf("%w: a member must be a plain ephemeral node", framework.ErrBadArgument)
	}
	if err = cmp.Or(framework.ValidatePath(path), err); err != nil {
		return nil, err
	}
	m := &Member{id: id}
	if m.Node, err = Keep(ctx, client, own, payload, opts...); err != nil {
		return nil, err
	}
	changed := cache.WithOnChange(func(cache.Change) { m.now.Set(func(*status) {}) }) // for Changes
	if m.group, err = cache.New(client, path, cache.WithDepth(1), changed); err == nil {
		if err = m.group.Sync(ctx); err == nil {
			return m, nil
		}
		_ = m.group.Close()
	}
	m.shut() // deletes the node in the background
	return nil, err
}

// Members returns the payloads of all members by id, as they were last read. The caller must not
// modify them. Later calls never return an older state.
//
// This member is included exactly while it is present: see [Node.Present]. Members that this client
// is not permitted to read are omitted.
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
	case s.present() && own.Stat.Mzxid < s.shown.mzxid: // the copy lags behind
		members[m.id] = s.shown.data
	case !s.present() && slices.Contains(s.owners, own.Stat.EphemeralOwner):
		delete(members, m.id) // it is being deleted, or not yet known to exist
	}
	return members
}

// Current reports whether Members is up to date: it shows everything that this client's server has
// reported about the group. It is false without a connection, and between an event and the read of
// its node. The channel is closed when the result may have changed.
func (m *Member) Current() (ok bool, changed <-chan struct{}) { return m.group.Current() }

// Observe yields the members, and then the newest members after each change. The last pair contains
// an error.
//
// Errors are
//   - the error of ctx if ctx is done;
//   - [framework.ErrEnded] after [Member.Close] or [framework.Client.Shutdown];
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func (m *Member) Observe(ctx context.Context) iter.Seq2[map[string][]byte, error] {
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
				yield(nil, operr.New("observe", m.group.Path(), err))
				return
			}
			if last = maps.Clone(members); !yield(members, nil) {
				return
			}
		}
	}
}

// ID returns the id given to Join.
func (m *Member) ID() string { return m.id }

// Close leaves the group: it deletes the member's node and stops following the group. It returns
// when the server has confirmed the deletion, when the session has ended, or after 5 s. After 5 s
// the client continues to delete the node in the background.
//
// Later calls return the same error.
//
// Errors are
//   - the server's error if the server refuses the deletion, such as zk.ErrNoAuth;
//   - context.DeadlineExceeded if the deletion is not confirmed after 5 s, wrapped with
//     zk.ErrNoServer if the client is not connected.
func (m *Member) Close() error {
	err := m.Node.Close()
	_ = m.group.Close() // it returns nil
	return err
}
