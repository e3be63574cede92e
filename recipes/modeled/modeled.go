// Package modeled stores values of a Go type in the children of one node. It is the everyday half
// of Curator's ModeledFramework.
//
//	users, err := modeled.New[User](client, "/users")
//	if err != nil { ... }
//	err = users.Set(ctx, "ann", User{Age: 30})
//	ann, stat, err := users.Get(ctx, "ann")
//
// # On the wire
//
//	<path>/<name>    a persistent node; its data are the value, as the codec encodes it
//
// The default codec is [JSON], which reads what Java's JacksonModelSerializer writes, and is read
// by it if the names of the fields are the same. Missing parents are created as containers, as Java
// does. While Update writes, the node has a child for a moment: see package shared.
//
// # What it promises
//
//   - A node without data, as a parent is, is not a value: it is [zk.ErrNoNode] to Get, and missing
//     in List and in a View.
//   - Update applies the result of exactly one call of its function, or reports that the outcome is
//     unknown.
//   - Data that cannot be decoded are [ErrBadValue], and are never overwritten by Update.
//   - A View never shows an older value after a newer one: see package cache.
//
// # What it cannot promise
//
// List reads each node by a request of its own, so its values need not be of one moment. A
// container is deleted by the servers when it has become empty.
package modeled

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/shared"
)

// ErrBadValue is returned for data that the codec cannot decode, and wraps its error.
var ErrBadValue = errors.New("bad value")

// Nodes are the values below one path, by the names of their nodes. All methods are safe for
// concurrent use.
//
// Errors are [*framework.OpError] values. They wrap [framework.ErrBadPath] if a name is not a path
// element.
type Nodes[T any] struct {
	client *framework.Client
	path   string
	cfg    config[T]
}

// Option configures Nodes.
type Option[T any] func(*config[T]) error

type config[T any] struct {
	codec  Codec[T]
	create []framework.CreateOption
}

// WithCodec sets the codec of the values. The default is [JSON].
func WithCodec[T any](codec Codec[T]) Option[T] {
	return func(c *config[T]) error {
		if codec == nil {
			return fmt.Errorf("%w: nil codec", framework.ErrBadArgument)
		}
		c.codec = codec
		return nil
	}
}

// WithCreate sets the mode, TTL and ACL of new nodes. The default is a persistent node below
// containers. [New] refuses protected and sequential nodes, because the caller chooses the names.
func WithCreate[T any](opts ...framework.CreateOption) Option[T] {
	return func(c *config[T]) error {
		c.create = append(c.create, opts...)
		return nil
	}
}

