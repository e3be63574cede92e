package kratosregistry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-kratos/kratos/v2/registry"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	kept "github.com/gocurator/curator/recipes/node"
)

// Registry is a registry.Registrar and a registry.Discovery of Kratos. It needs no Close:
// Deregister removes an instance, and Stop closes a Watcher. Closing the client does both.
//
// All methods are safe for concurrent use. Their errors are *framework.OpError.
type Registry struct {
	client *framework.Client
	cfg    config

	mu         sync.Mutex // guards registered
	registered map[string]*registration
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Discovery = (*Registry)(nil)
)

// registration is an instance of this process.
type registration struct {
	stop context.CancelFunc // cancels the wait of the first Register
	made chan struct{}      // closed when the first Register has ended
	node *kept.Node         // set before made is closed; nil if Register has failed
}

// Option configures a Registry. [New] rejects invalid values with framework.ErrBadArgument.
type Option func(*config) error

type config struct {
	root       string
	unreadable func(path string, err error)
	grace      time.Duration
}

// WithRootPath sets the parent path of the services. The default is "/microservices", as in Kratos.
func WithRootPath(path string) Option {
	return func(c *config) error {
		c.root = path
		return framework.ValidatePath(path)
	}
}

// WithGrace sets how long a Watcher delays an empty list after a service has lost its last
// instance. The default is 5 s, and 0 disables the delay. Until the grace ends, calls of a crashed
// or deregistered instance fail to connect.
func WithGrace(d time.Duration) Option {
	return func(c *config) error {
		c.grace = d
		if d < 0 {
			return fmt.Errorf("%w: grace %v, must not be negative", framework.ErrBadArgument, d)
		}
		return nil
	}
}

// WithUnreadable calls f for each instance that is skipped because its node cannot be read. The
// default logs the path and the error with the client's logger.
func WithUnreadable(f func(path string, err error)) Option {
	return func(c *config) error {
		if f == nil {
			return fmt.Errorf("%w: nil unreadable function", framework.ErrBadArgument)
		}
		c.unreadable = f
		return nil
	}
}

// New returns a Registry. It sends no request.
//
// Errors are
//   - framework.ErrBadPath if the root path is invalid;
//   - framework.ErrBadArgument if client is nil, or another option is invalid.
func New(client *framework.Client, opts ...Option) (*Registry, error) {
	r := &Registry{client: client, cfg: config{root: "/microservices", grace: 5 * time.Second}, registered: make(map[string]*registration)}
	if client == nil {
		return nil, failed("registry", r.cfg.root, fmt.Errorf("%w: nil client", framework.ErrBadArgument))
	}
	r.client = engine.Uncompressed(client) // Kratos reads no compressed nodes
	r.cfg.unreadable = func(path string, err error) {
		engine.Of(client).Logger().Warn("instance skipped: its node cannot be read", slog.String("path", path), slog.Any("error", err))
	}
	for _, option := range opts {
		err := fmt.Errorf("%w: nil option", framework.ErrBadArgument)
		if option != nil {
			err = option(&r.cfg)
		}
		if err != nil {
			return nil, failed("registry", r.cfg.root, err)
		}
	}
	return r, nil
}

// Register creates the node of an instance, and returns when the node exists. ctx limits only this
// wait. The node is kept until Deregister.
//
// If the id is already registered, Register writes the instance's data, and after an error it may
// still write them later. If the first Register of an id fails, its node is deleted. Errors are
//   - framework.ErrBadArgument if a field is invalid;
//   - framework.ErrBadPath if the path is invalid;
//   - framework.ErrTooLong if the instance is too long;
//   - discovery.ErrNested if the service's name has a slash and lies below a service with
//     instances, or if another service lies below it;
//   - the error of ctx if ctx is done first, which also wraps the reason of the wait, such as
//     zk.ErrNoServer;
//   - context.Canceled, or framework.ErrEnded for a later Register of the id, if Deregister is
//     called first;
//   - framework.ErrClosed if the client is closed, or shuts down;
//   - framework.ErrSessionLost if the client is a view of a lost session: see framework.Client.In;
//   - the server's errors, such as zk.ErrNoAuth.
func (r *Registry) Register(ctx context.Context, service *registry.ServiceInstance) error {
	path, err := r.instancePath(service)
	if err == nil {
		err = r.register(ctx, path, service)
	}
	return failed("register", path, err)
}

