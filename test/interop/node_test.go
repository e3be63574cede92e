package interop

import (
	"context"
	"maps"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zkconn"
)

// over is the node that ends a peer of Java's.
func (c scene) over() string { return c.path + "-over" }

func (c scene) create(t *testing.T, ctx context.Context, path string) {
	t.Helper()
	testbed.Create(t, c.client, path, []byte{}, framework.PersistentParents())
}

// hearsMembers waits until a member of Java's sees these members.
func (p *peer) hearsMembers(t *testing.T, ctx context.Context, want string) {
	t.Helper()
	for p.hears(t, ctx, "members") != want {
	}
}

// seesMembers waits until a member of ours sees these members.
func seesMembers(t *testing.T, ctx context.Context, m *node.Member, want map[string]string) {
	t.Helper()
	var seen map[string]string
	for members, err := range m.Observe(ctx) {
		require.NoError(t, err, "seen before: %v", seen)
		seen = make(map[string]string)
		for id, payload := range members {
			seen[id] = string(payload)
		}
		if maps.Equal(seen, want) {
			return
		}
	}
}

func javaGroup(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	m := testbed.Must(node.Join(ctx, c.client, c.path, "go", []byte("of go ö")))
	p := s.java(t, "group", c.path, "java", "of java ö", c.over())
	session := p.hearsSession(t, ctx)
	p.hearsMembers(t, ctx, "go=of go ö;java=of java ö;")
	seesMembers(t, ctx, m, map[string]string{"go": "of go ö", "java": "of java ö"})
	view := newCache(t, ctx, c.client, c.path)
	theirs, found := view.Get(c.path + "/java")
	require.True(t, found)
	require.Equal(t, session, theirs.Stat.EphemeralOwner)
	_, err := node.Join(ctx, c.client, c.path, "java", nil, node.WithIfTaken(node.Fail))
	require.ErrorIs(t, err, node.ErrTaken)

	// A program of go-zookeeper that is migrating. A member without data would be a
	// NullPointerException in Java.
	conn, _, err := zkconn.Connect(s.ensemble.Servers(), 10*time.Second, zkconn.WithLogInfo(false))
	require.NoError(t, err)
	defer conn.Close()
	migrating := testbed.Must(node.Join(ctx, conn.Client(), c.path, "migrating", nil))
	p.hearsMembers(t, ctx, "go=of go ö;java=of java ö;migrating="+string(engine.Of(conn.Client()).DefaultData())+";")
	require.NoError(t, migrating.Close())

	require.NoError(t, m.Set(ctx, []byte("set")))
	p.hearsMembers(t, ctx, "go=set;java=of java ö;")
	c.create(t, ctx, c.over()+"-change")
	seesMembers(t, ctx, m, map[string]string{"go": "set", "java": "changed"})
	require.NoError(t, m.Close())
	p.hearsMembers(t, ctx, "java=changed;")
	m = testbed.Must(node.Join(ctx, c.client, c.path, "go", []byte("again")))
	p.hearsMembers(t, ctx, "go=again;java=changed;")
	c.create(t, ctx, c.over())
	p.hears(t, ctx, "done")
	seesMembers(t, ctx, m, map[string]string{"go": "again"})
	require.NoError(t, m.Close())
}

// javaGroupSession has sessions of both sides end: both come again.
func javaGroupSession(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	m := testbed.Must(node.Join(ctx, c.client, c.path, "go", []byte("1")))
	p := s.java(t, "group", c.path, "java", "2", c.over())
	session := p.hearsSession(t, ctx)
	p.hearsMembers(t, ctx, "go=1;java=2;")

	ours := testbed.Session(t, c.client)
	require.NoError(t, s.ensemble.ExpireSession(ctx, ours.ID()))
	testbed.Receive(t, ours.Done(), "the end of our session")
	require.NoError(t, m.Set(ctx, []byte("again"))) // it waits until the node exists
	p.hearsMembers(t, ctx, "go=again;java=2;")
	_, stat, err := c.client.Get(ctx, c.path+"/go")
	require.NoError(t, err)
	require.NotEqual(t, ours.ID(), stat.EphemeralOwner)

	seesMembers(t, ctx, m, map[string]string{"go": "again", "java": "2"})
	require.NoError(t, s.ensemble.ExpireSession(ctx, session))
	seesMembers(t, ctx, m, map[string]string{"go": "again"})
	seesMembers(t, ctx, m, map[string]string{"go": "again", "java": "2"})
	require.NoError(t, m.Close())
}

