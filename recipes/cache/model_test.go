package cache_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// The model check: three writers create, write and delete nodes of a server like ClickHouse Keeper
// at random, while connections are cut, sessions expire and requests fail. No cache may show a node
// that is older than it has shown before. After the faults each equals the tree, and so do its
// replayed changes. Worlds of package sim check the same on ensembles of ZooKeeper.

const modelSteps = 250 // of each writer

var modelRuns = flag.Int("cache.runs", testlevel.Pick(2, 1, 30), "how many runs of random faults")

func TestModelOnAKeeper(t *testing.T) { // CUR-CCH-18
	for range *modelRuns {
		seed := rand.Uint64()
		testbed.RunVirtual(t, fmt.Sprintf("seed %d", seed), func(t *testing.T) { modelRun(t, seed) })
	}
}

// modelClient is a client of a server.
func modelClient(t *testing.T, server *zktest.Server) *framework.Client {
	return testbed.ClientOf(t, server, framework.WithSessionTimeout(10*time.Second),
		framework.WithRetryPolicy(retry.NTimes(2, 10*time.Millisecond)), framework.WithConnectionTimeout(time.Second))
}

func modelRun(t *testing.T, seed uint64) {
	server := zktest.NewServer(t, zktest.WithInMemory(), zktest.LikeKeeper("recent"))
	withoutB := func(path string) bool { return !strings.Contains(path, "b") }
	subjects := []*subject{
		{name: "tree", holds: everything},
		{name: "another tree", holds: everything},
		{name: "children", holds: func(path string) bool { return strings.Count(path, "/") <= 2 }, opts: []cache.Option{cache.WithDepth(1)}},
		{name: "node", holds: func(path string) bool { return path == "/r" }, opts: []cache.Option{cache.WithDepth(0)}},
		{name: "filter", holds: withoutB, opts: []cache.Option{cache.WithFilter(withoutB)}},
	}
	for _, s := range subjects {
		s.begin(t, modelClient(t, server))
	}

	ctx, cancel := context.WithCancel(t.Context())
	var writers, faults sync.WaitGroup
	for n := range 3 {
		w := writer{modelClient(t, server), rand.New(rand.NewPCG(seed, uint64(n)))}
		writers.Go(func() {
			for range modelSteps {
				w.step(ctx)
			}
		})
	}
	faults.Go(func() { trouble(ctx, t, server, rand.New(rand.NewPCG(seed, 99))) })
	writers.Wait()
	cancel()
	faults.Wait()

	time.Sleep(5 * time.Minute) // virtual time, in which sessions end
	truth := modelClient(t, server)
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
	// Failures are ignored: the next step follows anyway.
	switch data := []byte(fmt.Sprint(w.rand.IntN(1000))); w.rand.IntN(5) {
	case 0, 1:
		mode := framework.Persistent
		if w.rand.IntN(4) == 0 {
			mode = framework.Ephemeral
		}
		_, _ = w.client.Create(ctx, path, data, framework.As(mode))
	case 2:
		_, _ = w.client.Set(ctx, path, data)
	case 3:
		_ = w.client.Delete(ctx, path)
	case 4:
		w.deleteAll(ctx, path)
	}
	pause(w.rand, 20*time.Millisecond)
}

func (w writer) deleteAll(ctx context.Context, path string) {
	names, _, _ := w.client.Children(ctx, path)
	for _, name := range names {
		w.deleteAll(ctx, framework.Join(path, name))
	}
	_ = w.client.Delete(ctx, path)
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func pause(r *rand.Rand, most time.Duration) {
	time.Sleep(upTo(r, most)) // virtual time
}

// trouble injects faults until ctx is done, and then ends them.
func trouble(ctx context.Context, t *testing.T, s *zktest.Server, r *rand.Rand) {
	for ctx.Err() == nil {
		if sessions := s.Sessions(); len(sessions) > 0 {
			troubleClients(s, sessions[r.IntN(len(sessions))].ID, r)
		}
		pause(r, 300*time.Millisecond)
	}
	s.ClearFaults() // including unused injections
	require.NoError(t, s.Restart())
}

func troubleClients(s *zktest.Server, victim int64, r *rand.Rand) {
	switch r.IntN(6) {
	case 0:
		s.CutConnections()
	case 1:
		_ = s.ExpireSession(victim) // it may have ended
	case 2, 3:
		s.Inject(zktest.Fault(1+r.IntN(4)), r.IntN(20))
	case 4:
		remove := s.Delay(upTo(r, 50*time.Millisecond), zktest.OnSession(victim))
		pause(r, 200*time.Millisecond)
		remove()
	case 5:
		s.Freeze(victim)
		pause(r, 15*time.Second) // longer than a session lives
		s.Thaw(victim)
	}
}

// subject is a cache with two observers.
type subject struct {
	name  string
	holds func(path string) bool // which nodes belong to it
	mode  watchMode              // zero: a persistent watch
	opts  []cache.Option
	cache *cache.Cache

	mu     sync.Mutex            // guards what follows
	copied map[string]cache.Node // what the changes give
}

func (s *subject) begin(t *testing.T, client *framework.Client) {
	s.cache, s.copied = open(t, s.mode.of(client), "/r", s.opts...), make(map[string]cache.Node)
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

// check reports whether a node is not older than the one before.
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
	for ch, err := range s.cache.Changes(ctx) {
		if err != nil {
			return
		}
		s.mu.Lock()
		have, there := s.copied[ch.Path]
		dir, _ := framework.Split(ch.Path)
		_, parent := s.copied[dir]
		switch ch.Kind {
		case cache.Created:
			assert.False(t, there, "%s: %s created twice", s.name, ch.Path)
			assert.True(t, parent || ch.Path == "/r", "%s: %s created without its parent", s.name, ch.Path)
			seen.check(t, s.name, ch.New, false)
			ch.New.Stat = stable(ch.New.Stat)
			s.copied[ch.Path] = ch.New
		case cache.Changed:
			assert.True(t, there, "%s: %s changed, and is not there", s.name, ch.Path)
			assert.Equal(t, have.Stat.Czxid, ch.New.Stat.Czxid)
			seen.check(t, s.name, ch.New, false)
			ch.New.Stat = stable(ch.New.Stat)
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
			pause(slow, time.Second)
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
		time.Sleep(7 * time.Millisecond) // virtual time
	}
}

// check compares the cache, and what its changes gave, with the tree.
func (s *subject) check(t *testing.T, truth *framework.Client) {
	require.NoError(t, s.cache.Sync(testbed.Context(t)), s.name)
	testbed.Eventually(t, func() bool { return isCurrent(s.cache) }, s.name+" is fresh")
	want := tree(t, truth, "/r", s.holds)
	require.Equal(t, want, held(s.cache), s.name)
	testbed.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return assert.ObjectsAreEqual(want, s.copied)
	}, s.name+": the changes give the tree")
}
