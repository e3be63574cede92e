package discovery

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
)

// Strategy chooses one of several instances, of which there is at least one, and returns its index. turn says what was picked
// before. It may be called by several goroutines at a time, and must not change the instances.
type Strategy[T any] func(turn Turn, among []*Instance[T]) int

// Turn is what a Watch remembers for strategies.
type Turn struct {
	Count uint64 // how many picks were before
	Last  string // the path of the instance that was picked last; "" is none
}

// RoundRobin chooses one after the other.
func RoundRobin[T any](turn Turn, among []*Instance[T]) int {
	return int(turn.Count % uint64(len(among)))
}

// Random chooses any.
func Random[T any](_ Turn, among []*Instance[T]) int { return rand.IntN(len(among)) }

// Sticky stays with one, chosen at random, as long as it can be picked. It stays with what was picked last, so a Watch that
// picks with it should not pick with others. First picks at the same moment may differ.
func Sticky[T any](turn Turn, among []*Instance[T]) int {
	if at := slices.IndexFunc(among, func(i *Instance[T]) bool { return i.path == turn.Last }); at >= 0 {
		return at
	}
	return rand.IntN(len(among))
}

// LeastLoaded chooses an instance for which load returns the smallest number. Among several of them it takes turns.
func LeastLoaded[T any](load func(Instance[T]) float64) Strategy[T] {
	return func(turn Turn, among []*Instance[T]) int {
		start := RoundRobin(turn, among)
		best, least := start, math.Inf(1)
		for n := range among {
			at := (start + n) % len(among)
			if l := load(*among[at]); l < least {
				best, least = at, l
			}
		}
		return best
	}
}

// Pick chooses one of the instances that are neither disabled nor [Watch.Down]. It never asks a server. The error
// is [ErrNoInstance] if there is none, and framework.ErrBadArgument if strategy is nil or returns no index.
func (w *Watch[T]) Pick(strategy Strategy[T]) (picked Instance[T], err error) {
	defer func() { err = operr.New("pick", w.path, err) }()
	if strategy == nil {
		return picked, fmt.Errorf("%w: nil strategy", framework.ErrBadArgument)
	}
	w.mu.Lock()
	among, turn := w.up(), w.turn
	w.turn.Count++
	w.mu.Unlock()
	if len(among) == 0 {
		return picked, ErrNoInstance
	}
	at := strategy(turn, among)
	if at < 0 || at >= len(among) {
		return picked, fmt.Errorf("%w: strategy chose %d of %d", framework.ErrBadArgument, at, len(among))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn.Last = among[at].path
	return *among[at], nil
}

// Down notes that a request to an instance failed. After 2 within 30 s, or what [DownAfter] says, [Watch.Pick] leaves it out
// until the 30 s since the first one have passed. It is Curator's noteError. An instance that has registered again since,
// with a new node, is offered at once. The instance must be one of this Watch.
func (w *Watch[T]) Down(i Instance[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.down, func(_ int64, times []time.Time) bool { return time.Since(times[0]) >= w.d.cfg.downWindow })
	if times := w.down[i.czxid]; len(times) < w.d.cfg.downErrors {
		w.down[i.czxid] = append(times, time.Now())
	}
}

// up returns the instances that are neither disabled nor down. The caller holds mu.
func (w *Watch[T]) up() []*Instance[T] {
	list, _ := w.list.Get()
	return slices.DeleteFunc(slices.Clone(list), func(i *Instance[T]) bool {
		times := w.down[i.czxid]
		return i.Disabled || len(times) >= w.d.cfg.downErrors && time.Since(times[0]) < w.d.cfg.downWindow
	})
}
