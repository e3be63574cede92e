package discovery

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/gocurator/curator/recipes/cache"
)

// Watch is the list of a service's instances, which is kept up to date. It is Curator's ServiceCache and
// ServiceProvider.
//
// All methods are safe for concurrent use.
type Watch[T any] struct {
	d      *Discovery[T]
	cache  *cache.Cache
	values *cache.Values[Instance[T]]
	ended  chan struct{} // closed when the cache has ended

	mu      sync.Mutex    // guards what follows; OnUnreadable is never called under it
	known   *instances[T] // nil: values may have others
	changed chan struct{} // closed when known becomes nil, and replaced
	picks   picks
}

// instances are those of a service at one moment. They are not changed.
type instances[T any] struct{ all, enabled []Instance[T] }

// Watch follows a service, and returns when its instances are known. ctx is for the waiting only. A service without
// instances is followed as well. Errors are those of cache.New and cache.Cache.Sync. Whoever makes a Watch must [Watch.Close] it.
// It costs one watch on the servers, so services share one rather than have one for each request.
func (d *Discovery[T]) Watch(ctx context.Context, name string) (*Watch[T], error) {
	path, err := d.path(name)
	if err != nil {
		return nil, d.failed("watch", path, err)
	}
	c, err := cache.New(d.client, path, cache.WithDepth(1))
	if err != nil {
		return nil, d.failed("watch", path, err)
	}
	w := &Watch[T]{d: d, cache: c, ended: make(chan struct{}), changed: make(chan struct{})}
	if w.values, err = cache.NewValues(c, w.decode); err == nil {
		err = w.values.Sync(ctx)
	}
	if err != nil {
		_ = c.Close() // returns nil
		return nil, d.failed("watch", path, err)
	}
	go w.follow() // ends with the cache
	return w, nil
}

// decode reads the instance of a node, and reports a node that has none.
func (w *Watch[T]) decode(n cache.Node) (i Instance[T], err error) {
	if n.Path == w.cache.Path() || len(n.Data) == 0 { // see Discovery.read
		return i, cache.ErrNoValue
	}
	if i, err = fromNode[T](n.Path, n.Data, &n.Stat); err != nil {
		w.d.cfg.unreadable(n.Path, err)
	}
	return i, err
}

// follow notes that there is something new. Making the list is left to whoever wants it, so a hundred changes cost one list.
func (w *Watch[T]) follow() {
	defer close(w.ended)
	for range w.values.Changes(context.Background()) {
		w.mu.Lock()
		w.known = nil
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

// now returns the instances, and a channel that is closed when there may be others. The caller holds mu.
func (w *Watch[T]) now() (*instances[T], <-chan struct{}) {
	if w.known == nil {
		var all []Instance[T]
		for v := range w.values.All() {
			if v.Err == nil { // otherwise v.Value is of an earlier version
				all = append(all, v.Value)
			}
		}
		w.known = &instances[T]{slices.Clone(all), nil} // without the room for more
		w.known.enabled = w.known.all
		if disabled := func(i Instance[T]) bool { return i.Disabled }; slices.ContainsFunc(all, disabled) {
			w.known.enabled = slices.DeleteFunc(all, disabled)
		}
	}
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
		for ctx.Err() == nil && w.Err() == nil {
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
			case <-w.ended:
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

// Err is nil until the Watch has ended, and then cache.ErrClosed, or framework.ErrClosed if the client was closed.
func (w *Watch[T]) Err() error { return w.cache.Err() }

// Close ends the Watch and all its Changes. The list stays as it was. It may be called again, but not from
// the function given to [OnUnreadable]. It always returns nil.
func (w *Watch[T]) Close() error {
	_ = w.cache.Close() // returns nil
	<-w.ended
	return nil
}

// ErrNoInstance means that a service has no instance that could be picked: none is registered, or all are disabled or down.
var ErrNoInstance = errors.New("no instance")
