package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// extra is a recipe that some clients use at its own path, beside the contenders. Extras has its
// name in a scenario.
type extra interface {
	// start begins goroutines that go on until all is well, and then get through once more.
	start(wg *sync.WaitGroup) error
	// conclude checks the final state after these have returned, and closes the rest.
	conclude()
}

var extraNames = []string{"election", "numbers", "barrier", "pool", "services", "shards", "jobs"}

var extras = map[string]func(*world) extra{
	"election": func(w *world) extra { return newElection(w) },
	"numbers":  func(w *world) extra { return &numbers{world: w} },
	"barrier":  func(w *world) extra { return &barriers{world: w} },
	"pool":     func(w *world) extra { return &pool{world: w} },
	"services": func(w *world) extra { return &services{world: w} },
	"shards":   func(w *world) extra { return &shards{world: w} },
	"jobs":     func(w *world) extra { return &jobs{world: w} },
}

// actor is a goroutine of a client.
type actor struct {
	*world
	*user
	name   string
	random *rand.Rand
}

// actors are n for each client, at least two and at most five.
func (w *world) actors(what string, n int) []*actor {
	var list []*actor
	for i := range n {
		for _, u := range w.clients {
			name := fmt.Sprintf("%s %d.%d", what, u.number, i)
			hash := fnv.New64a()
			_, _ = hash.Write([]byte(name)) // never fails
			list = append(list, &actor{w, u, name, rand.New(rand.NewPCG(w.Seed, hash.Sum64()))})
		}
	}
	if len(list) == 1 {
		return append(list, w.actors(what, 2)[1])
	}
	return list[:min(len(list), 5)]
}

// sleep returns at the end of d or of stop.
func (a *actor) sleep(d time.Duration, stop <-chan struct{}) { rest(d, stop, nil) }

// rest returns at the end of d, or when one of two channels is closed: it reports whether that is
// so. A nil channel never is.
func rest(d time.Duration, a, b <-chan struct{}) (closed bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-a:
	case <-b:
	}
	return true
}

// repeat calls f, with pauses, until all is well. f's context ends after a random time.
func (a *actor) repeat(pause, most time.Duration, f func(ctx context.Context)) {
	for !a.calm.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), upTo(a.random, most)+time.Millisecond)
		f(ctx)
		cancel()
		a.sleep(upTo(a.random, pause)+time.Millisecond, a.over)
	}
}

// once calls f when all is well: it has time enough.
func (a *actor) once(what string, f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if err := f(ctx); err != nil {
		a.monitor.fail("stuck", "%s: %s after all is well: %v", a.name, what, err)
	}
}

// hold is a hold of this client that began just now.
func (a *actor) hold(ctx context.Context, owner int, session *framework.Session, node string) *held {
	return &held{who: a.name, owner: owner, ctx: ctx, session: session.ID(), timeout: session.Timeout(), node: node, since: time.Now()}
}

// either is the function that waits, or the one that only tries.
func either[F any](wait bool, acquire, try F) F {
	if wait {
		return acquire
	}
	return try
}

// another returns a monitor for other holders than the contenders. Its complaints are the world's.
func (w *world) another(most int) *monitor {
	m := newMonitor(most, w.monitor.trace)
	m.base = w.monitor
	w.others = append(w.others, m)
	return m
}

// checkOthers has the world complain of what its other monitors have found.
func (w *world) checkOthers() {
	for _, m := range w.others {
		m.tokens()
		m.mu.Lock()
		wrong := slices.Clone(m.wrong)
		m.mu.Unlock()
		for _, text := range wrong {
			kind, _, _ := strings.Cut(text, " at ")
			w.monitor.fail(kind, "%s", text)
		}
	}
}
