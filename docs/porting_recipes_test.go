package docs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

func TestRowsOfElections(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := within(t)
	e, err := leader.New(client, "/latch", leader.WithID("host-7"))
	require.NoError(t, err)
	require.Equal(t, "host-7", e.ID())
	_, err = e.Leader(ctx)
	require.ErrorIs(t, err, leader.ErrNoLeader)

	term, err := e.Campaign(ctx)
	require.NoError(t, err)
	require.NoError(t, term.Err())
	require.Equal(t, "host-7", term.ID())
	require.True(t, strings.HasPrefix(term.Path(), "/latch/_c_"))
	p, err := e.Leader(ctx)
	require.NoError(t, err)
	require.True(t, p.Leads)
	require.Equal(t, "host-7", p.ID)
	token, err := term.FencingToken(ctx)
	require.NoError(t, err)
	require.Equal(t, p.Token, token)
	_, err = client.Multi(ctx, term.Guard())
	require.NoError(t, err)

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = e.Campaign(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	all, err := e.Participants(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1, "who gave up has gone")
	require.NoError(t, term.Resign())
	require.Error(t, term.Context().Err())
	for state, err := range e.Observe(ctx) {
		require.NoError(t, err)
		require.False(t, state.Elected)
		break
	}
}

func TestRowsOfLeaderSelector(t *testing.T) {
	client := newClient(t, zktest.NewServer(t, zktest.WithTick(10*time.Millisecond)), framework.WithDefaultData([]byte("host:pid")))
	ctx := within(t)
	e, err := leader.New(client, "/selector", leader.AsSelector(), leader.WithErrorPolicy(connstate.Session))
	require.NoError(t, err)
	require.Equal(t, "host:pid", e.ID())
	failure := errors.New("failure")
	require.ErrorIs(t, e.Lead(ctx, func(context.Context, *leader.Term) error { return failure }), failure)

	m, err := mutex.New(client, "/selector")
	require.NoError(t, err)
	terms := 0
	err = e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
		terms++
		_, err := m.TryAcquire(ctx)
		require.ErrorIs(t, err, mutex.ErrNotAcquired, "a leader selector is a mutex")
		if terms < 3 {
			return nil // autoRequeue
		}
		return failure
	})
	require.ErrorIs(t, err, failure)
	require.Equal(t, 3, terms)
}

func TestRowsOfCaches(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := within(t)
	create := func(path, data string) {
		_, err := client.Create(ctx, path, []byte(data))
		require.NoError(t, err)
	}
	create("/tree", "{}")
	create("/tree/a", `{"n": 1}`)
	create("/tree/a/b", "")
	open := func(opts ...cache.Option) *cache.Cache {
		c, err := cache.New(client, "/tree", opts...)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.Sync(ctx))
		return c
	}
	count := func(c *cache.Cache) (n int) {
		for range c.All() {
			n++
		}
		require.Equal(t, n, c.Stats().Nodes)
		return n
	}
	require.Equal(t, 1, count(open(cache.Depth(0))))
	require.Equal(t, 2, count(open(cache.Depth(1), cache.StandardWatches())))
	require.Equal(t, 2, count(open(cache.Filter(func(path string) bool { return path != "/tree/a/b" }))))
	n, ok := open(cache.WithoutData()).Get("/tree/a")
	require.True(t, ok)
	require.Nil(t, n.Data)

	c := open()
	require.Equal(t, 3, count(c))
	require.Equal(t, "/tree", c.Path())
	for child := range c.Children("/tree") {
		require.Equal(t, "/tree/a", child.Path)
		require.Equal(t, `{"n": 1}`, string(child.Data))
		require.EqualValues(t, 0, child.Stat.Version)
	}
	fresh, _ := c.Fresh()
	require.True(t, fresh)
	values, err := cache.NewValues(c, cache.JSON[struct{ N int }])
	require.NoError(t, err)
	require.NotNil(t, values)

	var kinds []cache.Kind
	for ch := range c.Changes(ctx) {
		if ch.Path != "/tree/a/b" {
			continue
		}
		switch kinds = append(kinds, ch.Kind); ch.Kind {
		case cache.Created:
			require.Empty(t, ch.New.Data)
			_, err := client.Set(ctx, ch.Path, []byte("new"), -1)
			require.NoError(t, err)
		case cache.Changed:
			require.Empty(t, ch.Old.Data)
			require.Equal(t, "new", string(ch.New.Data))
			require.NoError(t, client.Delete(ctx, ch.Path, -1))
		case cache.Deleted:
			require.NoError(t, c.Close())
		}
	}
	require.Equal(t, []cache.Kind{cache.Created, cache.Changed, cache.Deleted}, kinds)
	require.Equal(t, 2, count(c), "the copy can be read after Close")
}

func TestRowsOfNodes(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithTTLNodes())
	client, other := newClient(t, server), newClient(t, server)
	ctx := within(t)
	n, err := node.Keep(ctx, client, "/kept", []byte("1"))
	require.NoError(t, err)
	require.Equal(t, "/kept", n.Path())
	there, _ := n.Present()
	require.True(t, there)
	require.NoError(t, n.Err())
	require.NoError(t, n.Set(ctx, []byte("2")))
	data, _, err := client.Get(ctx, "/kept")
	require.NoError(t, err)
	require.Equal(t, "2", string(data))

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = node.Keep(short, other, "/kept", nil, node.IfTaken(node.Wait))
	require.ErrorIs(t, err, node.ErrTaken)
	_, err = node.Keep(ctx, other, "/kept", nil, node.IfTaken(node.Fail))
	require.ErrorIs(t, err, node.ErrTaken)
	second, err := node.Keep(ctx, other, "/kept", []byte("3"), node.IfTaken(node.Replace))
	require.NoError(t, err)
	require.NoError(t, n.Close())
	require.NoError(t, second.Close())
	require.False(t, server.Exists("/kept"))

	for path, opts := range map[string][]node.Option{
		"/sequential": {node.Sequential(), node.WithoutParents()},
		"/persistent": {node.Persistent(), node.Protected()},
		"/ttl":        {node.WithTTL(time.Hour)},
	} {
		n, err := node.Keep(ctx, client, path, nil, opts...)
		require.NoError(t, err, path)
		require.NoError(t, n.Close())
	}
	require.True(t, server.Exists("/ttl"), "Close deletes nothing")

	_, err = client.Create(ctx, "/closed", nil, framework.ACL([]zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}))
	require.NoError(t, err)
	short, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = node.Keep(short, client, "/closed/n", nil)
	require.ErrorIs(t, err, zk.ErrNoAuth, "it is tried again, not given up")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestRowsOfGroups(t *testing.T) {
	server := zktest.NewServer(t)
	ctx := within(t)
	g, err := node.Join(ctx, newClient(t, server), "/group", "a", []byte("1"))
	require.NoError(t, err)
	defer g.Close()
	require.Contains(t, g.Members(), "a")
	require.NoError(t, g.Err())
	there, _ := g.Present()
	require.True(t, there)
	second, err := node.Join(ctx, newClient(t, server), "/group", "b", []byte("2"))
	require.NoError(t, err)
	for members := range g.Changes(ctx) {
		if string(members["b"]) == "3" {
			break
		}
		if len(members) == 2 {
			require.NoError(t, second.Set(ctx, []byte("3")))
		}
	}
	require.True(t, g.Fresh())
	require.NoError(t, second.Close())
	for members := range g.Changes(ctx) {
		if len(members) == 1 {
			break
		}
	}
}
