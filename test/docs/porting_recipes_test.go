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
	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestRows_Elections(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	e := testbed.Must(leader.New(client, "/latch", leader.WithID("host-7")))
	require.Equal(t, "host-7", e.ID())
	require.ErrorIs(t, testbed.Err(e.Leader(ctx)), leader.ErrNoLeader)

	term := testbed.Must(e.Campaign(ctx))
	require.NoError(t, term.Err())
	require.Equal(t, "host-7", term.ID())
	require.True(t, strings.HasPrefix(term.Path(), "/latch/_c_"))
	p := testbed.Must(e.Leader(ctx))
	require.True(t, p.Leads)
	require.Equal(t, "host-7", p.ID)
	require.Equal(t, p.Token, testbed.Must(term.FencingToken(ctx)))
	testbed.Must(client.Multi(ctx, term.Guard()))

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, testbed.Err(e.Campaign(short)), context.DeadlineExceeded)
	require.Len(t, testbed.Must(e.Participants(ctx)), 1, "who gave up has gone")
	require.NoError(t, term.Release())
	require.Error(t, term.Context().Err())
	for state, err := range e.Observe(ctx) {
		require.NoError(t, err)
		require.False(t, state.Elected)
		break
	}
}

func TestRows_LeaderSelector(t *testing.T) {
	client := newClient(t, zktest.NewServer(t, zktest.WithProperties(map[string]string{"tickTime": "10"})), framework.WithDefaultData([]byte("host:pid")))
	ctx := testbed.Context(t)
	e, err := leader.New(client, "/selector", leader.WithSelector(), leader.WithErrorPolicy(connstate.LostEndsHold))
	require.NoError(t, err)
	require.Equal(t, "host:pid", e.ID())
	failure := errors.New("failure")
	require.ErrorIs(t, e.Lead(ctx, func(context.Context, *leader.Term) error { return failure }), failure)

	m := testbed.Must(mutex.New(client, "/selector"))
	terms := 0
	err = e.Run(ctx, func(in context.Context, term *leader.Term) error {
		terms++
		require.ErrorIs(t, testbed.Err(m.TryAcquire(ctx)), lock.ErrNotAcquired, "a leader selector is a mutex")
		require.ErrorIs(t, testbed.Err(m.TryAcquire(in)), lock.ErrHeld, "the caller leads")
		if terms < 3 {
			return nil // autoRequeue
		}
		return failure
	})
	require.ErrorIs(t, err, failure)
	require.Equal(t, 3, terms)
}

