package interop

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/recipes/cache"
)

// shown is a cache as Java's peer prints its own.
func shown(view *cache.Cache) string {
	var nodes []string
	for n := range view.All() {
		data := base64.StdEncoding.EncodeToString(n.Data)
		nodes = append(nodes, fmt.Sprintf("%s|%d|%d|%d|%s", n.Path, n.Stat.Czxid, n.Stat.Mzxid, n.Stat.Version, data))
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

// showsTree waits until Java's cache shows the same tree as ours.
func (p *peer) showsTree(t *testing.T, ctx context.Context, view *cache.Cache) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case line, more := <-p.lines:
			require.True(t, more, "it ended")
			if tree, found := strings.CutPrefix(line, "tree "); found {
				p.tree = tree
			}
		case <-tick.C:
		case <-ctx.Done():
			require.Equal(t, strings.Fields(p.tree), strings.Fields(shown(view)), "Java's cache, and ours")
		}
		if p.tree != "" && p.tree == shown(view) {
			return
		}
	}
}

// javaTree has both sides change a tree. When they are done, Java's cache and ours hold the same
// nodes.
func javaTree(t *testing.T, s stage) {
	const writers, changes = 3, 300
	c, ctx := s.begin(t)
	c.create(t, ctx, c.path)
	c.create(t, ctx, c.path+"/stays") // whatever the changes delete
	persistent := newCache(t, ctx, s.client(t), c.path)
	old := s.client(t) // it takes the servers for ones without persistent watches
	engine.Of(old).SetUnknown(proto.OpAddWatch)
	standard := newCache(t, ctx, old, c.path)
	p := s.java(t, "tree", c.path, fmt.Sprint(changes), c.over())
	p.hears(t, ctx, "session")
	var wg sync.WaitGroup
	for i := range writers {
		client := s.client(t)
		wg.Go(func() {
			for n := range changes {
				c.change(ctx, client, fmt.Sprintf("go %d %d", i, n))
			}
		})
	}
	wg.Wait()
	p.hears(t, ctx, "changed")
	for _, view := range []*cache.Cache{persistent, standard} {
		require.NoError(t, view.Sync(ctx))
		p.showsTree(t, ctx, view)
	}
	require.Equal(t, shown(persistent), shown(standard))
	require.Greater(t, persistent.Stats().Nodes, 1)
	t.Logf("%d nodes; of %d and %d nodes and lists read", persistent.Stats().Nodes, persistent.Stats().Reads, standard.Stats().Reads)
	c.create(t, ctx, c.over())
	p.hears(t, ctx, "done")
}

// change does something at random. That a node exists or is not is no error here.
func (c scene) change(ctx context.Context, client *framework.Client, data string) {
	path := fmt.Sprintf("%s/%d", c.path, rand.N(10))
	if rand.N(2) == 0 {
		path += fmt.Sprintf("/%d", rand.N(3))
	}
	switch rand.N(3) {
	case 0:
		_, _ = client.Create(ctx, path, []byte(data), framework.PersistentParents())
	case 1:
		_, _ = client.Set(ctx, path, []byte(data))
	default:
		_ = client.Delete(ctx, path)
	}
}
