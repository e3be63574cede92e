package discovery

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
)

// Strategy chooses an instance from a list that is not empty, and returns its index. The list
// begins with the instance that is next in turn.
//
// A Strategy must be safe for concurrent use, and must not modify the instances.
type Strategy[T any] func(among []*Instance[T]) int

// RoundRobin picks the instances in turn.
func RoundRobin[T any](_ []*Instance[T]) int { return 0 }

// Random picks a random instance.
func Random[T any](among []*Instance[T]) int { return rand.IntN(len(among)) }

// Sticky returns a Strategy whose result the caller must keep: it picks a random instance, and
// picks it again as long as it is available. Each result of Sticky keeps a separate instance.
func Sticky[T any]() Strategy[T] {
	var last atomic.Pointer[string] // the path of the instance
	return func(among []*Instance[T]) int {
		path := last.Load()
		if at := slices.IndexFunc(among, func(i *Instance[T]) bool { return path != nil && i.path == *path }); at >= 0 {
			return at
		}
		at := rand.IntN(len(among))
		last.Store(&among[at].path)
		return at
	}
}

// LeastLoaded returns a Strategy that picks the instance with the smallest load. Instances with
// equal loads are picked in turn.
func LeastLoaded[T any](load func(*Instance[T]) float64) Strategy[T] {
	return func(among []*Instance[T]) int {
		best, least := 0, math.Inf(1)
		for n, i := range among {
			if l := load(i); l < least {
				best, least = n, l
			}
		}
		return best
	}
}

// Pick chooses an instance that is neither disabled nor reported as failing, and that all filters
// accept. If there is no such instance, it tries instances that were deleted within the grace (see
// [WithGrace]). Pick sends no request.
//
// Filters must not modify instances, and a Strategy must not either. Errors are
//   - [ErrNoInstance] if no instance is available;
//   - [framework.ErrEnded] after Close of the Watch;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadArgument] if strategy is nil or returns an invalid index.
func (w *Watch[T]) Pick(strategy Strategy[T], filters ...func(*Instance[T]) bool) (picked Instance[T], err error) {
	defer func() { err = operr.New("pick", w.path, err) }()
	if strategy == nil {
		return picked, fmt.Errorf("%w: nil strategy", framework.ErrBadArgument)
	}
	if err := w.Err(); err != nil {
		return picked, err
	}
	o, _ := w.offer.Get()
	among, turn := w.up(o.live, filters)
	if len(among) == 0 {
		reserve, _ := o.reserve(time.Now())
		among, turn = w.up(reserve, filters)
	}
	if len(among) == 0 {
		return picked, ErrNoInstance
	}
	first := int(turn % uint64(len(among)))
	among = slices.Concat(among[first:], among[:first])
	at := strategy(among)
	if at < 0 || at >= len(among) {
		return picked, fmt.Errorf("%w: strategy returned index %d for %d instances", framework.ErrBadArgument, at, len(among))
	}
	return *among[at], nil
}

// ReportError reports a failed request to an instance of this Watch. After 2 errors within 30 s
// (see [WithDownAfter]), [Watch.Pick] skips the instance until 30 s after the first error, or until
// its node is recreated. It is Curator's noteError.
func (w *Watch[T]) ReportError(i Instance[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.down, func(_ znode, times []time.Time) bool { return time.Since(times[0]) >= w.d.cfg.downWindow })
	if times := w.down[i.znode()]; len(times) < w.d.cfg.downErrors {
		w.down[i.znode()] = append(times, time.Now())
	}
}

// up returns the candidates of a pick, and the number of earlier picks.
func (w *Watch[T]) up(list []*Instance[T], filters []func(*Instance[T]) bool) (among []*Instance[T], turn uint64) {
	w.mu.Lock()
	among = slices.DeleteFunc(slices.Clone(list), func(i *Instance[T]) bool {
		times := w.down[i.znode()]
		return i.Disabled || len(times) >= w.d.cfg.downErrors && time.Since(times[0]) < w.d.cfg.downWindow
	})
	turn = w.picks
	w.picks++
	w.mu.Unlock()
	for _, keep := range filters {
		among = slices.DeleteFunc(among, func(i *Instance[T]) bool { return !keep(i) })
	}
	return among, turn
}