func TestRows_Caches(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	create := func(path, data string) {
		testbed.Create(t, client, path, []byte(data))
	}
	create("/tree", "{}")
	create("/tree/a", `{"n": 1}`)
	create("/tree/a/b", "")
	open := func(opts ...cache.Option) *cache.Cache {
		c := testbed.Must(cache.New(client, "/tree", opts...))
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
	require.Equal(t, 1, count(open(cache.WithDepth(0))))
	require.Equal(t, 2, count(open(cache.WithDepth(1))))
	require.Equal(t, 2, count(open(cache.WithFilter(func(path string) bool { return path != "/tree/a/b" }))))
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
	testbed.Eventually(t, func() bool { fresh, _ := c.Current(); return fresh }, "the cache is current")
	require.NotNil(t, testbed.Must(cache.NewValues(c, cache.JSON[struct{ N int }])))

	var kinds []cache.Kind
	loaded := false
	for ch, err := range c.Changes(ctx) {
		if err != nil {
			require.ErrorIs(t, err, framework.ErrEnded)
			break
		}
		if ch.Kind == cache.Loaded {
			loaded = true
		}
		if ch.Path != "/tree/a/b" {
			continue
		}
		switch kinds = append(kinds, ch.Kind); ch.Kind {
		case cache.Created:
			require.Empty(t, ch.New.Data)
			testbed.Set(t, client, ch.Path, []byte("new"))
		case cache.Changed:
			require.Empty(t, ch.Old.Data)
			require.Equal(t, "new", string(ch.New.Data))
			require.NoError(t, client.Delete(ctx, ch.Path))
		case cache.Deleted:
			require.NoError(t, c.Close())
		}
	}
	require.Equal(t, []cache.Kind{cache.Created, cache.Changed, cache.Deleted}, kinds)
	require.True(t, loaded)
	require.Equal(t, 2, count(c), "the copy can be read after Close")
}

func TestRows_Nodes(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	client, other := newClient(t, server), newClient(t, server)
	ctx := testbed.Context(t)
	n := testbed.Must(node.Keep(ctx, client, "/kept", []byte("1")))
	require.Equal(t, "/kept", n.Path())
	there, _ := n.Present()
	require.True(t, there)
	require.NoError(t, n.Problem())
	require.NoError(t, n.Set(ctx, []byte("2")))
	require.Equal(t, "2", testbed.Get(t, client, "/kept"))

	_ = patiently(t, ctx, node.ErrTaken, func(short context.Context) error {
		_, err := node.Keep(short, other, "/kept", nil, node.WithIfTaken(node.Wait))
		return err
	})
	require.ErrorIs(t, testbed.Err(node.Keep(ctx, other, "/kept", nil, node.WithIfTaken(node.Fail))), node.ErrTaken)
	second := testbed.Must(node.Keep(ctx, other, "/kept", []byte("3"), node.WithIfTaken(node.Replace)))
	require.NoError(t, n.Close())
	require.NoError(t, second.Close())
	require.False(t, server.Exists("/kept"))

	for path, opts := range map[string][]node.Option{
		"/sequential": {node.WithSequence(), node.WithProtection(), node.WithoutParents()},
		"/persistent": {node.WithPersistence(), node.WithProtection()},
		"/ttl":        {node.WithTTL(time.Hour)},
	} {
		n, err := node.Keep(ctx, client, path, nil, opts...)
		require.NoError(t, err, path)
		require.NoError(t, n.Close())
	}
	require.True(t, server.Exists("/ttl"), "Close deletes nothing")

	testbed.Create(t, client, "/closed", nil, framework.ACL([]zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}))
	err := patiently(t, ctx, zk.ErrNoAuth, func(short context.Context) error {
		_, err := node.Keep(short, client, "/closed/n", nil)
		return err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded, "it is tried again, not given up")
}

func TestRows_Groups(t *testing.T) {
	server := zktest.NewServer(t)
	ctx := testbed.Context(t)
	g := testbed.Must(node.Join(ctx, newClient(t, server), "/group", "a", []byte("1")))
	defer g.Close()
	require.Contains(t, g.Members(), "a")
	require.NoError(t, g.Problem())
	there, _ := g.Present()
	require.True(t, there)
	second := testbed.Must(node.Join(ctx, newClient(t, server), "/group", "b", []byte("2")))
	for members, err := range g.Observe(ctx) {
		require.NoError(t, err)
		if string(members["b"]) == "3" {
			break
		}
		if len(members) == 2 {
			require.NoError(t, second.Set(ctx, []byte("3")))
		}
	}
	testbed.Eventually(t, func() bool { current, _ := g.Current(); return current }, "the group is current")
	require.NoError(t, second.Close())
	for members, err := range g.Observe(ctx) {
		require.NoError(t, err)
		if len(members) == 1 {
			break
		}
	}
}

func TestRows_ServiceDiscovery(t *testing.T) {
	type Meta struct{ Zone string }
	client := newClient(t, zktest.NewServer(t))
	ctx := testbed.Context(t)
	d, err := discovery.New[Meta](client, "/services", discovery.WithJavaClass("com.example.Meta"),
		discovery.WithPaths(func(name string) string { return "/services/" + name }), // which is the default
		discovery.WithEnabledField(), discovery.WithDownAfter(2, 30*time.Second), discovery.WithGrace(0))
	require.NoError(t, err)
	spec := testbed.Must(discovery.ParseURISpec("{scheme}://{address}:{port}"))
	i := discovery.Instance[Meta]{Name: "orders", Address: "10.0.0.7", Port: 8080, URISpec: spec}
	for _, kind := range []discovery.Type{discovery.Dynamic, discovery.Static, discovery.DynamicSequential} {
		i.Type = kind
		reg := testbed.Must(d.Register(ctx, i))
		i.Payload.Zone = "a"
		require.NoError(t, reg.Update(ctx, i))
		if kind == discovery.DynamicSequential {
			require.NoError(t, reg.Drain(ctx, 0))
		}
		require.NoError(t, reg.Close())
	}
	i = testbed.Must(d.Write(ctx, i))
	require.Equal(t, discovery.Permanent, i.Type)
	id := i.ID
	require.Equal(t, []string{"orders"}, testbed.Must(d.Names(ctx)))
	list := testbed.Must(d.Lookup(ctx, "orders"))
	require.Len(t, list, 1, "the permanent one")
	i, found, err := d.Get(ctx, "orders", id)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "http://10.0.0.7:80", i.URI(map[string]string{"port": "80"}))

	w := testbed.Must(d.Watch(ctx, "orders"))
	defer w.Close()
	require.Len(t, w.Instances(), 1)
	testbed.Eventually(t, func() bool { fresh, _ := w.Current(); return fresh }, "the list of instances is current")
	load := func(*discovery.Instance[Meta]) float64 { return 1 }
	for _, strategy := range []discovery.Strategy[Meta]{discovery.RoundRobin[Meta], discovery.Random[Meta], discovery.Sticky[Meta](), discovery.LeastLoaded(load)} {
		i := testbed.Must(w.Pick(strategy))
		require.Equal(t, id, i.ID)
	}
	filter := func(i *discovery.Instance[Meta]) bool { return i.ID != id }
	require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin, filter)), discovery.ErrNoInstance)
	w.ReportError(i)
	require.NoError(t, d.Unregister(ctx, "orders", id))
	for list := range w.Observe(ctx) {
		if len(list) == 0 {
			break
		}
	}
	require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin)), discovery.ErrNoInstance)
	springs := testbed.Must(discovery.New[discovery.Metadata](client, "/services"))
	for _, i := range []discovery.Instance[discovery.Metadata]{discovery.Spring("s", "h", 1, nil), discovery.Dubbo("d", "h", 1, nil)} {
		reg := testbed.Must(springs.Register(ctx, i))
		require.NoError(t, reg.Close())
	}
}

