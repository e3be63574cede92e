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
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
)

// Discovery finds and registers instances of services whose payload is a T. It is Curator's ServiceDiscovery, but has
// nothing to close: what has is a [Registration] and a [Watch].
//
// All methods are safe for concurrent use. Their errors are *framework.OpError.
type Discovery[T any] struct {
	client *framework.Client
	base   string
	cfg    config
}

// Option configures a Discovery. [New] refuses bad values with framework.ErrBadArgument.
type Option func(*config) error

type config struct {
	paths        func(name string) string
	class        string
	enabledField bool
	unreadable   func(path string, err error)
	downErrors   int
	downWindow   time.Duration
}

// WithPaths sets where services are: f returns the path of the node whose children are the instances of a service. f must be safe for
// concurrent use. The default is the name of the service below the base, where [Discovery.Names] always looks. It is
// getPathForInstances of Curator's DiscoveryPathConstructor.
func WithPaths(f func(name string) string) Option {
	return opt.Checked(f != nil, func(c *config) { c.paths = f }, "WithPaths(nil)")
}

// WithJavaClass sets the Java class of objects and lists that we write as payloads and that have none of their own, such as
// "com.example.Meta". Java needs it to read an object. Without it an object is written as a java.util.LinkedHashMap, and a list as a
// java.util.ArrayList.
func WithJavaClass(class string) Option {
	return opt.Checked(class != "", func(c *config) { c.class = class }, "empty Java class")
}

// WithEnabledField writes the field "enabled", as Java does with compatibleSerializationMode(false). The default does not,
// as in Java, for readers of before version 5.
func WithEnabledField() Option { return opt.Set(func(c *config) { c.enabledField = true }) }

// OnUnreadable calls f for each instance that is left out because its node cannot be read: once for each version of the node
// and each [Watch], and once for each call that reads it. f is called by the goroutine that reads, so it should return
// soon, and must be safe for concurrent use. A node without data is no instance, and is not reported. A node that the
// client may not read is reported by [Discovery.Lookup], and not by a Watch. The default logs it with the client's logger.
func OnUnreadable(f func(path string, err error)) Option {
	return opt.Checked(f != nil, func(c *config) { c.unreadable = f }, "OnUnreadable(nil)")
}

// DownAfter sets when [Watch.Down] leaves an instance out: after so many errors within the window, which begins with
// the first error, and until the window ends. Both must be positive. The default is 2 errors in 30 s, as in Java.
func DownAfter(errors int, window time.Duration) Option {
	set := func(c *config) { c.downErrors, c.downWindow = errors, window }
	return opt.Checked(errors > 0 && window > 0, set, "DownAfter(%d, %v)", errors, window)
}

// New makes a Discovery of the services below base, such as "/services". It asks no server. Errors are
// framework.ErrBadArgument and framework.ErrBadPath.
func New[T any](client *framework.Client, base string, opts ...Option) (*Discovery[T], error) {
	d := &Discovery[T]{client: client, base: base, cfg: config{downErrors: 2, downWindow: 30 * time.Second}}
	d.cfg.paths = func(name string) string { return framework.Join(base, name) }
	d.cfg.unreadable = func(path string, err error) {
		client.Logger().Warn("instance left out: its node cannot be read", slog.String("path", path), slog.Any("error", err))
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

// Names returns the names of the services that are or were registered, in order. Java deletes no name, but the servers do
// when it has been empty for a while. Of a name with a slash it is the part before that. Without any, the list is empty and there is no
// error.
func (d *Discovery[T]) Names(ctx context.Context) ([]string, error) {
	names, err := d.children(ctx, d.base)
	return names, operr.New("names", d.base, err)
}

// Lookup returns all instances of a service, also the disabled ones, in the order of their nodes' names. It asks the server. Whoever
// looks often should use a [Watch]. An unknown service has no instances, and that is no error. Nodes that cannot be
// read are left out: see [OnUnreadable].
func (d *Discovery[T]) Lookup(ctx context.Context, name string) (list []Instance[T], err error) {
	dir, err := d.path(name)
	defer func() { err = operr.New("lookup", dir, err) }()
	if err != nil {
		return nil, err
	}
	nodes, err := d.children(ctx, dir)
	if err != nil {
		return nil, err
	}
	found, errs := make([]*Instance[T], len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for n, node := range nodes {
		wg.Go(func() { found[n], errs[n] = d.read(ctx, name, framework.Join(dir, node)) }) // ends with the answer
	}
	wg.Wait()
	for n, err := range errs {
		switch {
		case found[n] != nil:
			list = append(list, *found[n])
		case errors.Is(err, errUnreadable), errors.Is(err, zk.ErrNoAuth):
			d.cfg.unreadable(framework.Join(dir, nodes[n]), operr.Bare(err)) // the path is said once
		case err != nil:
			return nil, err
		}
	}
	return list, nil
}

// Get returns the instance with that id, and whether there is one. It finds no [DynamicSequential] instance, since a number is behind the
// id in the name of its node. A node that cannot be read is an error.
func (d *Discovery[T]) Get(ctx context.Context, name, id string) (i Instance[T], found bool, err error) {
	path, err := d.path(name, id)
	defer func() { err = operr.New("get", path, err) }()
	if err != nil {
		return i, false, err
	}
	read, err := d.read(ctx, name, path)
	if read == nil {
		return i, false, err
	}
	return *read, true, nil
}

// read returns the instance of a node, and nil if there is none.
func (d *Discovery[T]) read(ctx context.Context, name, path string) (*Instance[T], error) {
	data, stat, err := d.client.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return decode[T](name, path, data, stat)
}

// Unregister deletes the node of an instance, whoever registered it, such as a [Permanent] one. A [Registration] that is not
// closed makes its node again. That there is no such node is no error.
func (d *Discovery[T]) Unregister(ctx context.Context, name, id string) error {
	path, err := d.path(name, id)
	if err == nil {
		_, err = d.client.DeleteIfExists(ctx, path, -1)
	}
	return operr.New("unregister", path, err)
}

// children lists the children of a node in order. A node that does not exist has none.
func (d *Discovery[T]) children(ctx context.Context, path string) ([]string, error) {
	children, _, err := d.client.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	slices.Sort(children)
	return children, err
}

// path is where the instances of a service are, or the one with an id.
func (d *Discovery[T]) path(name string, id ...string) (path string, err error) {
	if name == "" {
		return d.base, fmt.Errorf("%w: empty name of a service", framework.ErrBadArgument)
	}
	path = d.cfg.paths(name)
	err = framework.ValidatePath(path) // also before an id: with one, "" would be the root
	for _, id := range id {
		if id == "" || strings.Contains(id, "/") {
			return path, fmt.Errorf("%w: id %q of an instance", framework.ErrBadArgument, id)
		}
		path = framework.Join(path, id)
	}
	return path, cmp.Or(err, framework.ValidatePath(path))
}
