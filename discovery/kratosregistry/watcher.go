package kratosregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-kratos/kratos/v2/registry"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
)

// watcher follows a service: what [Registry.Watch] returns.
type watcher struct {
	r      *Registry
	name   string
	ctx    context.Context // the context of the caller of Watch
	cache  *cache.Cache
	values *cache.Values[registry.ServiceInstance]
	news   chan struct{} // capacity 1: there may be another list
	ended  chan struct{} // closed when the cache has ended

	mu    sync.Mutex // guards shown
	shown []version  // what the last Next has returned
}

// version is one version of a node.
type version struct {
	path         string
	czxid, mzxid int64
}

func (r *Registry) watch(ctx context.Context, name string) (*watcher, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: empty service name", framework.ErrBadArgument)
	}
	c, err := cache.New(r.client, r.path(name), cache.WithDepth(1))
	if err != nil {
		return nil, err
	}
	w := &watcher{r: r, name: name, ctx: ctx, cache: c, news: make(chan struct{}, 1), ended: make(chan struct{})}
	if w.values, err = cache.NewValues(c, w.decode); err != nil {
		_ = c.Close() // returns nil
		return nil, err
	}
	go w.follow() // ends with ctx or the cache
	return w, nil
}

// follow signals a possible change of the list, once the first list is complete. It closes the
// cache when the context is done.
func (w *watcher) follow() {
	defer close(w.ended)
	loaded := false
	for ch := range w.values.Changes(w.ctx) {
		if loaded = loaded || ch.Kind == cache.Loaded; loaded {
			select {
			case w.news <- struct{}{}:
			default:
			}
		}
	}
	_ = w.cache.Close() // returns nil
}

// decode reads the instance of a node, and reports a node that has none.
func (w *watcher) decode(n cache.Node) (i registry.ServiceInstance, err error) {
	if n.Path == w.cache.Path() || len(n.Data) == 0 {
		return i, cache.ErrNoValue
	}
	var read *registry.ServiceInstance
	err = json.Unmarshal(n.Data, &read)
	switch {
	case err != nil:
	case read == nil:
		err = errors.New("null is not an instance")
	case read.Name != w.name:
		err = fmt.Errorf("instance belongs to service %q", read.Name)
	default:
		return *read, nil
	}
	w.r.cfg.unreadable(n.Path, err)
	return i, err
}

// Next waits for the next list of instances, in the order of their ids. The first list is not
// empty. A slow reader gets the newest list, not every one.
//
// Errors are
//   - the error of the context of Watch;
//   - framework.ErrEnded after Stop;
//   - framework.ErrClosed if the client is closed.
//
// The last two also wrap context.Canceled, at which Kratos' clients stop asking.
func (w *watcher) Next() ([]*registry.ServiceInstance, error) {
	var grace <-chan time.Time // the grace period of an empty list; nil: none
	for {
		if err := w.err(); err != nil {
			return nil, failed("next", w.cache.Path(), err)
		}
		over := false
		select {
		case <-w.news:
		case <-grace:
			over = true
		case <-w.ended:
			continue
		}
		list, state := w.next(over)
		switch {
		case state == another:
			return list, nil
		case state == same:
			grace = nil
		case grace == nil: // empty
			grace = time.After(w.r.cfg.grace)
		}
	}
}

// shape compares a list with the previous list.
type shape int

const (
	same shape = iota
	another
	empty // the list is empty, and the previous list was not
)

// next returns the list. An empty one counts as another one when the grace is over.
func (w *watcher) next(over bool) ([]*registry.ServiceInstance, shape) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list, versions := w.list()
	switch {
	case slices.Equal(versions, w.shown):
		return nil, same
	case len(versions) == 0 && !over:
		return nil, empty
	}
	w.shown = versions
	return list, another
}

// list returns copies of the instances, since Kratos sorts the endpoints of the ones that it
// compares.
func (w *watcher) list() (list []*registry.ServiceInstance, versions []version) {
	for v := range w.values.All() {
		if v.Err != nil {
			continue // v.Value is of an earlier version
		}
		i := v.Value
		i.Metadata, i.Endpoints = maps.Clone(i.Metadata), slices.Clone(i.Endpoints)
		list = append(list, &i)
		versions = append(versions, version{v.Node.Path, v.Node.Stat.Czxid, v.Node.Stat.Mzxid})
	}
	return list, versions
}

// err is why the watcher has ended, or nil.
func (w *watcher) err() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.cache.Err(); err != nil {
		return fmt.Errorf("%w: %w", err, context.Canceled)
	}
	return nil
}

// Stop ends the watcher, and every Next. It may be called again, and always returns nil.
func (w *watcher) Stop() error {
	_ = w.cache.Close() // returns nil
	<-w.ended
	return nil
}
