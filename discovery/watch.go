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
	d     *Discovery[T]
	path  string
	cache *cache.Cache
	ctx   context.Context // ends with Close, and with the client
	stop  context.CancelFunc
	ends  sync.WaitGroup
	known map[string]version[T] // by path; only refresh uses it

	mu      sync.Mutex // guards what follows
	list    []Instance[T]
	enabled []Instance[T] // those of list that are
	changed chan struct{} // closed when list changes, and replaced
	down    map[nodeKey]errorCount
	turn    Turn
}

// version is what a node held when it was read.
type version[T any] struct {
	czxid, mzxid int64
	instance     Instance[T]
	usable       bool
}

// Watch follows a service, and returns when its instances are known. ctx is for the waiting only. A service without
// instances is followed as well. Errors are those of cache.New and cache.Cache.Sync. Whoever makes a Watch must [Watch.Close] it.
// It costs one watch on the servers, so services share one rather than have one for each request.
func (d *Discovery[T]) Watch(ctx context.Context, name string) (*Watch[T], error) {
	path, err := d.path(name)
	if err != nil {
		return nil, d.failed("watch", path, err)
	}
	c, err := cache.New(d.client, path, cache.Depth(1))
	if err == nil {
		if err = c.Sync(ctx); err != nil {
			_ = c.Close() // returns nil
		}
	}
	if err != nil {
		return nil, d.failed("watch", path, err)
	}
	w := &Watch[T]{d: d, path: path, cache: c, changed: make(chan struct{})}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.refresh()
	dirty := make(chan struct{}, 1)
	w.ends.Go(func() { // ends with the cache
		defer w.stop()
		for range c.Changes(w.ctx) {
			select {
			case dirty <- struct{}{}:
			default: // the next refresh sees this change too
			}
		}
	})
	w.ends.Go(func() { // ends with w.ctx
		for {
			select {
			case <-dirty:
				w.refresh()
			case <-w.ctx.Done():
				return
			}
		}
	})
	return w, nil
}

// refresh makes the list again from the cache. One goroutine at a time calls it.
func (w *Watch[T]) refresh() {
	var list, enabled []Instance[T]
	known := make(map[string]version[T])
	differs := false
	unreadable := map[string]error{}
	for n := range w.cache.Children(w.path) {
		v, found := w.known[n.Path]
		if !found || v.czxid != n.Stat.Czxid || v.mzxid != n.Stat.Mzxid {
			differs = differs || v.usable
			v = version[T]{czxid: n.Stat.Czxid, mzxid: n.Stat.Mzxid}
			if len(n.Data) > 0 { // otherwise see Discovery.read
				var err error
				if v.instance, err = fromNode[T](n.Path, n.Data, &n.Stat); err != nil {
					unreadable[n.Path] = err
				}
				v.usable = err == nil
			}
			differs = differs || v.usable
		}
		known[n.Path] = v
		if v.usable {
			list = append(list, v.instance)
			if !v.instance.Disabled {
				enabled = append(enabled, v.instance)
			}
		}
	}
	w.known = known
	w.mu.Lock()
	if differs || len(list) != len(w.list) {
		w.list, w.enabled = list, enabled
		close(w.changed)
		w.changed = make(chan struct{})
	}
	w.mu.Unlock()
	for path, err := range unreadable { // when the list is there, and nothing is locked
		w.d.cfg.unreadable(path, err)
	}
}

// Instances returns the instances of the service, also the disabled ones and those that are down, in the order of their
// nodes' names. It never asks a server, and never goes back in time. Payloads must not be changed: they are shared.
func (w *Watch[T]) Instances() []Instance[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// Changes yields the instances, first as they are now and then after each change, until ctx is done or the Watch or its client
// is closed. A slow reader gets the newest list instead of every one. Any number of goroutines may have an iteration
// of their own.
func (w *Watch[T]) Changes(ctx context.Context) iter.Seq[[]Instance[T]] {
	return func(yield func([]Instance[T]) bool) {
		for ctx.Err() == nil && w.ctx.Err() == nil {
			w.mu.Lock()
			list, changed := slices.Clone(w.list), w.changed
			w.mu.Unlock()
			if !yield(list) {
				return
			}
			select {
			case <-changed:
			case <-w.ctx.Done():
			case <-ctx.Done():
			}
		}
	}
}

// Current reports whether the list is up to date, and returns a channel that is closed when that may have changed: see
// [cache.Cache.Current]. While it is not, the last known list stays.
func (w *Watch[T]) Current() (ok bool, changed <-chan struct{}) { return w.cache.Current() }

// Err is nil until the Watch has ended, and then cache.ErrClosed, or framework.ErrClosed if the client was closed.
func (w *Watch[T]) Err() error { return w.cache.Err() }

// Close ends the Watch and all its Changes. The list stays as it was. It may be called again, but not from
// the function given to [OnUnreadable]. It always returns nil.
func (w *Watch[T]) Close() error {
	w.stop()
	err := w.cache.Close()
	w.ends.Wait()
	return err
}

// ErrNoInstance means that a service has no instance that could be picked: none is registered, or all are disabled or down.
var ErrNoInstance = errors.New("no instance")
