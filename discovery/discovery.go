package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
)

// Discovery finds and registers instances of services whose payload is a T. It is Curator's
// ServiceDiscovery, but has no Close: the caller closes each [Registration] and each [Watch].
//
// All methods are safe for concurrent use. Their errors are *framework.OpError.
type Discovery[T any] struct {
	client *framework.Client
	base   string
	cfg    config
}

// Option configures a Discovery. [New] rejects invalid values with framework.ErrBadArgument.
type Option func(*config) error

type config struct {
	paths        func(name string) string
	class        string
	enabledField bool
	unreadable   func(path string, err error)
	downErrors   int
	downWindow   time.Duration
	grace        time.Duration
	format       Format
}

// WithPaths sets the function that returns the path of a service, whose children are its instances.
// f must be safe for concurrent use. It corresponds to getPathForInstances of Curator's
// DiscoveryPathConstructor.
//
// The default is the service's name below the base. [Discovery.Names] always lists the children of
// the base.
func WithPaths(f func(name string) string) Option {
	return opt.Checked(f != nil, func(c *config) { c.paths = f }, "nil paths function")
}

// WithJavaClass sets the Java class of payloads without one. The default is java.util.LinkedHashMap
// for objects and java.util.ArrayList for lists.
func WithJavaClass(class string) Option {
	return opt.Checked(class != "", func(c *config) { c.class = class }, "empty Java class")
}

// WithEnabledField adds the field "enabled" to the JSON of instances. Java adds it with
// compatibleSerializationMode(false).
func WithEnabledField() Option { return opt.Set(func(c *config) { c.enabledField = true }) }

// WithUnreadable calls f for each instance that is skipped because its node cannot be read. The
// default logs the path and the error with the client's logger.
//
// The reading goroutine calls f, so f should return soon. f must be safe for concurrent use.
func WithUnreadable(f func(path string, err error)) Option {
	return opt.Checked(f != nil, func(c *config) { c.unreadable = f }, "nil unreadable function")
}

// WithDownAfter makes [Watch.Pick] skip an instance after this number of errors, reported by
// [Watch.ReportError]. It is skipped until window has passed since the first error. Both must be
// positive, and the default is 2 errors and 30 s, as in Java.
func WithDownAfter(errors int, window time.Duration) Option {
	set := func(c *config) { c.downErrors, c.downWindow = errors, window }
	return opt.Checked(errors > 0 && window > 0, set, "WithDownAfter(%d, %v), both must be positive", errors, window)
}

// WithGrace sets how long [Watch.Pick] offers a deleted instance while no other is available. The
// default is 5 s. After a crash of the only instance, calls fail to connect until the grace ends;
// then there is no instance.
func WithGrace(d time.Duration) Option {
	return opt.Checked(d >= 0, func(c *config) { c.grace = d }, "grace %v, must not be negative", d)
}

// defaultGrace is more than twice the time in which Java's Curator 5.9.0 registers again after its
// session has ended: 1.16 to 2.35 s.
const defaultGrace = 5 * time.Second

