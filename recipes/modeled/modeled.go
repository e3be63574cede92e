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
// The default codec is [JSON]. It reads the values of Java's JacksonModelSerializer, which reads
// its values if the names of the fields are the same. Missing parents are created as containers.
// While Update writes, the node has a child for a moment: see package shared.
//
// # What it promises
//
//   - A node without data, such as a parent, is not a value: Get returns [zk.ErrNoNode], and List
//     and a View omit the node.
//   - A node that cannot be decoded, or is not compressed although the client compresses, hides
//     no other: List and a View have an entry with [ErrBadValue], even if it was never valid.
//   - Update applies the result of exactly one call of its function, or reports that the outcome is
//     unknown.
//   - Data that cannot be decoded are never overwritten by Update.
//   - A View never shows an older value after a newer value. Its values belong to the caller.
//
// # What it cannot promise
//
// List reads each node by a separate request, so its values need not be of one moment.
//
// A node that the client is not permitted to read has an entry with zk.ErrNoAuth in List. A View
// omits it.
package modeled

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/shared"
)

// ErrBadValue is returned for data that the codec cannot decode and for a value that it cannot
// encode. It wraps the codec's error. It is [framework.ErrBadValue].
var ErrBadValue = framework.ErrBadValue

// Nodes are the values below one path, by the names of their nodes. All methods are safe for
// concurrent use.
//
// Errors are [*framework.OpError] values. They wrap [framework.ErrBadPath] if a name is not a path
// element.
type Nodes[T any] struct {
	client *framework.Client // without compression: the codec compresses
	path   string
	codec  Codec[T]
	create []framework.CreateOption
}

// Option configures [New], which refuses invalid values with [framework.ErrBadArgument].
type Option func(*config) error

type config struct {
	codec  any // a Codec; nil: JSON
	create []framework.CreateOption
}

// WithCodec sets the codec of the values. The default is [JSON].
func WithCodec[T any](codec Codec[T]) Option {
	return opt.Checked(codec != nil, func(c *config) { c.codec = codec }, "nil codec")
}

// WithCreate sets the TTL, the ACL and the parents of new nodes. The default is a persistent node
// below containers. [New] refuses modes that would lose values: for an ephemeral value use package
// node.
func WithCreate(opts ...framework.CreateOption) Option {
	return opt.Set(func(c *config) { c.create = append(c.create, opts...) })
}

