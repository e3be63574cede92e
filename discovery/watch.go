package discovery

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/cache"
)

// Watch is the list of a service's instances, which is kept up to date. It is Curator's ServiceCache and
// ServiceProvider.
//
// All methods are safe for concurrent use.
type Watch[T any] struct {
	d     *Discovery[T]
	name  string // of the service
	path  string // of its node
	cache *cache.Cache
	list  wait.Value[[]*Instance[T]] // in the order of their paths; neither a list nor what it refers to is changed

	mu   sync.Mutex // guards what follows; no function of a user is called under it
	turn Turn
	down map[int64][]time.Time // when requests to an instance have failed, by czxid of its node
}

// Watch follows a service, and returns when its instances are known. ctx is for the waiting only. A service without
// instances is followed as well. Errors are those of cache.New and cache.Cache.Sync. Whoever makes a Watch must [Watch.Close] it.
// It costs one watch on the servers, so services share one rather than have one for each request.
func (d *Discovery[T]) Watch(ctx context.Context, name string) (_ *Watch[T], err error) {
	path, err := d.path(name)
	defer func() { err = operr.New("watch", path, err) }()
	if err != nil {
		return nil, err
	}
	w := &Watch[T]{d: d, name: name, path: path, down: make(map[int64][]time.Time)}
	if w.cache, err = cache.New(d.client, path, cache.WithDepth(1), cache.WithoutData(), cache.OnChange(w.take)); err != nil {
		return nil, err
	}
	if err := w.cache.Sync(ctx); err != nil {
		_ = w.Close() // returns nil
		return nil, err
	}
	return w, nil
}

// take decodes what has changed, and reports a node that has no instance. One goroutine calls it.
func (w *Watch[T]) take(ch cache.Change) {
	if ch.Path == w.path {
		return
	}
	i, err := decode[T](w.name, ch.Path, ch.New.Data, &ch.New.Stat) // a deleted one has no data
	if err != nil {
		defer w.d.cfg.unreadable(ch.Path, err)
	}
	list, _ := w.list.Get()
	at, there := slices.BinarySearchFunc(list, ch.Path, func(i *Instance[T], path string) int { return cmp.Compare(i.path, path) })
	list = slices.Clone(list)
	if there {
		list = slices.Delete(list, at, at+1)
	}
	if i != nil {
		list = slices.Insert(list, at, i)
	}
	if there || i != nil { // otherwise nothing has changed
		w.list.Set(func(l *[]*Instance[T]) { *l = list })
	}
}

// Instances returns the instances of the service, also the disabled ones and those that are down, in the order of their
// nodes' names. It never asks a server, and never goes back in time. Payloads must not be changed: they are shared.
func (w *Watch[T]) Instances() []Instance[T] {
	list, _ := w.list.Get()
	return copies(list)
}

// copies returns copies of instances.
func copies[T any](list []*Instance[T]) []Instance[T] {
	all := make([]Instance[T], len(list))
	for n, i := range list {
		all[n] = *i
	}
	return all
}

// Changes yields the instances, first as they are now and then after each change. A slow reader gets the newest list instead of
// every one. The last pair has an error, after which the loop ends: that of ctx, framework.ErrEnded or framework.ErrClosed. Any
// number of goroutines may have an iteration of their own.
func (w *Watch[T]) Changes(ctx context.Context) iter.Seq2[[]Instance[T], error] {
	return func(yield func([]Instance[T], error) bool) {
		var last <-chan struct{} // of the list that was yielded
		for {
			_, state := w.Current()
			if w.Err() != nil || ctx.Err() != nil {
				yield(nil, operr.New("changes", w.path, cmp.Or(w.Err(), wait.Err(ctx))))
				return
			}
			list, changed := w.list.Get()
			if changed != last && !yield(copies(list), nil) {
				return
			}
			last = changed
			select {
			case <-changed:
			case <-state: // the cache may have ended
			case <-ctx.Done():
			}
		}
	}
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
