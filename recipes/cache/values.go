package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
)

// ErrNoValue is what a decoder returns for a node that holds no value, such as one that only has children. It is
// no fault: no earlier value is kept.
var ErrNoValue = errors.New("node holds no value")

// Values is a cache whose nodes are decoded, on one goroutine that follows its changes. Data that cannot be decoded do not
// replace what could: the last good value of the node stays, together with the error. All methods are safe for concurrent use.
type Values[T any] struct {
	cache  *Cache
	decode func(n Node) (T, error)
	source *reader[value]
	feed   feed[Value[T]]

	mu     sync.RWMutex // guards what follows; not held while decode runs
	known  map[string]*Value[T]
	loaded bool
}

// Value is the value of a node.
type Value[T any] struct {
	// Value is decoded from Node or, if Err is not nil, from the last version of the node that was decoded well. If there is
	// none it is zero.
	Value T
	Node  Node  // as the cache has it
	Err   error // why Node could not be decoded: the decoder's error, or ErrNoValue

	good bool // there is a value
}

// NewValues makes values of what a cache holds, which it decodes before it returns. decode is called with each version, unless
// it is replaced by a newer one before, by one goroutine at a time, and not under a lock. It must not change the node's data, and
// must not close the cache. [JSON] is one. The error is [framework.ErrBadArgument] if an argument is nil or the cache
// is one [WithoutData], or that of [Cache.Err]. Values ends with its cache.
func NewValues[T any](c *Cache, decode func(n Node) (T, error)) (*Values[T], error) {
	if c == nil || decode == nil || c.cfg.withoutData {
		return nil, fmt.Errorf("values: %w: no cache, no decoder, or a cache without data", framework.ErrBadArgument)
	}
	source := c.subscribe()
	v := &Values[T]{cache: c, decode: decode, source: source, known: make(map[string]*Value[T])}
	for len(source.first) > 0 {
		v.take(source.pop())
	}
	if !c.background(func() { // ends with the cache
		defer c.feed.unsubscribe(source)
		for i := range source.items(c.ctx, c.ctx) {
			v.take(i)
		}
	}) {
		c.feed.unsubscribe(source)
		return nil, fmt.Errorf("values: %w", c.Err())
	}
	return v, nil
}

// JSON decodes data as JSON. Empty data are [ErrNoValue]. It is a decoder for [NewValues].
func JSON[T any](n Node) (T, error) {
	var v T
	if len(n.Data) == 0 {
		return v, ErrNoValue
	}
	err := json.Unmarshal(n.Data, &v)
	return v, err
}

// take decodes what a change brings. It is not called concurrently.
func (v *Values[T]) take(i *item[value]) {
	if i.taken != nil {
		close(i.taken)
		return
	}
	old := v.known[i.path]
	var now *Value[T]
	if i.new != nil {
		now = &Value[T]{Node: i.new.node(i.path)}
		now.Value, now.Err = v.decode(now.Node)
		if now.good = now.Err == nil; !now.good {
			var none T
			now.Value = none
		}
		if old != nil && !now.good && !errors.Is(now.Err, ErrNoValue) {
			now.Value, now.good = old.Value, old.good
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case i.path == "":
		v.loaded = true
	case now == nil:
		delete(v.known, i.path)
	default:
		v.known[i.path] = now
	}
	v.feed.publish(i.path, old, now)
}

// Sync is [Cache.Sync], and then waits until what the cache holds has been decoded.
func (v *Values[T]) Sync(ctx context.Context) error {
	if err := v.cache.Sync(ctx); err != nil {
		return err
	}
	taken, err := make(chan struct{}), error(nil)
	v.source.push(&item[value]{taken: taken})
	select {
	case <-taken:
		return nil
	case <-v.cache.ctx.Done():
		err = v.cache.Err()
	case <-ctx.Done():
		err = wait.Err(ctx)
	}
	return &framework.OpError{Op: "sync values", Path: v.cache.path, Err: err}
}

// Get returns the value of the node at path, and whether there is one: ok is false if the node is not in the cache, or
// no version of it could be decoded. It never asks a server. It may be behind [Cache.Get] by what is being decoded: see [Values.Sync].
func (v *Values[T]) Get(path string) (value Value[T], ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if known := v.known[path]; known != nil {
		return *known, known.good
	}
	return Value[T]{}, false
}

// All iterates over all nodes that have a value, in the order of [Cache.All], as they are when the iteration begins.
func (v *Values[T]) All() iter.Seq[Value[T]] {
	return func(yield func(Value[T]) bool) {
		for _, value := range v.subscribe(nil) {
			if value.good && !yield(*value) {
				return
			}
		}
	}
}

// subscribe returns what is known, in order. A reader, if it is not nil, gets that and all changes from now on.
func (v *Values[T]) subscribe(r *reader[Value[T]]) []*Value[T] {
	v.mu.RLock() // nothing is published meanwhile
	known, loaded := slices.Collect(maps.Values(v.known)), v.loaded
	if r != nil {
		v.feed.subscribe(r)
	}
	v.mu.RUnlock()
	slices.SortFunc(known, func(a, b *Value[T]) int { return comparePaths(a.Node.Path, b.Node.Path) })
	for _, value := range known {
		if r != nil {
			r.first = append(r.first, &item[Value[T]]{path: value.Node.Path, new: value})
		}
	}
	if r != nil && loaded {
		r.first = append(r.first, &item[Value[T]]{})
	}
	return known
}

// ValueChange is a [Change] with the value of New, which is zero if Kind is Deleted or Loaded. Its Err reports data that could not be
// decoded.
type ValueChange[T any] struct {
	Change
	Value Value[T]
}

// Changes is [Cache.Changes] with decoded values. Nodes without a value, and those that could not be decoded, come as well, with
// Value.Err.
func (v *Values[T]) Changes(ctx context.Context) iter.Seq[ValueChange[T]] {
	return func(yield func(ValueChange[T]) bool) {
		r := newReader[Value[T]]()
		v.subscribe(r)
		defer v.feed.unsubscribe(r)
		for i := range r.items(ctx, v.cache.ctx) {
			ch := ValueChange[T]{Change: Change{Path: i.path, Kind: i.kind()}}
			if i.old != nil {
				ch.Old = i.old.Node
			}
			if i.new != nil {
				ch.New, ch.Value = i.new.Node, *i.new
			}
			if !yield(ch) {
				return
			}
		}
	}
}