func (r *Registry) register(ctx context.Context, path string, service *registry.ServiceInstance) error {
	data, err := json.Marshal(service)
	if err != nil {
		return fmt.Errorf("%w: %w", framework.ErrBadArgument, err)
	}
	for {
		r.mu.Lock()
		reg := r.registered[path]
		if reg == nil {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			reg = &registration{stop: stop, made: make(chan struct{})}
			r.registered[path] = reg
			r.mu.Unlock()
			return r.make(ctx, path, data, reg)
		}
		r.mu.Unlock()
		select {
		case <-reg.made:
		case <-ctx.Done():
			return ctx.Err()
		}
		if reg.node != nil {
			return reg.node.Set(ctx, data)
		}
	}
}

// make creates the node of a new registration.
func (r *Registry) make(ctx context.Context, path string, data []byte, reg *registration) error {
	defer close(reg.made)
	// Follow waits for a server, as Keep does.
	err := r.client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		if err := r.checkNested(ctx, in, path); err != nil {
			return nil, err
		}
		return nil, makeParent(ctx, in, path)
	})
	if err == nil {
		reg.node, err = kept.Keep(ctx, r.client, path, data, kept.WithIfTaken(kept.Replace))
	}
	if err != nil {
		r.drop(path, reg)
	}
	return err
}

// checkNested refuses an instance whose service lies above or below another one: Kratos' own
// registry lists no instance of a service with a child that is none.
func (r *Registry) checkNested(ctx context.Context, client *framework.Client, path string) error {
	dir, _ := framework.Split(path)
	found, err := r.firstChild(ctx, client, dir, path)
	if err != nil {
		return err
	}
	if found.path != "" && !found.instance {
		return fmt.Errorf("%w: %s", discovery.ErrNested, found.path)
	}
	below := strings.TrimSuffix(r.cfg.root, "/") + "/"
	for above, _ := framework.Split(dir); len(above) > len(below) && strings.HasPrefix(above, below); above, _ = framework.Split(above) {
		if found, err := r.firstChild(ctx, client, above, ""); err != nil {
			return err
		} else if found.instance {
			return fmt.Errorf("%w: %s", discovery.ErrNested, found.path)
		}
	}
	return nil
}

type child struct {
	path     string
	instance bool // false: the node of a service
}

// firstChild returns the first instance among the children of dir except own, or the node of a
// service there. It skips nodes that it is not permitted to read.
func (r *Registry) firstChild(ctx context.Context, client *framework.Client, dir, own string) (service child, err error) {
	names, _, err := client.Children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return child{}, nil
	}
	for _, name := range names {
		path := framework.Join(dir, name)
		if path == own {
			continue
		}
		found, stat, err := client.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoAuth): // servers since 3.8.4 return it
		case err != nil:
			return child{}, err
		case !found:
		case stat.DataLength > 0:
			return child{path, true}, nil
		case stat.NumChildren > 0:
			service = child{path, false}
		}
	}
	return service, err
}

