package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// treePath is a small tree that writers change at random, and that caches follow.
const treePath = "/sim/tree"

// write turns one half of the worlds with caches into ones in which writers only write, and a cache
// follows.
func (s *scenario) write(random *rand.Rand) {
	if len(s.Watchers) == 0 || random.IntN(2) == 0 {
		return
	}
	s.Writers = 2 + random.IntN(2)
	s.Watchers = slices.Clone(s.Watchers)
	x := &s.Watchers[0]
	x.Path = pick(random, "/sim", treePath, treePath)
	x.Depth = pick(random, -1, -1, 1, 0)
	x.Filter = random.IntN(3) == 0
}

// startWriters begins writers, each of a client of its own as long as there are enough.
func (w *world) startWriters(wg *sync.WaitGroup) {
	if w.Writers == 0 {
		return
	}
	for _, a := range w.actors("writer", w.Writers)[:w.Writers] {
		wg.Go(a.write)
	}
}

// write changes one node after the other, until peace. A failed change is not repeated: the next
// one follows anyway.
func (a *actor) write() {
	a.repeat(500*time.Millisecond, 5*time.Second, func(ctx context.Context) {
		path := treePath
		for range a.random.IntN(4) {
			path += "/" + pick(a.random, "a", "b", "c")
		}
		var err error
		switch data := []byte(fmt.Sprint(a.random.IntN(1000))); a.random.IntN(5) {
		case 0, 1:
			_, err = a.client.Create(ctx, path, data, framework.As(pick(a.random, framework.Persistent, framework.Persistent, framework.Persistent, framework.Ephemeral)))
		case 2:
			_, err = a.client.Set(ctx, path, data)
		case 3:
			err = a.client.Delete(ctx, path)
		case 4:
			err = a.client.Delete(ctx, path, framework.IfExists(), framework.WithChildren())
		}
		if err == nil {
			a.monitor.count("nodes of a tree written")
		}
	})
}

// outside reports whether a filter leaves a path out.
func outside(path string) bool { return strings.Contains(path+"/", "/b/") }
