package discovery

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/gocurator/curator/recipes/cache"
)

// spareNews is how many changes more than instances wait at most for somebody who wants the list.
const spareNews = 16

// Watch is the list of a service's instances, which is kept up to date. It is Curator's ServiceCache and
// ServiceProvider.
//
// All methods are safe for concurrent use.
type Watch[T any] struct {
	d     *Discovery[T]
	path  string // of the service
	cache *cache.Cache

	mu      sync.Mutex // guards what follows; OnUnreadable is never called under it
	known   *instances[T]
	news    map[string]*Instance[T] // what has changed since, by path; nil stands for no instance
	changed chan struct{}           // closed with each change, and replaced
	picks   picks
}

// instances are those of a service at one moment. They are not changed.
type instances[T any] struct{ all, enabled []Instance[T] }

// Watch follows a service, and returns when its instances are known. ctx is for the waiting only. A service without
// instances is followed as well. Errors are those of cache.New and cache.Cache.Sync. Whoever makes a Watch must [Watch.Close] it.
// It costs one watch on the servers, so services share one rather than have one for each request.
func (d *Discovery[T]) Watch(ctx context.Context, name string) (*Watch[T], error) {
	w := &Watch[T]{d: d, known: &instances[T]{}, news: make(map[string]*Instance[T]), changed: make(chan struct{})}
	if err := w.start(ctx, name); err != nil {
		return nil, d.failed("watch", w.path, err)
	}
	return w, nil
}

func (w *Watch[T]) start(ctx context.Context, name string) (err error) {
	if w.path, err = w.d.path(name); err != nil {
		return err
	}
	if w.cache, err = cache.New(w.d.client, w.path, cache.WithDepth(1), cache.WithoutData(), cache.OnChange(w.take)); err != nil {
		return err
	}
	if err = w.cache.Sync(ctx); err != nil {
		_ = w.Close() // returns nil
	}
	return err
}

// take decodes what has changed, and reports a node that has no instance. Making the list is left to whoever wants it, so a hundred
// changes cost one list.
func (w *Watch[T]) take(ch cache.Change) {
	if ch.Path == w.path {
		return
	}
	i, err := fromNode[T](ch.Path, ch.New.Data, &ch.New.Stat) // nil if it was deleted
	if err != nil {
		w.d.cfg.unreadable(ch.Path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news[ch.Path] = i
	if len(w.news) > len(w.known.all)+spareNews {
		w.now() // nobody wants the list: what waits must not grow
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// now returns the instances, and a channel that is closed when there may be others. The caller holds mu.
func (w *Watch[T]) now() (*instances[T], <-chan struct{}) {
	if len(w.news) == 0 {
		return w.known, w.changed
	}
	byPath := make(map[string]*Instance[T], len(w.known.all))
	for n := range w.known.all {
		byPath[w.known.all[n].Path()] = &w.known.all[n]
	}
	maps.Copy(byPath, w.news)
	maps.DeleteFunc(byPath, func(_ string, i *Instance[T]) bool { return i == nil })
	all := make([]Instance[T], 0, len(byPath))
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		all = append(all, *byPath[path])
	}
	enabled := all
	if disabled := func(i Instance[T]) bool { return i.Disabled }; slices.ContainsFunc(all, disabled) {
		enabled = slices.DeleteFunc(slices.Clone(all), disabled)
	}
	w.known, w.news = &instances[T]{all, enabled}, make(map[string]*Instance[T])
	return w.known, w.changed
}

// Instances returns the instances of the service, also the disabled ones and those that are down, in the order of their
// nodes' names. It never asks a server, and never goes back in time. Payloads must not be changed: they are shared.
func (w *Watch[T]) Instances() []Instance[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	list, _ := w.now()
	return slices.Clone(list.all)
}

// Changes yields the instances, first as they are now and then after each change, until ctx is done or the Watch or its client
// is closed. A slow reader gets the newest list instead of every one. Any number of goroutines may have an iteration
// of their own.
func (w *Watch[T]) Changes(ctx context.Context) iter.Seq[[]Instance[T]] {
	return func(yield func([]Instance[T]) bool) {
		var last *instances[T]
		for {
			_, state := w.Current()
			if ctx.Err() != nil || w.Err() != nil {
				return
			}
			w.mu.Lock()
			list, changed := w.now()
			w.mu.Unlock()
			if last == nil || !slices.EqualFunc(list.all, last.all, sameVersion) {
				if last = list; !yield(slices.Clone(list.all)) {
					return
				}
			}
			select {
			case <-changed:
			case <-state: // the cache may have ended
			case <-ctx.Done():
			}
		}
	}
}

func sameVersion[T any](a, b Instance[T]) bool {
	return a.origin.nodeKey == b.origin.nodeKey && a.origin.mzxid == b.origin.mzxid
}

// Current reports whether the list is up to date, and returns a channel that is closed when that may have changed: see
// [cache.Cache.Current]. While it is not, the last known list stays.
func (w *Watch[T]) Current() (ok bool, changed <-chan struct{}) { return w.cache.Current() }

// Err is nil until the Watch has ended, and then framework.ErrEnded, or framework.ErrClosed if the client was closed.
func (w *Watch[T]) Err() error { return w.cache.Err() }

// Close ends the Watch and all its Changes. The list stays as it was. It may be called again, but not from
// the function given to [OnUnreadable]. It always returns nil.
func (w *Watch[T]) Close() error { return w.cache.Close() }

// ErrNoInstance means that a service has no instance that could be picked: none is registered, or all are disabled or down.
var ErrNoInstance = errors.New("no instance")
