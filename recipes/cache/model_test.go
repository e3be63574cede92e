package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// The model check: three writers make, change and delete nodes at random, while connections are cut, sessions end,
// the network stands still and requests fail. No cache may ever show a node that is older than what it has shown before. When
// all is calm each is equal to the tree, and so is what its changes give.

const (
	modelRuns  = 12
	modelSteps = 250 // of each writer
)

func TestModel(t *testing.T) {
	for range modelRuns {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { modelRun(t, seed) }) })
	}
}

func modelRun(t *testing.T, seed uint64) {
	server := zktest.NewServer(t, zktest.WithInMemory())
	bed := testbed.On(server)
	client := func() *framework.Client {
		return bed.Client(t, framework.WithDialer(server.DialContext), framework.WithRetryPolicy(retry.NTimes(2, 10*time.Millisecond)),
			framework.WithConnectionTimeout(time.Second))
	}
	everything := func(string) bool { return true }
	withoutB := func(path string) bool { return !strings.Contains(path, "b") }
	subjects := []*subject{
		{name: "tree", holds: everything},
		{name: "standard watches", holds: everything, opts: []cache.Option{cache.StandardWatches()}},
		{name: "one at a time", holds: everything, opts: []cache.Option{cache.Concurrency(1)}},
		{name: "children", holds: func(path string) bool { return strings.Count(path, "/") <= 2 }, opts: []cache.Option{cache.Depth(1)}},
		{name: "node", holds: func(path string) bool { return path == "/r" }, opts: []cache.Option{cache.Depth(0), cache.StandardWatches()}},
		{name: "filter", holds: withoutB, opts: []cache.Option{cache.Filter(withoutB)}},
	}
	for _, s := range subjects {
		s.begin(t, client())
	}

	ctx, cancel := context.WithCancel(t.Context())
	var writers, faults sync.WaitGroup
	for n := range 3 {
		w := writer{client(), rand.New(rand.NewPCG(seed, uint64(n)))}
		writers.Go(func() {
			for range modelSteps {
				w.step(ctx)
			}
		})
	}
	faults.Go(func() { trouble(ctx, server, rand.New(rand.NewPCG(seed, 99))) })
	writers.Wait()
	cancel()
	faults.Wait()

	truth := client()
	for _, s := range subjects {
		s.check(t, truth)
	}
}

// writer changes nodes at random.
type writer struct {
	client *framework.Client
	rand   *rand.Rand
}

