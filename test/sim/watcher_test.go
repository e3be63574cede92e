package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// watcherPlan is a cache that follows what happens in a world.
type watcherPlan struct {
	Client   int
	Path     string
	Depth    int  // -1: no limit
	Standard bool // the client takes the servers for ones without persistent watches
	NoData   bool
	Filter   bool // without nodes called b, and their descendants
}

func drawWatcher(random *rand.Rand, clients int) watcherPlan {
	return watcherPlan{
		Client:   random.IntN(clients),
		Path:     pick(random, "/sim", "/sim", keptPath, counter),
		Depth:    pick(random, -1, -1, -1, 1),
		Standard: random.IntN(3) == 0,
		NoData:   random.IntN(4) == 0,
	}
}

// watcher checks the promises of a cache.
type watcher struct {
	*world
	watcherPlan
	name   string
	random *rand.Rand
	cache  *cache.Cache
	seen   map[string]zk.Stat // by path, the newest that the copy has shown
	stop   context.CancelFunc // ends the reader of changes
	reader sync.WaitGroup

	mu       sync.Mutex            // guards what follows
	notified map[string]zk.Stat    // by path, the newest that the changes have reported
	mirror   map[string]cache.Node // what the changes add up to
	loaded   bool                  // they have reported the end of the load
}

func (w *world) newWatcher(i int, plan watcherPlan) (*watcher, error) {
	opts := []cache.Option{}
	if plan.Depth >= 0 {
		opts = append(opts, cache.WithDepth(plan.Depth))
	}
	client := w.clients[plan.Client%len(w.clients)].client
	if plan.Standard {
		engine.Of(client).SetUnknown(proto.OpAddWatch)
	}
	if plan.Filter {
		opts = append(opts, cache.WithFilter(func(path string) bool { return !outside(path) }))
	}
	if plan.NoData {
		opts = append(opts, cache.WithoutData())
	}
	c, err := cache.New(client, plan.Path, opts...)
	if err != nil {
		return nil, err
	}
	x := &watcher{
		world: w, watcherPlan: plan, name: fmt.Sprintf("cache %d", i), random: rand.New(rand.NewPCG(w.Seed, uint64(i+1)<<48)), cache: c,
		seen: make(map[string]zk.Stat), notified: make(map[string]zk.Stat), mirror: make(map[string]cache.Node),
	}
	ctx, stop := context.WithCancel(context.Background())
	x.stop = stop
	x.reader.Go(func() { // ends with stop
		for ch, err := range c.Changes(ctx) {
			if err != nil {
				return
			}
			x.change(ch)
		}
	})
	return x, nil
}

// watch looks at the copy now and then, until all is well.
func (x *watcher) watch() {
	for !x.calm.Load() {
		rest(upTo(x.random, 4*time.Second), x.over, nil)
		for n := range x.cache.All() {
			x.look(n)
		}
		if x.random.IntN(4) == 0 {
			x.sync()
		}
	}
}

func (x *watcher) close() {
	x.stop()
	x.reader.Wait()
	_ = x.cache.Close() // is always nil
}

// older reports whether a is an earlier state of a path than b.
func older(a, b zk.Stat) bool { return a.Czxid < b.Czxid || a.Czxid == b.Czxid && a.Mzxid < b.Mzxid }

// look requires that no path moves back in time.
func (x *watcher) look(n cache.Node) {
	if before, ok := x.seen[n.Path]; ok && older(n.Stat, before) {
		x.monitor.fail("cache moved back", "%s has %s of %#x/%#x after %#x/%#x", x.name, n.Path, n.Stat.Czxid, n.Stat.Mzxid, before.Czxid, before.Mzxid)
	}
	x.seen[n.Path] = n.Stat
}