// New returns a handle on the values below path. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid;
//   - [framework.ErrBadArgument] if the client is nil or an option is invalid.
func New[T any](client *framework.Client, path string, opts ...Option) (_ *Nodes[T], err error) {
	defer func() { err = operr.New("modeled", path, err) }()
	cfg := config{codec: Codec[T](JSON[T]{}), create: []framework.CreateOption{framework.ContainerParents()}}
	if client == nil {
		return nil, fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	if err := cmp.Or(framework.ValidatePath(path), opt.Apply(&cfg, opts), checkCreation(cfg.create)); err != nil {
		return nil, err
	}
	codec, ok := cfg.codec.(Codec[T])
	if !ok {
		return nil, fmt.Errorf("%w: %T is not a codec of %v", framework.ErrBadArgument, cfg.codec, reflect.TypeFor[T]())
	}
	c := engine.Of(client)
	if p, compresses := codec.(packed[T]); compresses {
		codec = packed[T]{p.codec, c.Compress, c.Decompress}
	} else if c.Compresses() {
		codec = packed[T]{codec, c.Compress, c.Decompress}
	}
	return &Nodes[T]{engine.Uncompressed(client), path, codec, cfg.create}, nil
}

// checkCreation refuses options with which values would be lost, or not found.
func checkCreation(opts []framework.CreateOption) error {
	c, err := engine.CreationOf(opts)
	switch mode := framework.Mode(c.Mode); {
	case err != nil:
		return err
	case c.Protected:
		return fmt.Errorf("%w: protected nodes have other names", framework.ErrBadArgument)
	case mode != framework.Persistent:
		return fmt.Errorf("%w: create mode %v loses values, must be persistent", framework.ErrBadArgument, mode)
	case c.OrSet || c.Idempotent || c.Stat != nil:
		return fmt.Errorf("%w: OrSet, Idempotent and StatTo belong to one operation", framework.ErrBadArgument)
	}
	return nil
}

// Path returns the path of a value's node.
func (n *Nodes[T]) Path(name string) string { return strings.TrimSuffix(n.path, "/") + "/" + name }

// Get reads a value and the stat of its node.
//
// Errors are
//   - [zk.ErrNoNode] if the node does not exist or has no data;
//   - [ErrBadValue] if its data cannot be decoded: the stat is valid;
//   - zk.ErrNoAuth if the client is not permitted to read the node;
//   - [framework.ErrBadPath] if name is not a path element;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
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

// Create creates a value.
//
// Errors are
//   - [zk.ErrNodeExists] if the node exists;
//   - [ErrBadValue] if the codec cannot encode the value;
//   - [framework.ErrBadArgument] if the codec returns no data;
//   - zk.ErrNoAuth if the client is not permitted to create children of the parent;
//   - zk.ErrNoChildrenForEphemerals if a parent is ephemeral;
//   - zk.ErrInvalidACL if the server refuses the ACL of [WithCreate];
//   - [framework.ErrUnimplemented] if the server does not support the TTL of [WithCreate];
//   - [framework.ErrTooLong] if the data are too long for a request;
//   - [framework.ErrBadPath] if name is not a path element;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired] or
//     [framework.ErrQuotaExceeded].
//
// If Create fails after a reply was lost, retry.Unknown reports true for the error, and the node
// may exist.
func (n *Nodes[T]) Create(ctx context.Context, name string, v T) error {
	data, err := n.encode("create", name, v)
	if err == nil {
		_, err = n.client.Create(ctx, n.Path(name), data, n.create...)
	}
	return err
}

// Set creates a value, or replaces it and keeps the node's ACL and TTL. It returns the stat of the
// write. With an option, such as [framework.IfVersion], it does not create a node.
//
// Errors are
//   - [zk.ErrBadVersion] if the node has another version than the option says;
//   - [zk.ErrNoNode] if an option is given and the node does not exist;
//   - [ErrBadValue] if the codec cannot encode the value;
//   - [framework.ErrBadArgument] if the codec returns no data;
//   - zk.ErrNoAuth if the client is not permitted to create or write the node;
//   - zk.ErrNoChildrenForEphemerals if a parent is ephemeral;
//   - zk.ErrInvalidACL if the server refuses the ACL of [WithCreate];
//   - [framework.ErrUnimplemented] if the server does not support the TTL of [WithCreate];
//   - [framework.ErrTooLong] if the data are too long for a request;
//   - [framework.ErrBadPath] if name is not a path element;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired] or
//     [framework.ErrQuotaExceeded].
//
// If Set fails after a reply was lost, retry.Unknown reports true for the error, and the value may
// have been written.
func (n *Nodes[T]) Set(ctx context.Context, name string, v T, opts ...framework.SetOption) (*zk.Stat, error) {
	data, err := n.encode("set", name, v)
	if err != nil {
		return nil, err
	}
	path := n.Path(name)
	if len(opts) > 0 {
		return n.client.Set(ctx, path, data, opts...)
	}
	for { // until no other client creates or deletes the node between two requests
		stat, err := n.client.Set(ctx, path, data)
		if !errors.Is(err, zk.ErrNoNode) {
			return stat, err
		}
		stat = new(zk.Stat)
		_, err = n.client.Create(ctx, path, data, append(slices.Clone(n.create), framework.StatTo(stat))...)
		if errors.Is(err, framework.ErrUnimplemented) { // the server returns no stat
			if _, err = n.client.Create(ctx, path, data, n.create...); err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return stat, nil
		case !errors.Is(err, zk.ErrNodeExists):
			return nil, operr.New("set", path, err)
		}
	}
}

// Update replaces a value with the result of f, and returns it. If another client writes at the
// same time, f is called again with the newer value, until ctx is done. f must not modify its
// argument.
//
// Errors are
//   - [zk.ErrNoNode] if the node does not exist or has no data;
//   - [ErrBadValue] if its data cannot be decoded, or the result of f cannot be encoded;
//   - the error of f;
//   - [framework.ErrBadArgument] if f is nil or the codec returns no data;
//   - [zk.ErrNoChildrenForEphemerals] if the node is ephemeral, and so cannot be updated;
//   - zk.ErrNoAuth if the client is not permitted to read and write, or to create children of the
//     node;
//   - [framework.ErrTooLong] if the data are too long for a request;
//   - [framework.ErrBadPath] if name is not a path element;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the session was lost during the write, so that its outcome is
//     unknown;
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired] or
//     [framework.ErrQuotaExceeded].
//
// If retry.Unknown reports true for the error, the result may have been written, at most once.
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

// Delete deletes a value, whatever its version. Options are [framework.IfVersion],
// [framework.IfExists], [framework.Guaranteed], [framework.WithChildren] and
// [framework.Idempotent].
//
// Errors are
//   - [zk.ErrNoNode] if the node does not exist;
//   - zk.ErrNotEmpty if it has children;
//   - [zk.ErrBadVersion] if it has another version than the option says;
//   - zk.ErrNoAuth if the client is not permitted to delete children of the parent;
//   - [framework.ErrBadArgument] if an option is invalid, or options cannot be combined;
//   - [framework.ErrBadPath] if name is not a path element;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
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
	// Err is ErrBadValue if the data cannot be decoded: Value is zero, or in a View the last good
	// value. In a List it may also be the server's refusal, such as zk.ErrNoAuth; Stat is zero
	// then.
	Err error
}