// New returns a Discovery of the services below base. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if base is not a valid path;
//   - [framework.ErrBadArgument] if client is nil, or an option is invalid.
func New[T any](client *framework.Client, base string, opts ...Option) (*Discovery[T], error) {
	d := &Discovery[T]{client: client, base: base, cfg: config{downErrors: 2, downWindow: 30 * time.Second, grace: defaultGrace}}
	d.cfg.paths = func(name string) string { return framework.Join(base, name) }
	d.cfg.unreadable = func(path string, err error) {
		engine.Of(client).Logger().Warn("instance skipped: its node cannot be read", slog.String("path", path), slog.Any("error", err))
	}
	err := cmp.Or(framework.ValidatePath(base), opt.Apply(&d.cfg, opts))
	if client == nil {
		err = fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	if err != nil {
		return nil, operr.New("discovery", base, err)
	}
	return d, nil
}

// Names returns the sorted names of all services below the base, including services without
// instances. A name with a slash is cut before the slash.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
func (d *Discovery[T]) Names(ctx context.Context) ([]string, error) {
	names, err := children(ctx, d.client, d.base)
	return names, operr.New("names", d.base, err)
}

// Lookup reads all instances of a service, including disabled ones, sorted by their nodes' names.
// The result is empty for an unknown service. Frequent callers should use a [Watch].
//
// Errors are
//   - [framework.ErrBadArgument] if name is empty;
//   - [framework.ErrBadPath] if its path is invalid;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to list the
//     instances.
//
// An instance whose node cannot be read is skipped: see [WithUnreadable].
func (d *Discovery[T]) Lookup(ctx context.Context, name string) (list []Instance[T], err error) {
	dir, err := d.path(name)
	defer func() { err = operr.New("lookup", dir, err) }()
	if err != nil {
		return nil, err
	}
	nodes, err := children(ctx, d.client, dir)
	if err != nil {
		return nil, err
	}
	found, errs := make([]*Instance[T], len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for n, node := range nodes {
		// The goroutine exits with the reply.
		wg.Go(func() { found[n], errs[n] = read[T](ctx, d.client, d.cfg.format, name, framework.Join(dir, node)) })
	}
	wg.Wait()
	var first *Instance[T]
	for n, err := range errs {
		switch {
		case found[n] != nil:
			d.warn(found[n], first)
			first = cmp.Or(first, found[n])
			list = append(list, *found[n])
		case errors.Is(err, errUnreadable), errors.Is(err, zk.ErrNoAuth):
			// The path is an argument already.
			d.cfg.unreadable(framework.Join(dir, nodes[n]), operr.Bare(err))
		case err != nil:
			return nil, err
		}
	}
	return list, nil
}

// Get reads the instance with this id, and reports whether it exists. It does not find a
// [DynamicSequential] instance, whose node name ends with a number.
//
// Errors are
//   - an error that describes the data if they are not an instance. It wraps
//     [framework.ErrNotCompressed] if the client compresses and the data are not compressed;
//   - [framework.ErrBadArgument] if name or id is empty, or id contains a slash;
//   - [framework.ErrBadPath] if the path is invalid;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
func (d *Discovery[T]) Get(ctx context.Context, name, id string) (i Instance[T], found bool, err error) {
	path, err := d.path(name, id)
	defer func() { err = operr.New("get", path, err) }()
	if err != nil {
		return i, false, err
	}
	there, err := read[T](ctx, d.client, d.cfg.format, name, path)
	if there == nil {
		return i, false, err
	}
	return *there, true, nil
}

// read returns the instance of a node, or nil. The error is errUnreadable if the data are not an
// instance.
func read[T any](ctx context.Context, client *framework.Client, f Format, name, path string) (*Instance[T], error) {
	data, stat, err := get(ctx, client, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case errors.Is(err, framework.ErrNotCompressed):
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	case err != nil:
		return nil, err
	}
	return decode[T](f, name, path, data, stat)
}

// get reads a node. A node without data, such as a parent, is not compressed on any client. If the
// error is framework.ErrNotCompressed, the stat is valid.
func get(ctx context.Context, client *framework.Client, path string) (data []byte, stat *zk.Stat, err error) {
	data, stat, err = engine.Uncompressed(client).Get(ctx, path)
	if err == nil && len(data) > 0 {
		data, err = engine.Of(client).Decode(data)
	}
	return data, stat, err
}

// Unregister deletes the node of an instance, whichever client registered it. A missing node is not
// an error.
//
// Errors are
//   - [framework.ErrBadArgument] if name or id is empty, or id contains a slash;
//   - [framework.ErrBadPath] if the path is invalid;
//   - zk.ErrNotEmpty if the node has children, as a service below the service has;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
//
// If retry.Unknown is true of an error, the node may have been deleted.
func (d *Discovery[T]) Unregister(ctx context.Context, name, id string) error {
	path, err := d.path(name, id)
	if err == nil {
		err = d.client.Delete(ctx, path, framework.IfExists())
	}
	return operr.New("unregister", path, err)
}

// children lists the children of a node in order. A missing node has none.
func children(ctx context.Context, client *framework.Client, path string) ([]string, error) {
	list, _, err := client.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	slices.Sort(list)
	return list, err
}

// path returns the parent path of a service's instances, or with an id the path of that instance.
func (d *Discovery[T]) path(name string, id ...string) (path string, err error) {
	if name == "" {
		return d.base, fmt.Errorf("%w: empty service name", framework.ErrBadArgument)
	}
	path = d.cfg.paths(name)
	err = framework.ValidatePath(path) // even before an id: with an id, "" would be the root
	for _, id := range id {
		if id == "" || strings.Contains(id, "/") {
			return path, fmt.Errorf("%w: invalid instance id %q", framework.ErrBadArgument, id)
		}
		path = framework.Join(path, id)
	}
	return path, cmp.Or(err, framework.ValidatePath(path))
}