func (w writer) step(ctx context.Context) {
	path := "/r"
	for range w.rand.IntN(4) {
		path += "/" + string("abc"[w.rand.IntN(3)])
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// What fails, fails: the next step comes anyway.
	switch data := []byte(fmt.Sprint(w.rand.IntN(1000))); w.rand.IntN(5) {
	case 0, 1:
		mode := framework.Persistent
		if w.rand.IntN(4) == 0 {
			mode = framework.Ephemeral
		}
		_, _ = w.client.Create(ctx, path, data, framework.As(mode))
	case 2:
		_, _ = w.client.Set(ctx, path, data, -1)
	case 3:
		_ = w.client.Delete(ctx, path, -1)
	case 4:
		w.deleteAll(ctx, path)
	}
	time.Sleep(upTo(w.rand, 20*time.Millisecond))
}

func (w writer) deleteAll(ctx context.Context, path string) {
	names, _, _ := w.client.Children(ctx, path)
	for _, name := range names {
		w.deleteAll(ctx, framework.Join(path, name))
	}
	_ = w.client.Delete(ctx, path, -1)
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// trouble makes faults until ctx is done, and then ends them.
func trouble(ctx context.Context, server *zktest.Server, r *rand.Rand) {
	defer server.Thaw()
	for ctx.Err() == nil {
		sessions := server.Sessions()
		victim := sessions[r.IntN(len(sessions))].ID
		switch r.IntN(6) {
		case 0:
			server.CutConnections()
		case 1:
			_ = server.ExpireSession(victim)
		case 2, 3:
			server.Inject(zktest.Fault(1+r.IntN(4)), r.IntN(20))
		case 4:
			remove := server.Delay(upTo(r, 50*time.Millisecond), zktest.OnSession(victim))
			time.Sleep(upTo(r, 200*time.Millisecond))
			remove()
		case 5:
			server.Freeze(victim)
			time.Sleep(upTo(r, 15*time.Second)) // longer than a session lives
			server.Thaw(victim)
		}
		time.Sleep(upTo(r, 300*time.Millisecond))
	}
}

// subject is a cache with two observers.
type subject struct {
	name  string
	holds func(path string) bool // what belongs into it
	opts  []cache.Option
	cache *cache.Cache

	mu     sync.Mutex            // guards what follows
	copied map[string]cache.Node // what the changes give
}

func (s *subject) begin(t *testing.T, client *framework.Client) {
	s.cache, s.copied = open(t, client, "/r", s.opts...), make(map[string]cache.Node)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() { s.replay(ctx, t) })
	wg.Go(func() { s.look(ctx, t) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// ages are the newest stamps of each path.
type ages map[string][2]int64

// check reports whether a node is not older than what was there before.
func (a ages) check(t *testing.T, name string, n cache.Node, again bool) {
	was, is := a[n.Path], [2]int64{n.Stat.Czxid, n.Stat.Mzxid}
	newer := is[0] > was[0] || is[0] == was[0] && is[1] > was[1]
	assert.True(t, newer || again && is == was, "%s: %s went from %v to %v", name, n.Path, was, is)
	a[n.Path] = is
}

// replay applies all changes.
func (s *subject) replay(ctx context.Context, t *testing.T) {
	seen := make(ages)
	slow := rand.New(rand.NewPCG(1, 2))
	for ch := range s.cache.Changes(ctx) {
		s.mu.Lock()
		have, there := s.copied[ch.Path]
		dir, _ := framework.Split(ch.Path)
		_, parent := s.copied[dir]
		switch ch.Kind {
		case cache.Created:
			assert.False(t, there, "%s: %s created twice", s.name, ch.Path)
			assert.True(t, parent || ch.Path == "/r", "%s: %s created without its parent", s.name, ch.Path)
			seen.check(t, s.name, ch.New, false)
			s.copied[ch.Path] = ch.New
		case cache.Changed:
			assert.True(t, there, "%s: %s changed, and is not there", s.name, ch.Path)
			assert.Equal(t, have.Stat.Czxid, ch.New.Stat.Czxid)
			seen.check(t, s.name, ch.New, false)
			s.copied[ch.Path] = ch.New
		case cache.Deleted:
			assert.True(t, there, "%s: %s deleted, and is not there", s.name, ch.Path)
			delete(s.copied, ch.Path)
			for path := range s.copied {
				assert.False(t, strings.HasPrefix(path, ch.Path+"/"), "%s: %s deleted before %s", s.name, ch.Path, path)
			}
		}
		s.mu.Unlock()
		if slow.IntN(10) == 0 {
			time.Sleep(upTo(slow, time.Second))
		}
	}
}

// look looks at the copy again and again.
func (s *subject) look(ctx context.Context, t *testing.T) {
	seen := make(ages)
	for ctx.Err() == nil {
		for n := range s.cache.All() {
			seen.check(t, s.name, n, true)
		}
		time.Sleep(7 * time.Millisecond)
	}
}

// check compares the cache, and what its changes gave, with the tree.
func (s *subject) check(t *testing.T, truth *framework.Client) {
	require.NoError(t, s.cache.Sync(testbed.Context(t)), s.name)
	testbed.Eventually(t, func() bool { fresh, _ := s.cache.Fresh(); return fresh }, s.name+" is fresh")
	want := map[string]cache.Node{}
	var walk func(path string)
	walk = func(path string) {
		data, stat, err := truth.Get(testbed.Context(t), path)
		if errors.Is(err, zk.ErrNoNode) && path == "/r" {
			return
		}
		require.NoError(t, err)
		if s.holds(path) {
			want[path] = cache.Node{Path: path, Data: data, Stat: stable(*stat)}
		}
		names, _, err := truth.Children(testbed.Context(t), path)
		require.NoError(t, err)
		for _, name := range names {
			walk(framework.Join(path, name))
		}
	}
	walk("/r")
	got := map[string]cache.Node{}
	for n := range s.cache.All() {
		n.Stat = stable(n.Stat)
		got[n.Path] = n
	}
	require.Equal(t, want, got, s.name)
	testbed.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		replayed := map[string]cache.Node{}
		for path, n := range s.copied {
			n.Stat = stable(n.Stat)
			replayed[path] = n
		}
		return assert.ObjectsAreEqual(want, replayed)
	}, s.name+": the changes give the tree")
}