// makeParent creates the node of a service if it is missing. Keep would create a container, which
// the servers delete when it is empty; Kratos' own registry does not expect that.
func makeParent(ctx context.Context, client *framework.Client, path string) error {
	dir, _ := framework.Split(path)
	found, _, err := client.Exists(ctx, dir)
	if err == nil && !found {
		_, err = client.Create(ctx, dir, []byte{}, framework.PersistentParents())
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// drop removes a registration that has failed, unless Deregister has.
func (r *Registry) drop(path string, reg *registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registered[path] == reg {
		delete(r.registered, path)
	}
}

// Deregister deletes the node of an instance, and returns when it is deleted. After the call the
// node is not recreated. It does nothing for an instance that this Registry has not registered.
//
// Errors are
//   - framework.ErrBadArgument if the instance is nil, or its id or its service's name is invalid;
//   - framework.ErrBadPath if the path is invalid;
//   - the error of ctx if ctx is done first: the node is deleted in the background;
//   - context.DeadlineExceeded if the deletion is not confirmed after 5 s, which also wraps
//     zk.ErrNoServer if no server can be reached: the node is deleted in the background, or with
//     the session;
//   - the server's error if it refuses the deletion, such as zk.ErrNoAuth.
func (r *Registry) Deregister(ctx context.Context, service *registry.ServiceInstance) error {
	path, err := r.instancePath(service)
	if err == nil {
		err = r.deregister(ctx, path)
	}
	return failed("deregister", path, err)
}

func (r *Registry) deregister(ctx context.Context, path string) error {
	r.mu.Lock()
	reg := r.registered[path]
	delete(r.registered, path)
	r.mu.Unlock()
	if reg == nil {
		return nil
	}
	reg.stop()
	done := make(chan error, 1)
	go func() { // ends with the node, at the latest when the session or the client does
		<-reg.made
		if reg.node == nil {
			done <- nil
			return
		}
		done <- reg.node.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// GetService reads the instances of a service, sorted by id. The result is empty for an unknown
// service. Frequent callers should use a Watcher.
//
// Errors are
//   - framework.ErrBadArgument if the name is empty;
//   - framework.ErrBadPath if its path is invalid;
//   - the error of ctx if ctx is done first;
//   - framework.ErrClosed if the client is closed;
//   - framework.ErrSessionLost if the client is a view of a lost session: see framework.Client.In;
//   - zk.ErrNoAuth if the client is not permitted to list the instances.
func (r *Registry) GetService(ctx context.Context, name string) ([]*registry.ServiceInstance, error) {
	w, err := r.watch(ctx, name)
	if err != nil {
		return nil, failed("get service", r.path(name), err)
	}
	defer func() { _ = w.Stop() }() // returns nil
	if err := w.values.Sync(ctx); err != nil {
		// The end of ctx also closes the cache.
		return nil, failed("get service", r.path(name), cmp.Or(ctx.Err(), err))
	}
	list, _ := w.list()
	return list, nil
}

// Watch returns a Watcher of a service, without waiting for its instances. The Watcher runs until
// ctx is done or Stop is called.
//
// Errors are
//   - framework.ErrBadArgument if the name is empty;
//   - framework.ErrBadPath if its path is invalid.
func (r *Registry) Watch(ctx context.Context, name string) (registry.Watcher, error) {
	w, err := r.watch(ctx, name)
	if err != nil {
		return nil, failed("watch", r.path(name), err)
	}
	return w, nil
}

func (r *Registry) path(name string) string { return framework.Join(r.cfg.root, name) }

// instancePath returns the path of an instance.
func (r *Registry) instancePath(service *registry.ServiceInstance) (string, error) {
	if service == nil {
		return r.cfg.root, fmt.Errorf("%w: nil instance", framework.ErrBadArgument)
	}
	dir := r.path(service.Name)
	if service.Name == "" || service.ID == "" || strings.Contains(service.ID, "/") {
		return dir, fmt.Errorf("%w: invalid instance id %q or service name %q", framework.ErrBadArgument, service.ID, service.Name)
	}
	path := framework.Join(dir, service.ID)
	return path, framework.ValidatePath(path)
}

// failed wraps an error with one operation and path, the user's. It returns nil for nil.
func failed(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := err.(*framework.OpError); ok { // not deeper: that would drop what wraps it
		err = inner.Err
	}
	return &framework.OpError{Op: op, Path: path, Err: err}
}
