package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
)

// ErrNoValue is returned by a decoder for a node without a value. Unlike other errors, it clears
// the node's value.
var ErrNoValue = errors.New("node holds no value")

// Values is a cache of decoded nodes. If the data of a node cannot be decoded, its last good value
// is kept, together with the error. All methods are safe for concurrent use.
type Values[T any] struct {
	cache  *Cache
	decode func(n Node) (T, error)
	source *reader[value]
	known  store[Value[T]] // not locked while decode runs
}

// Value is the value of a node.
type Value[T any] struct {
	// Value is decoded from Node. If Err wraps framework.ErrBadValue, Value is the node's previous
	// value, or zero if there is none. If Err wraps ErrNoValue, Value is zero.
	Value T
	Node  Node // the node in the cache
	// Err is nil if Node was decoded. Otherwise it is the decoder's error, which wraps ErrNoValue,
	// or an error that wraps framework.ErrBadValue and the decoder's error.
	Err  error
	good bool // there is a value
}

func (v *Value[T]) node(string) Node { return v.Node }

// NewValues decodes the nodes of a cache, and returns when the cache's current content is decoded.
// [JSON] is a decoder. The Values stop with the cache.
//
// Calls of decode never overlap. decode must neither modify the data nor close the cache. A panic
// of decode counts as an error.
//
// Errors are
//   - [framework.ErrBadArgument] if an argument is nil or the cache is [WithoutData];
//   - [framework.ErrEnded] if the cache was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func NewValues[T any](c *Cache, decode func(n Node) (T, error)) (*Values[T], error) {
	if c == nil || decode == nil || c.cfg.withoutData {
		return nil, operr.New("values", "", fmt.Errorf("%w: nil cache, nil decoder, or a cache without data", framework.ErrBadArgument))
	}
	v := &Values[T]{cache: c, decode: decode, source: c.nodes.subscribe(), known: store[Value[T]]{path: c.Path()}}
	c.now.Set(func(*status) { // Close sets it, too: either it waits for run, or it is first
		if c.Err() == nil {
			c.wg.Go(v.run) // ends with the cache
		}
	})
	if err := v.wait(context.Background()); err != nil {
		c.nodes.readers.Delete(v.source)
		return nil, operr.New("values", c.Path(), err)
	}
	return v, nil
}

// JSON is a decoder for [NewValues] that decodes data as JSON. It returns [ErrNoValue] for empty
// data.
func JSON[T any](n Node) (v T, err error) {
	if len(n.Data) == 0 {
		return v, ErrNoValue
	}
	err = json.Unmarshal(n.Data, &v)
	return v, err
}

// run decodes changes until the cache ends.
func (v *Values[T]) run() {
	defer v.cache.end()
	for i := range v.cache.nodes.items(v.source, v.cache.ctx, v.cache.ctx) {
		switch {
		case i.taken != nil:
			close(i.taken)
		case i.path == "":
			v.known.endLoad()
		case i.new == nil:
			v.known.put(i.path, nil, true)
		default:
			v.known.put(i.path, v.value(i.new.node(i.path), orZero(v.known.get(i.path))), true)
		}
	}
}

// value decodes a node whose value was old.
func (v *Values[T]) value(n Node, old Value[T]) *Value[T] {
	x, err := *new(T), fmt.Errorf("%w: decoder panicked", framework.ErrBadValue)
	v.cache.client.Guard("decoder", n.Path, func() { x, err = v.decode(n) })
	switch {
	case err == nil:
		return &Value[T]{Node: n, Value: x, good: true}
	case errors.Is(err, ErrNoValue):
		old = Value[T]{}
	case !errors.Is(err, framework.ErrBadValue):
		err = fmt.Errorf("%w: %w", framework.ErrBadValue, err)
	}
	return &Value[T]{Node: n, Err: err, Value: old.Value, good: old.good}
}

// Sync waits until the cache is at least as new as the ensemble was at the call, through outages,
// and until its content is decoded.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with the reason of the wait, such as
//     zk.ErrNoServer;
//   - [framework.ErrEnded] if the cache was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrNoAuth if the client is not permitted to read the root;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress the
//     root's data.
func (v *Values[T]) Sync(ctx context.Context) error {
	if err := v.cache.Sync(ctx); err != nil {
		return err
	}
	return operr.New("sync values", v.cache.Path(), v.wait(ctx))
}

// wait returns when the cache's present content is decoded.
func (v *Values[T]) wait(ctx context.Context) error {
	taken := make(chan struct{})
	v.source.push(&item[value]{taken: taken})
	select {
	case <-taken:
		return nil
	case <-v.cache.ctx.Done():
	case <-ctx.Done():
	}
	return v.cache.ended(ctx)
}

// Get returns the value of the node at path, without a request. ok is false if the node is not in
// the cache, or no version of it could be decoded. It may lag behind [Cache.Get]: see
// [Values.Sync].
func (v *Values[T]) Get(path string) (value Value[T], ok bool) {
	value = orZero(v.known.get(path))
	return value, value.good
}

// All iterates over the nodes that have a value when the iteration starts, parents before children
// and siblings sorted by name.
func (v *Values[T]) All() iter.Seq[Value[T]] {
	return func(yield func(Value[T]) bool) {
		for _, i := range v.known.list(v.known.path, anyLevel) {
			if i.new.good && !yield(*i.new) {
				return
			}
		}
	}
}

// ValueChange is a [Change] with the value of New, which is zero if Kind is Deleted or Loaded.
type ValueChange[T any] struct {
	Change
	Value Value[T]
}

// Changes yields the decoded content of the cache as Created, then [Loaded], and then its changes,
// in the order of [Cache.Changes]. Nodes that could not be decoded are yielded with Value.Err. The
// last pair is a zero ValueChange with an error.
//
// A slow reader receives the newest state of each path instead of every state.
//
// Errors are
//   - the error of ctx if ctx is done;
//   - [framework.ErrEnded] if the cache was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func (v *Values[T]) Changes(ctx context.Context) iter.Seq2[ValueChange[T], error] {
	return changes(ctx, v.cache, &v.known, func(i *item[Value[T]]) ValueChange[T] {
		return ValueChange[T]{Change: change(i, (*Value[T]).node), Value: orZero(i.new)}
	})
}