func TestRows_SharedValuesAndBarriers(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	v := testbed.Must(shared.Int64(client, "/n", shared.WithMutex("/mutex")))
	require.NoError(t, v.CompareAndSwap(ctx, shared.Version{}, 41))
	require.ErrorIs(t, v.CompareAndSwap(ctx, shared.Version{}, 41), shared.ErrChanged)
	server.Inject(zktest.LoseReply, 0, zktest.OnOp("multi"), zktest.OnPath("/n"))
	x := testbed.Must(v.Update(ctx, func(x int64) (int64, error) { return x + 1, nil }))
	require.EqualValues(t, 42, x)
	server.Inject(zktest.ExpireAfter, 0, zktest.OnOp("multi"), zktest.OnPath("/n"))
	_, err := v.Update(ctx, func(x int64) (int64, error) { return x, nil })
	require.True(t, retry.Unknown(err))
	require.EqualValues(t, 42, testbed.Must(shared.Reserve(ctx, v, 100)))
	_, version, err := v.Get(ctx)
	require.NoError(t, err)
	require.NoError(t, v.Set(ctx, 1))
	require.ErrorIs(t, v.CompareAndSwap(ctx, version, 2), shared.ErrChanged)
	for x, err := range v.Observe(ctx) {
		require.NoError(t, err)
		require.EqualValues(t, 1, x)
		break
	}
	count := testbed.Must(shared.Int32(client, "/n"))
	require.ErrorIs(t, testbed.Err(count.Get(ctx)), shared.ErrBadValue)
	raw := testbed.Must(shared.Bytes(client, "/n"))
	require.NoError(t, raw.Set(ctx, []byte("{}")))
	text := testbed.Must(shared.JSON[map[string]string](client, "/n"))
	require.NoError(t, testbed.Err(text.Get(ctx)))

	b := testbed.Must(barrier.New(client, "/barrier"))
	require.NoError(t, b.Set(ctx))
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Wait(short), context.DeadlineExceeded)
	require.True(t, testbed.Must(b.Remove(ctx)))
	require.NoError(t, b.Wait(ctx))
	d := testbed.Must(barrier.NewDouble(client, "/double", 1))
	entry := testbed.Must(d.Enter(ctx))
	require.NoError(t, entry.Context().Err())
	require.NoError(t, entry.Leave(ctx))
}