// New returns a handle on the values below path. It sends no request. Errors are
// [framework.ErrBadPath] and [framework.ErrBadArgument].
func New[T any](client *framework.Client, path string, opts ...Option[T]) (*Nodes[T], error) {
	cfg := config[T]{codec: JSON[T]{}, create: []framework.CreateOption{framework.ContainerParents()}}
	err := framework.ValidatePath(path)
	if client == nil {
		err = fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	for _, opt := range opts {
		if opt == nil {
			err = operr.Join(err, fmt.Errorf("%w: nil option", framework.ErrBadArgument))
		} else if bad := opt(&cfg); err == nil {
			err = bad
		}
	}
	if err != nil {
		return nil, &framework.OpError{Op: "modeled", Path: path, Err: err}
	}
	return &Nodes[T]{client, path, cfg}, nil
}

// Path returns the path of a value's node.
func (n *Nodes[T]) Path(name string) string { return strings.TrimSuffix(n.path, "/") + "/" + name }

// Get reads a value. It returns [zk.ErrNoNode] if the node does not exist. If it returns
// [ErrBadValue], the stat is valid.
func (n *Nodes[T]) Get(ctx context.Context, name string) (v T, stat *zk.Stat, err error) {
	if err := n.check("get", name); err != nil {
		return v, nil, err
	}
	data, stat, err := n.client.Get(ctx, n.Path(name))
	if err != nil {
		return v, nil, err
	}
	v, err = n.decode(data)
	return v, stat, n.opError("get", name, err)
}

// Create creates a value. It returns [zk.ErrNodeExists] if the node exists.
func (n *Nodes[T]) Create(ctx context.Context, name string, v T) error {
	data, err := n.encode("create", name, v)
	if err == nil {
		_, err = n.client.Create(ctx, n.Path(name), data, n.cfg.create...)
	}
	return err
}

// Set creates a value, or replaces it and keeps the node's mode and ACL.
func (n *Nodes[T]) Set(ctx context.Context, name string, v T) error {
	data, err := n.encode("set", name, v)
	if err == nil {
		_, err = n.client.Create(ctx, n.Path(name), data, append(slices.Clone(n.cfg.create), framework.OrSet())...)
	}
	return err
}

// SetIf replaces the value if its node has the given version (see [zk.Stat]). It returns
// [zk.ErrBadVersion] if the node has another version, and [zk.ErrNoNode] if it does not exist.
func (n *Nodes[T]) SetIf(ctx context.Context, name string, version int32, v T) (*zk.Stat, error) {
	data, err := n.encode("set", name, v)
	if err != nil {
		return nil, err
	}
	return n.client.Set(ctx, n.Path(name), data, framework.IfVersion(version))
}

// Update replaces a value with the result of f, and returns it. If another client writes at the
// same time, f is called again with the newer value, until ctx is done. f must not modify its
// argument.
//
// Errors are
//   - [zk.ErrNoNode] if the node does not exist,
//   - [ErrBadValue] if its data cannot be decoded,
//   - the error of f,
//   - [zk.ErrNoChildrenForEphemerals] if the node is ephemeral, and so cannot be updated,
//   - the error of the write. If retry.Unknown is true of it, the result may have been written, at
//     most once.
func (n *Nodes[T]) Update(ctx context.Context, name string, f func(v T) (T, error)) (v T, err error) {
	err = n.check("update", name)
	if err == nil && f == nil {
		err = n.opError("update", name, fmt.Errorf("%w: nil function", framework.ErrBadArgument))
	}
	if err != nil {
		return v, err
	}
	node, err := shared.Bytes(n.client, n.Path(name))
	if err != nil {
		return v, err
	}
	var updated T
	_, err = node.Update(ctx, func(data []byte) ([]byte, error) {
		old, err := n.decode(data)
		if err != nil {
			return nil, err
		}
		if updated, err = f(old); err != nil {
			return nil, err
		}
		return n.encode("update", name, updated)
	})
	if err != nil {
		return v, err
	}
	return updated, nil
}

// Delete deletes a value with the options of [framework.Client.Delete].
func (n *Nodes[T]) Delete(ctx context.Context, name string, opts ...framework.DeleteOption) error {
	if err := n.check("delete", name); err != nil {
		return err
	}
	return n.client.Delete(ctx, n.Path(name), opts...)
}

// Entry is a value and its name.
type Entry[T any] struct {
	Name  string
	Value T
	Stat  zk.Stat
	Err   error // ErrBadValue: Value is zero, or in a View the last good one
}

// List reads all values, sorted by name. An entry whose data cannot be decoded has an error. If the
// path does not exist, the list is empty.
func (n *Nodes[T]) List(ctx context.Context) ([]Entry[T], error) {
	names, _, err := n.client.Children(ctx, n.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	slices.Sort(names)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	var once sync.Once
	entries := make([]Entry[T], len(names))
	turns := make(chan struct{}, listReads)
	var reads sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{}
		reads.Go(func() { // ends with its read
			defer func() { <-turns }()
			v, stat, err := n.Get(ctx, name)
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, ErrBadValue) {
				once.Do(func() { failed = err })
				cancel()
			} else if !errors.Is(err, zk.ErrNoNode) { // deleted since, or a parent
				entries[i] = Entry[T]{name, v, *stat, err}
			}
		})
	}
	reads.Wait()
	if failed != nil {
		return nil, failed
	}
	return slices.DeleteFunc(entries, func(e Entry[T]) bool { return e.Name == "" }), nil
}

// listReads is how many reads of a List are in flight.
const listReads = 64

