package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/gocurator/curator/framework"
)

// ErrNoValue is what a decoder returns for a node that holds no value, such as one that only has children. It is
// no fault: no earlier value is kept.
var ErrNoValue = errors.New("node holds no value")

// Values is a cache whose nodes are decoded: each version once, unless two goroutines come to it at the same moment. Data that cannot be decoded do not replace
// what could: the last good value of the node stays, together with the error. All methods are safe for concurrent use.
type Values[T any] struct {
	cache  *Cache
	decode func(n Node) (T, error)

	mu    sync.Mutex // guards known; not held while decode runs
	known map[string]decoded[T]
}

// Value is the value of a node.
type Value[T any] struct {
	// Value is decoded from Node or, if Err is not nil, from the last version of the node that was decoded well. If there is
	// none it is zero.
	Value T
	Node  Node  // as the cache has it
	Err   error // why Node could not be decoded: the decoder's error, or ErrNoValue
}

// decoded is a value and whether there is one.
type decoded[T any] struct {
	value Value[T]
	good  bool
	from  int64 // Mzxid of the version that decided on the two: the newest that was decoded well or held no value
}

// NewValues makes values of what a cache holds. decode is called from several goroutines, and not under a lock; it must
// not change the node's data. [JSON] is one. The error is [framework.ErrBadArgument] if an argument is nil or the cache
// is one [WithoutData], or that of [Cache.Err]. Values ends with its cache.
func NewValues[T any](c *Cache, decode func(n Node) (T, error)) (*Values[T], error) {
	if c == nil || decode == nil || c.cfg.withoutData {
		return nil, fmt.Errorf("values: %w: no cache, no decoder, or a cache without data", framework.ErrBadArgument)
	}
	v := &Values[T]{cache: c, decode: decode, known: make(map[string]decoded[T])}
	// Decoding everything as it comes is what makes the last good value known when it is needed.
	if !c.background(func() {
		for range v.Changes(context.Background()) { // ends with the cache
		}
	}) {
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

// Get returns the value of the node at path, and whether there is one: ok is false if the node is not in the cache, or
// no version of it could be decoded. It is as new as what [Cache.Get] returns, and never asks a server.
func (v *Values[T]) Get(path string) (value Value[T], ok bool) {
	n, found := v.cache.Get(path)
	if !found {
		return Value[T]{}, false
	}
	d := v.take(n)
	return d.value, d.good
}

// All iterates over all nodes that have a value, in the order of [Cache.All].
func (v *Values[T]) All() iter.Seq[Value[T]] {
	return func(yield func(Value[T]) bool) {
		for n := range v.cache.All() {
			if d := v.take(n); d.good && !yield(d.value) {
				return
			}
		}
	}
}

// ValueChange is a [Change] with the value of New, which is zero if Kind is Deleted. Its Err reports data that could not be
// decoded.
type ValueChange[T any] struct {
	Change
	Value Value[T]
}

// Changes is [Cache.Changes] with decoded values, which may be newer than New. Nodes without a value, and those that could not be
// decoded, come as well, with Value.Err.
func (v *Values[T]) Changes(ctx context.Context) iter.Seq[ValueChange[T]] {
	return func(yield func(ValueChange[T]) bool) {
		for ch := range v.cache.Changes(ctx) {
			vc := ValueChange[T]{Change: ch}
			if ch.Kind == Deleted {
				v.forget(ch.Old)
			} else {
				vc.Value = v.take(ch.New).value
			}
			if !yield(vc) {
				return
			}
		}
	}
}

// take returns what n holds, and decodes it unless that was done.
func (v *Values[T]) take(n Node) decoded[T] {
	v.mu.Lock()
	before, found := v.known[n.Path]
	v.mu.Unlock()
	if found && !newer(n, before.value.Node) {
		return before // perhaps of a newer version than n
	}
	var now decoded[T]
	now.value.Node = n
	now.value.Value, now.value.Err = v.decode(n)
	now.good = now.value.Err == nil
	if now.good || errors.Is(now.value.Err, ErrNoValue) {
		now.from = n.Stat.Mzxid
	}
	if !now.good {
		var none T
		now.value.Value = none
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	before, found = v.known[n.Path]
	same := found && before.value.Node.Stat.Czxid == n.Stat.Czxid
	late := found && !newer(n, before.value.Node)
	switch {
	case late && (!same || now.from <= before.from):
		return before // another goroutine was faster
	case late: // but what it decoded was bad, and this was not
		now.value.Node, now.value.Err = before.value.Node, before.value.Err
	case same && now.from == 0:
		now.value.Value, now.good, now.from = before.value.Value, before.good, before.from
	}
	// The deletion of a node that is gone already may have been told before.
	if _, there := v.cache.Get(n.Path); there {
		v.known[n.Path] = now
		v.prune()
	}
	return now
}

// maxGone is how many nodes may be known that are gone, beside as many as there are.
const maxGone = 16

// prune forgets the nodes that are gone if they are too many. [Cache.Changes] does not tell of a deletion if it has not told of the
// creation. v.mu is held.
func (v *Values[T]) prune() {
	if len(v.known) <= 2*v.cache.nodes()+maxGone {
		return
	}
	for path := range v.known {
		if _, there := v.cache.Get(path); !there {
			delete(v.known, path)
		}
	}
}

// forget drops the value of a node that was deleted.
func (v *Values[T]) forget(n Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known[n.Path].value.Node.Stat.Czxid <= n.Stat.Czxid {
		delete(v.known, n.Path)
	}
}

func newer(a, b Node) bool {
	return (&value{stat: b.Stat}).compare(&a.Stat) < 0
}