// kinds are the kept nodes of both sides: what their names are made of, and how to keep one.
var kinds = []struct {
	name      string // Keep's path ends in it
	made      string // an expression for the name of the node
	ephemeral bool
	opts      []node.Option
}{
	{"ephemeral-", `^ephemeral-$`, true, nil},
	{"ephemeral-protected-", `^_c_[0-9a-f-]{36}-ephemeral-protected-$`, true, []node.Option{node.WithProtection()}},
	{"ephemeral-sequential-", `^ephemeral-sequential-[0-9]{10}$`, true, nil},
	{"ephemeral-sequential-protected-", `^_c_[0-9a-f-]{36}-ephemeral-sequential-protected-[0-9]{10}$`, true, []node.Option{node.WithSequence(), node.WithProtection()}},
	{"persistent-", `^persistent-$`, false, []node.Option{node.WithPersistence()}},
	{"persistent-protected-", `^_c_[0-9a-f-]{36}-persistent-protected-$`, false, []node.Option{node.WithPersistence(), node.WithProtection()}},
}

const ttl = 2 * time.Second // of a node that has one

// javaKeeps has Java keep a node of each kind. Our cache sees them, and again after they were
// deleted.
func javaKeeps(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	view := newCache(t, ctx, c.client, c.path)
	p := s.java(t, "keep", c.path, "data ö", c.over())
	session := p.hearsSession(t, ctx)
	for _, kind := range kinds {
		path := p.hears(t, ctx, "kept")
		require.Regexp(t, regexp.MustCompile(kind.made), path[len(c.path)+1:])
		require.NoError(t, view.Sync(ctx))
		kept, found := view.Get(path)
		require.True(t, found, path)
		require.Equal(t, "data ö", string(kept.Data))
		require.Equal(t, kind.ephemeral, kept.Stat.EphemeralOwner == session)
		require.NoError(t, c.client.Delete(ctx, path))
		testbed.Eventually(t, func() bool {
			again, found := view.Get(path)
			return found && again.Stat.Czxid > kept.Stat.Czxid && string(again.Data) == "data ö"
		}, "Java makes it again, and we see that: "+path)
	}
	path := p.hears(t, ctx, "kept")
	testbed.Eventually(t, func() bool {
		_, found := view.Get(path + "/touch")
		return found
	}, "the child of a node with a TTL")
	// Java's is a container up to 5.8.0
	taken := testbed.Must(node.Keep(ctx, c.client, path, []byte("of go"), node.WithTTL(ttl)))
	require.NoError(t, view.Sync(ctx))
	kept, _ := view.Get(path)
	require.Equal(t, "of go", string(kept.Data))
	require.NoError(t, taken.Close())
	c.create(t, ctx, c.over())
	p.hears(t, ctx, "done")
	require.NoError(t, view.Sync(ctx))
	for n := range view.Children(c.path) {
		require.Equal(t, path, n.Path, "all others have been deleted")
	}
}

// javaSeesKept has us keep a node of each kind. Java's cache sees what ours does, also after our
// session has ended.
func javaSeesKept(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	c.create(t, ctx, c.path)
	keeper := s.client(t)
	var kept []*node.Node
	for _, kind := range kinds {
		if kind.name == "ephemeral-sequential-" {
			continue // only Java keeps it
		}
		n := testbed.Must(node.Keep(ctx, keeper, c.path+"/"+kind.name, []byte("data ö"), kind.opts...))
		require.Regexp(t, regexp.MustCompile(kind.made), n.Path()[len(c.path)+1:])
		kept = append(kept, n)
	}
	withTTL := testbed.Must(node.Keep(ctx, keeper, c.path+"/ttl-", []byte("data ö"), node.WithTTL(ttl)))
	view := newCache(t, ctx, c.client, c.path)
	testbed.Eventually(t, func() bool {
		_, found := view.Get(c.path + "/ttl-/touch")
		return found
	}, "the child of the node with a TTL")
	require.NoError(t, withTTL.Close()) // else it changes all the time
	p := s.java(t, "tree", c.path, "0", c.over())
	p.showsTree(t, ctx, view)

	session := testbed.Session(t, keeper)
	require.NoError(t, s.ensemble.ExpireSession(ctx, session.ID()))
	testbed.Receive(t, session.Done(), "the end of our session")
	for _, n := range kept {
		require.NoError(t, n.Set(ctx, []byte("later"))) // it waits until the node exists
		again := func() bool {
			require.NoError(t, view.Sync(ctx))
			seen, found := view.Get(n.Path())
			return found && string(seen.Data) == "later" && seen.Stat.EphemeralOwner != session.ID()
		}
		assert.True(t, again(), n.Path())
	}
	p.showsTree(t, ctx, view)
	for _, n := range kept {
		require.NoError(t, n.Close())
	}
	require.NoError(t, view.Sync(ctx))
	p.showsTree(t, ctx, view)
	c.create(t, ctx, c.over())
	p.hears(t, ctx, "done")
}

func newCache(t *testing.T, ctx context.Context, client *framework.Client, path string) *cache.Cache {
	t.Helper()
	view := testbed.Must(cache.New(client, path))
	t.Cleanup(func() { view.Close() })
	require.NoError(t, view.Sync(ctx))
	return view
}