// Observe yields the current value, and then the newest one after each change. After [zk.ErrNoNode]
// or [ErrBadValue], which mean that the node has no value now, the iteration continues. The last
// pair contains the error of ctx, or an error that a retry cannot fix.
func (n *Nodes[T]) Observe(ctx context.Context, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := n.check("observe", name); err != nil {
			yield(none, err)
			return
		}
		node, err := shared.Bytes(n.client, n.Path(name))
		if err != nil {
			yield(none, err)
			return
		}
		for data, err := range node.Observe(ctx) {
			if err != nil {
				yield(none, err)
				return
			}
			v, err := n.decode(data)
			if !yield(v, n.opError("observe", name, err)) {
				return
			}
		}
	}
}

// View is a live copy of all values. Its reads send no requests. All methods are safe for
// concurrent use.
type View[T any] struct {
	nodes  *Nodes[T]
	cache  *cache.Cache
	values *cache.Values[T]
}

// View reads all values and returns a copy that follows them, through outages as well. The caller
// must call Close. Errors are as for [cache.Cache.Sync].
func (n *Nodes[T]) View(ctx context.Context) (_ *View[T], err error) {
	c, err := cache.New(n.client, n.path, cache.WithDepth(1))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()
	values, err := cache.NewValues(c, func(node cache.Node) (T, error) {
		if len(node.Data) == 0 || node.Path == n.path {
			var none T
			return none, cache.ErrNoValue
		}
		return n.decode(node.Data)
	})
	if err != nil {
		return nil, err
	}
	if err := values.Sync(ctx); err != nil {
		return nil, err
	}
	return &View[T]{n, c, values}, nil
}

// Get returns the last decoded value, and an error if its newest data cannot be decoded. ok is
// false if no value was decoded.
func (v *View[T]) Get(name string) (entry Entry[T], ok bool) {
	value, ok := v.values.Get(v.nodes.Path(name))
	if !ok {
		return entry, false
	}
	return v.entry(value), true
}

// All iterates over all values, sorted by name.
func (v *View[T]) All() iter.Seq[Entry[T]] {
	return func(yield func(Entry[T]) bool) {
		for value := range v.values.All() {
			if !yield(v.entry(value)) {
				return
			}
		}
	}
}

func (v *View[T]) entry(value cache.Value[T]) Entry[T] {
	name := value.Node.Path[strings.LastIndexByte(value.Node.Path, '/')+1:]
	return Entry[T]{name, value.Value, value.Node.Stat, v.nodes.opError("view", name, value.Err)}
}

// Sync waits until the copy is as new as the ensemble was at the call: see [cache.Values.Sync].
func (v *View[T]) Sync(ctx context.Context) error { return v.values.Sync(ctx) }

// Values returns the cache of the view, which reports changes and whether it is current.
func (v *View[T]) Values() *cache.Values[T] { return v.values }

// Close stops the view. The copy stays readable.
func (v *View[T]) Close() error { return v.cache.Close() }

// check refuses names that are not one element of a path.
func (n *Nodes[T]) check(op, name string) error {
	err := framework.ValidatePath("/" + name)
	if err == nil && (name == "" || strings.Contains(name, "/")) {
		err = framework.ErrBadPath
	}
	if err != nil {
		return &framework.OpError{Op: op, Path: n.path, Err: fmt.Errorf("%w: invalid name %q", framework.ErrBadPath, name)}
	}
	return nil
}

func (n *Nodes[T]) encode(op, name string, v T) ([]byte, error) {
	if err := n.check(op, name); err != nil {
		return nil, err
	}
	data, err := n.cfg.codec.Encode(v)
	if err == nil && len(data) == 0 {
		err = fmt.Errorf("%w: codec returned no data", framework.ErrBadArgument)
	}
	return data, n.opError(op, name, err)
}

func (n *Nodes[T]) decode(data []byte) (v T, err error) {
	if len(data) == 0 {
		return v, zk.ErrNoNode
	}
	if v, err = n.cfg.codec.Decode(data); err != nil {
		var none T
		return none, fmt.Errorf("%w: %w", ErrBadValue, err)
	}
	return v, nil
}

func (n *Nodes[T]) opError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &framework.OpError{Op: op, Path: n.Path(name), Err: err}
}