// List reads all values, sorted by name. A value that cannot be decoded or read has an entry with
// an error, and hides no other. If the path does not exist, the list is empty.
//
// Errors are
//   - zk.ErrNoAuth if the client is not permitted to list the path;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
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
			switch {
			case err == nil || errors.Is(err, ErrBadValue):
				entries[i] = Entry[T]{name, v, *stat, err}
			case errors.Is(err, zk.ErrNoNode): // deleted since, or a parent
			case errors.Is(err, zk.ErrNoAuth):
				entries[i] = Entry[T]{Name: name, Err: err}
			default:
				once.Do(func() { failed = err })
				cancel()
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

// Observe yields the current value, and then the newest value after each change.
//
// The iteration continues after an error that says that the node has no value now:
//   - [zk.ErrNoNode] if it does not exist, or has no data;
//   - [ErrBadValue] if its data cannot be decoded;
//   - zk.ErrNoAuth when a read is refused. The read is repeated, once a minute at least.
//
// Other errors are in the last pair:
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadPath] if name is not a path element;
//   - another error that a retry cannot fix.
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
		pauses := wait.Pauses{First: time.Second, Last: time.Minute}
		for told := false; ; told = true {
			for data, read := range node.Observe(ctx) {
				if err = read; err != nil {
					break
				}
				told = false
				pauses.Reset()
				v, err := n.decode(data)
				if !yield(v, n.opError("observe", name, err)) {
					return
				}
			}
			refused := errors.Is(err, zk.ErrNoAuth)
			if !(refused && told) && !yield(none, err) || !refused {
				return
			}
			if closed := engine.Sleep(ctx, engine.Of(n.client), pauses.Next()); closed != nil {
				yield(none, n.opError("observe", name, closed))
				return
			}
		}
	}
}

// View is a live copy of all values. Its reads send no requests, and decode the value each time, so
// the caller may change it. All methods are safe for concurrent use.
type View[T any] struct {
	nodes *Nodes[T]
	cache *cache.Cache
	good  *cache.Values[[]byte] // the last data of each node that could be decoded
}

// View reads all values and returns a copy that follows them, through outages as well. The caller
// must call Close.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with the reason of the wait, such as
//     zk.ErrNoServer;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrNoAuth if the client is not permitted to read the path.
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
	good, err := cache.NewValues(c, func(node cache.Node) ([]byte, error) {
		if len(node.Data) == 0 || node.Path == n.path {
			return nil, cache.ErrNoValue
		}
		_, err := n.decode(slices.Clone(node.Data))
		return node.Data, err
	})
	if err != nil {
		return nil, err
	}
	if err := good.Sync(ctx); err != nil {
		return nil, err
	}
	return &View[T]{n, c, good}, nil
}

// Get returns the value of a node. If the node's newest data cannot be decoded, the entry has the
// last value that could be decoded, and an error. ok reports whether the node has data.
func (v *View[T]) Get(name string) (entry Entry[T], ok bool) {
	value, ok := v.good.Get(v.nodes.Path(name))
	if !ok && (value.Err == nil || errors.Is(value.Err, cache.ErrNoValue)) {
		return entry, false
	}
	entry = Entry[T]{Name: name, Stat: value.Node.Stat, Err: v.nodes.opError("view", name, value.Err)}
	if ok {
		entry.Value, _ = v.nodes.decode(slices.Clone(value.Value)) // it could be decoded before
	}
	return entry, true
}

// All iterates over all values, sorted by name.
func (v *View[T]) All() iter.Seq[Entry[T]] {
	return func(yield func(Entry[T]) bool) {
		for node := range v.cache.Children(v.nodes.path) {
			_, name := framework.Split(node.Path)
			if entry, ok := v.Get(name); ok && !yield(entry) {
				return
			}
		}
	}
}

// Sync waits until the copy is at least as new as the ensemble was at the call, through outages. It
// costs one write.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with the reason of the wait, such as
//     zk.ErrNoServer;
//   - [framework.ErrEnded] if the view was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrNoAuth if the client is not permitted to read the path.
func (v *View[T]) Sync(ctx context.Context) error { return v.good.Sync(ctx) }

// Close stops the view. The copy stays readable. The error is always nil.
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
	data, err := n.codec.Encode(v)
	switch {
	case err != nil:
		err = bad(err)
	case len(data) == 0:
		err = fmt.Errorf("%w: codec returned no data", framework.ErrBadArgument)
	}
	return data, n.opError(op, name, err)
}

func (n *Nodes[T]) decode(data []byte) (v T, err error) {
	if len(data) == 0 {
		return v, zk.ErrNoNode
	}
	if v, err = n.codec.Decode(data); err != nil {
		var none T
		return none, bad(err)
	}
	return v, nil
}

// bad returns an ErrBadValue that wraps an error of the codec.
func bad(err error) error { return fmt.Errorf("%w: %w", ErrBadValue, err) }

func (n *Nodes[T]) opError(op, name string, err error) error {
	return operr.New(op, n.Path(name), err)
}
