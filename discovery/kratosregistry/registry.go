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

	"github.com/go-kratos/kratos/v2/registry"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	kept "github.com/gocurator/curator/recipes/node"
)

// Registry is a registry.Registrar and a registry.Discovery of Kratos. It has nothing to close: what is registered ends with
// Deregister, a Watcher with Stop, and all of it with the client.
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

// registration is an instance of ours, by the path of its node.
type registration struct {
	stop context.CancelFunc // ends the wait of the first Register
	made chan struct{}      // closed when that has ended
	node *kept.Node         // set before made is closed; nil if Register has failed
}

// Option configures a Registry. [New] refuses bad values with framework.ErrBadArgument.
type Option func(*config) error

type config struct {
	root       string
	unreadable func(path string, err error)
}

// WithRootPath sets the path below which the services are. The default is "/microservices", as Kratos' own.
func WithRootPath(path string) Option {
	return func(c *config) error {
		c.root = path
		return framework.ValidatePath(path)
	}
}

// OnUnreadable calls f for each instance that is left out because its node cannot be read: once for each version of the node
// and each Watcher, and once for each GetService. f should return soon. A node without data is no instance, and is not
// reported. The default logs it with the client's logger.
func OnUnreadable(f func(path string, err error)) Option {
	return func(c *config) error {
		if f == nil {
			return fmt.Errorf("%w: OnUnreadable(nil)", framework.ErrBadArgument)
		}
		c.unreadable = f
		return nil
	}
}

// New makes a Registry. It asks no server. Errors are framework.ErrBadArgument and framework.ErrBadPath.
func New(client *framework.Client, opts ...Option) (*Registry, error) {
	r := &Registry{client: client, cfg: config{root: "/microservices"}, registered: make(map[string]*registration)}
	if client == nil {
		return nil, failed("registry", r.cfg.root, fmt.Errorf("%w: nil client", framework.ErrBadArgument))
	}
	r.cfg.unreadable = func(path string, err error) {
		client.Logger().Warn("instance left out: its node cannot be read", slog.String("path", path), slog.Any("error", err))
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

// Register makes the node of an instance and returns when it is there. ctx is for the waiting only. The node is kept until
// Deregister. To register again what is registered writes it as it is now.
//
// Errors are framework.ErrBadArgument, framework.ErrBadPath, framework.ErrTooLong, framework.ErrClosed and that of ctx, which
// also wraps the reason: zk.ErrNoServer, zk.ErrNoAuth and so on; context.Canceled if Deregister was called. After an error of the
// first Register no node of ours stays. A later one may still be written, as with node.Node.Set.
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

// make makes the node of a new registration.
func (r *Registry) make(ctx context.Context, path string, data []byte, reg *registration) error {
	defer close(reg.made)
	err := r.client.Follow(ctx, func(ctx context.Context) (<-chan struct{}, error) { // waits for a server, as Keep does
		return nil, r.makeParent(ctx, path)
	})
	if err == nil {
		reg.node, err = kept.Keep(ctx, r.client, path, data, kept.WithIfTaken(kept.Replace))
	}
	if err != nil {
		r.drop(path, reg)
	}
	return err
}

// makeParent makes the node of a service if there is none. Keep would make a container, which the servers delete when it is
// empty; Kratos' own registry does not expect that.
func (r *Registry) makeParent(ctx context.Context, path string) error {
	dir, _ := framework.Split(path)
	found, _, err := r.client.Exists(ctx, dir)
	if err == nil && !found {
		_, err = r.client.Create(ctx, dir, []byte{}, framework.PersistentParents())
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

// Deregister deletes the node of an instance, and returns when it is gone. From the call on it is not made again. If ctx ends
// before, it is deleted in the background, or goes with the session. An instance that this Registry has not registered is left
// alone, and is no error. Errors are that of ctx, framework.ErrBadArgument, framework.ErrBadPath, and what the server refused,
// such as zk.ErrNoAuth.
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

// GetService returns the instances of a service, in the order of their ids. It asks the servers. Whoever asks often should use
// a Watcher. An unknown service has no instances, and that is no error. Errors are those of cache.Cache.Sync.
func (r *Registry) GetService(ctx context.Context, name string) ([]*registry.ServiceInstance, error) {
	w, err := r.watch(ctx, name)
	if err != nil {
		return nil, failed("get service", r.path(name), err)
	}
	defer func() { _ = w.Stop() }() // returns nil
	if err := w.values.Sync(ctx); err != nil {
		return nil, failed("get service", r.path(name), cmp.Or(ctx.Err(), err)) // the end of ctx closes the cache, too
	}
	list, _ := w.list()
	return list, nil
}

// Watch follows a service until ctx ends or Stop is called. It does not wait: Next does. Errors are framework.ErrBadArgument,
// framework.ErrBadPath and, here or from Next, framework.ErrClosed.
func (r *Registry) Watch(ctx context.Context, name string) (registry.Watcher, error) {
	w, err := r.watch(ctx, name)
	if err != nil {
		return nil, failed("watch", r.path(name), err)
	}
	return w, nil
}

func (r *Registry) path(name string) string { return framework.Join(r.cfg.root, name) }

// instancePath is where an instance is.
func (r *Registry) instancePath(service *registry.ServiceInstance) (string, error) {
	if service == nil {
		return r.cfg.root, fmt.Errorf("%w: nil instance", framework.ErrBadArgument)
	}
	dir := r.path(service.Name)
	if service.Name == "" || service.ID == "" || strings.Contains(service.ID, "/") {
		return dir, fmt.Errorf("%w: instance %q of service %q", framework.ErrBadArgument, service.ID, service.Name)
	}
	path := framework.Join(dir, service.ID)
	return path, framework.ValidatePath(path)
}

// failed names the operation that the user called, and its path, once. It returns nil for nil.
func failed(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := err.(*framework.OpError); ok { // not deeper: that would drop what wraps it
		err = inner.Err
	}
	return &framework.OpError{Op: op, Path: path, Err: err}
}