// change requires that the changes of a path are in order, and applies them.
func (x *watcher) change(ch cache.Change) {
	x.monitor.count("changes in a cache")
	x.mu.Lock()
	defer x.mu.Unlock()
	if ch.Kind == cache.Loaded {
		if x.loaded {
			x.monitor.fail("cache is wrong", "%s: loaded twice", x.name)
		}
		x.loaded = true
		return
	}
	last, there := x.mirror[ch.Path]
	wrong := ""
	switch {
	case ch.Kind == cache.Created && there, ch.Kind != cache.Created && !there:
		wrong = "out of order"
	case ch.Kind != cache.Created && (last.Stat.Czxid != ch.Old.Stat.Czxid || older(ch.Old.Stat, last.Stat)):
		wrong = "with another old state" // a newer one follows skipped changes
	case ch.Kind == cache.Changed && (ch.New.Stat.Czxid != ch.Old.Stat.Czxid || ch.New.Stat.Mzxid <= ch.Old.Stat.Mzxid),
		ch.Kind == cache.Created && ch.New.Stat.Czxid <= x.notified[ch.Path].Czxid:
		// it was deleted
		wrong = "back in time"
	}
	dir, _ := framework.Split(ch.Path)
	if _, parent := x.mirror[dir]; ch.Kind == cache.Created && !parent && ch.Path != x.Path {
		wrong = "without its parent"
	}
	for path := range x.mirror {
		if ch.Kind == cache.Deleted && strings.HasPrefix(path, ch.Path+"/") {
			wrong = "before " + path
		}
	}
	if wrong != "" {
		x.monitor.fail("cache moved back", "%s: %v of %s, %s: %+v after %+v", x.name, ch.Kind, ch.Path, wrong, ch, last.Stat)
	}
	if ch.Kind == cache.Deleted {
		delete(x.mirror, ch.Path)
		return
	}
	x.notified[ch.Path], x.mirror[ch.Path] = ch.New.Stat, ch.New
}

// sync requires that the copy is then as new as the ensemble was before.
func (x *watcher) sync() {
	leader, err := x.cluster.Leader()
	if err != nil || !x.has(counter) {
		return
	}
	before, err := leader.Stat(counter)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := x.cache.Sync(ctx); err != nil {
		x.monitor.count("syncs of a cache that failed")
		return
	}
	x.monitor.count("syncs of a cache")
	if n, ok := x.cache.Get(counter); !ok || n.Stat.Mzxid < before.Mzxid {
		x.monitor.fail("cache is behind", "%s has %#x of the counter after a Sync, which was %#x before", x.name, n.Stat.Mzxid, before.Mzxid)
	}
}

// has reports whether a path belongs to the cache.
func (x *watcher) has(path string) bool {
	below, ok := strings.CutPrefix(path, x.Path)
	return ok && (below == "" || below[0] == '/') && !(x.Filter && outside(path)) && (x.Depth < 0 || strings.Count(below, "/") <= x.Depth)
}

// check requires that the copy, and what the changes add up to, become what there is.
func (x *watcher) check() {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if err := x.cache.Sync(ctx); err != nil {
		x.monitor.fail("stuck", "%s is not loaded after all is well: %v", x.name, err)
		return
	}
	var wrong string
	for range 120 {
		if wrong = x.differs(); wrong == "" {
			return
		}
		time.Sleep(time.Second) // virtual time
	}
	x.monitor.fail("cache is wrong", "%s: %s", x.name, wrong)
}

// differs describes a difference to the servers; "": none.
func (x *watcher) differs() string {
	want := make(map[string]zktest.Node)
	for _, n := range x.leader().Dump() {
		if x.has(n.Path) {
			want[n.Path] = n
		}
	}
	got := make(map[string]cache.Node)
	for n := range x.cache.All() {
		got[n.Path] = n
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.loaded {
		return "the changes have not said that all has been loaded"
	}
	for what, nodes := range map[string]map[string]cache.Node{"the copy": got, "the changes": x.mirror} {
		for path, n := range nodes {
			if _, ok := want[path]; !ok {
				return fmt.Sprintf("%s have %s, which was deleted (%+v)", what, path, n.Stat)
			}
		}
		for path, n := range want {
			if n.Owner != 0 && strings.HasPrefix(path, lockPath) {
				continue // still being deleted; some are unreadable
			}
			if diff := compare(nodes[path], n, x.leader(), x.NoData); diff != "" {
				return what + ": " + diff
			}
		}
	}
	return ""
}

func compare(got cache.Node, want zktest.Node, leader *zktest.Server, noData bool) string {
	stat, err := leader.Stat(want.Path)
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %v", want.Path, err)
	case got.Path == "":
		return want.Path + " is missing"
	case got.Stat.Czxid != stat.Czxid || got.Stat.Mzxid != stat.Mzxid || got.Stat.Version != stat.Version:
		return fmt.Sprintf("%s is %+v, not %+v", want.Path, got.Stat, stat)
	case !noData && string(got.Data) != string(want.Data):
		return fmt.Sprintf("%s has %q, not %q", want.Path, got.Data, want.Data)
	}
	return ""
}
