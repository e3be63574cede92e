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

// Watch is a live list of a service's instances. It is Curator's ServiceCache and ServiceProvider.
// All methods are safe for concurrent use.
type Watch[T any] struct {
	d     *Discovery[T]
	name  string // the name of the service
	path  string // the path of the service's node
	cache *cache.Cache
	// list is sorted by path. Neither a list nor its elements are modified.
	list  wait.Value[[]*Instance[T]]
	offer wait.Value[offer[T]] // what Pick and Available choose from

	mu    sync.Mutex            // guards the fields below; no function of a user is called under it
	picks uint64                // number of calls of Pick
	down  map[znode][]time.Time // the times of failed requests to an instance
}

// znode is one node at a path: a recreated node at the same path has another czxid.
type znode struct {
	path  string
	czxid int64
}

// Watch watches a service, and returns when its instances, possibly none, are known. ctx limits
// only this wait. The caller must call [Watch.Close].
//
// To wait for an instance, range over [Watch.Available] until its list is not empty. Each Watch
// sets one watch on the servers, so requests should share a Watch.
//
// Errors are
//   - [framework.ErrBadArgument] if name is empty;
//   - [framework.ErrBadPath] if its path is invalid;
//   - the error of ctx if ctx is done first, wrapped with the reason of the wait, such as
//     zk.ErrNoServer;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrNoAuth if the client is not permitted to list the instances.
func (d *Discovery[T]) Watch(ctx context.Context, name string) (_ *Watch[T], err error) {
	path, err := d.path(name)
	defer func() { err = operr.New("watch", path, err) }()
	if err != nil {
		return nil, err
	}
	w := &Watch[T]{d: d, name: name, path: path, down: make(map[znode][]time.Time)}
	if w.cache, err = cache.New(d.client, path, cache.WithDepth(1), cache.WithoutData(), cache.WithOnChange(w.take)); err != nil {
		return nil, err
	}
	if err := w.cache.Sync(ctx); err != nil {
		_ = w.Close() // returns nil
		return nil, err
	}
	return w, nil
}

// take decodes a changed node, and reports an unreadable one. The goroutine of the cache calls it.
func (w *Watch[T]) take(ch cache.Change) {
	if ch.Path == w.path {
		if left := decodeGoodbyes(ch.New.Data); len(left) > 0 {
			w.offer.Set(func(o *offer[T]) { o.take(left) })
		}
		return
	}
	i, err := decode[T](w.d.cfg.format, w.name, ch.Path, ch.New.Data, &ch.New.Stat) // a deleted one has no data
	if err != nil {
		defer w.d.cfg.unreadable(ch.Path, err)
	}
	list, _ := w.list.Get()
	at, there := slices.BinarySearchFunc(list, ch.Path, comparePath[T])
	list = slices.Clone(list)
	var gone *Instance[T]
	if there {
		gone = list[at]
		list = slices.Delete(list, at, at+1)
	}
	if i != nil {
		var other *Instance[T]
		if len(list) > 0 {
			other = list[0]
		}
		defer w.d.warn(i, other)
		list = slices.Insert(list, at, i)
		gone = nil
	}
	if there || i != nil { // otherwise nothing has changed
		now := time.Now()
		w.offer.Set(func(o *offer[T]) { o.replace(list, gone, now, w.d.cfg.grace) })
		w.list.Set(func(l *[]*Instance[T]) { *l = list })
	}
}

func comparePath[T any](i *Instance[T], path string) int { return cmp.Compare(i.path, path) }

// Instances returns the instances of the service, sorted by their nodes' names. The list includes
// disabled and failing instances. Instances sends no request.
//
// Later calls never return an older state. Payloads are shared and must not be modified.
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

// Observe yields the list of [Watch.Instances], and the newest list after each change. Any number
// of goroutines may call Observe.
//
// The last pair contains an error. Errors are
//   - the error of ctx if ctx is done;
//   - [framework.ErrEnded] after Close;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func (w *Watch[T]) Observe(ctx context.Context) iter.Seq2[[]Instance[T], error] {
	return w.follow(ctx, "observe", func() ([]*Instance[T], <-chan struct{}, <-chan time.Time) {
		list, changed := w.list.Get()
		return list, changed, nil
	})
}

// Available yields the instances from which [Watch.Pick] chooses, at first and after each change,
// for load balancers with a custom strategy. Reported errors do not exclude an instance.
//
// They are the instances that are not disabled. Without such an instance, they are the
// instances deleted within the grace set by [WithGrace].
//
// The last pair contains an error. Errors are
//   - the error of ctx if ctx is done;
//   - [framework.ErrEnded] after Close;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func (w *Watch[T]) Available(ctx context.Context) iter.Seq2[[]Instance[T], error] {
	return w.follow(ctx, "available", func() ([]*Instance[T], <-chan struct{}, <-chan time.Time) {
		o, changed := w.offer.Get()
		list := slices.DeleteFunc(slices.Clone(o.live), func(i *Instance[T]) bool { return i.Disabled })
		if len(list) > 0 {
			return list, changed, nil
		}
		reserve, left := o.reserve(time.Now())
		if len(reserve) == 0 {
			return nil, changed, nil
		}
		return reserve, changed, time.After(left)
	})
}

// follow yields the lists that next returns, each with a channel that is closed when it has
// changed, and a timer after which it may have.
func (w *Watch[T]) follow(ctx context.Context, op string, next func() ([]*Instance[T], <-chan struct{}, <-chan time.Time)) iter.Seq2[[]Instance[T], error] {
	return func(yield func([]Instance[T], error) bool) {
		var last []*Instance[T]
		for first := true; ; first = false {
			_, state := w.Current()
			if w.Err() != nil || ctx.Err() != nil {
				yield(nil, operr.New(op, w.path, cmp.Or(w.Err(), wait.Err(ctx))))
				return
			}
			list, changed, timer := next()
			if (first || !slices.Equal(list, last)) && !yield(copies(list), nil) {
				return
			}
			last = list
			select {
			case <-changed:
			case <-timer:
			case <-state: // the cache may have ended
			case <-ctx.Done():
			}
		}
	}
}

// Current reports whether the list shows everything that the client's server has reported.
// Otherwise [Watch.Instances] returns the last known list. The channel is closed when the result
// may have changed.
func (w *Watch[T]) Current() (ok bool, changed <-chan struct{}) { return w.cache.Current() }

// Err returns nil while the Watch is open. Then its error wraps [framework.ErrEnded] after Close,
// [framework.ErrClosed] after the client was closed, and [framework.ErrSessionLost] if the client
// is a view of a lost session (see [framework.Client.In]).
func (w *Watch[T]) Err() error { return w.cache.Err() }

// Close stops the Watch and all loops over it, and returns nil. The function set by
// [WithUnreadable] must not call Close.
func (w *Watch[T]) Close() error { return w.cache.Close() }

// ErrNoInstance is returned if no instance of a service is available.
var ErrNoInstance = errors.New("no instance")
