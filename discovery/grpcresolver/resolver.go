package grpcresolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
)

// Scheme is the scheme of targets, as in "curator:///orders".
const Scheme = "curator"

const (
	tryTimeout = 10 * time.Second // after it a connection that waits for its first list gets the reason
	retryPause = time.Second
)

// Builder makes resolvers for gRPC connections: give it to grpc.WithResolvers. All methods are safe for concurrent use.
type Builder[T any] struct {
	d    *discovery.Discovery[T]
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	ends sync.WaitGroup

	mu       sync.Mutex // guards services, and that none is added after Close
	services map[string]*service[T]
}

// service is a service that is followed, from its first resolver until the Builder is closed.
type service[T any] struct {
	mu      sync.Mutex          // guards what follows
	watch   *discovery.Watch[T] // nil until one is made
	err     error               // why there is none yet
	changed chan struct{}       // closed with each change of these, and replaced
}

// NewBuilder makes a Builder of resolvers for the services of d. Close it after the connections.
func NewBuilder[T any](d *discovery.Discovery[T]) *Builder[T] {
	b := &Builder[T]{d: d, services: make(map[string]*service[T])}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// Scheme is [Scheme].
func (b *Builder[T]) Scheme() string { return Scheme }

// Close ends what follows the services. Connections keep the servers of their last list. It may be called again, and always
// returns nil.
func (b *Builder[T]) Close() error {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	b.ends.Wait()
	return nil
}

// Build is called by gRPC, and does not wait. Errors are framework.ErrBadArgument if the target names no service or has an
// authority, and framework.ErrClosed after Close.
func (b *Builder[T]) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	name := target.Endpoint()
	if name == "" || target.URL.Host != "" {
		return nil, fmt.Errorf("resolve %v: %w: a target is %s:///service", &target.URL, framework.ErrBadArgument, Scheme)
	}
	s, err := b.service(name)
	if err != nil {
		return nil, fmt.Errorf("resolve %v: %w", &target.URL, err)
	}
	r := &follower[T]{name: name, service: s, cc: cc}
	ctx, stop := context.WithCancel(b.ctx)
	r.stop = stop
	r.ends.Go(func() { r.run(ctx) }) // ends with Close of the resolver or of the Builder
	return r, nil
}

// service returns the service of that name, and follows it from now on.
func (b *Builder[T]) service(name string) (*service[T], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return nil, framework.ErrClosed
	}
	s := b.services[name]
	if s == nil {
		s = &service[T]{changed: make(chan struct{})}
		b.services[name] = s
		b.ends.Go(func() { s.follow(b.ctx, b.d, name) }) // ends with Close
	}
	return s, nil
}

// follow tries until there is a watch, and closes it at the end.
func (s *service[T]) follow(ctx context.Context, d *discovery.Discovery[T], name string) {
	for {
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		w, err := d.Watch(try, name)
		cancel()
		s.mu.Lock()
		s.watch, s.err = w, err
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		switch {
		case err == nil:
			<-ctx.Done()
			_ = w.Close() // returns nil
			return
		case errors.Is(err, framework.ErrClosed):
			return // no later try can help
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return
		}
	}
}

// follower is the resolver of a connection.
type follower[T any] struct {
	name    string
	service *service[T]
	cc      resolver.ClientConn
	stop    context.CancelFunc
	ends    sync.WaitGroup

	published bool // cc has a state; only run uses it
}

// ResolveNow does nothing: the list is always the newest that is known.
func (r *follower[T]) ResolveNow(resolver.ResolveNowOptions) {}

// Close is called by gRPC when the connection is closed or idle.
func (r *follower[T]) Close() {
	r.stop()
	r.ends.Wait()
}

// run passes on the lists of the service and, until there is one, why there is none.
func (r *follower[T]) run(ctx context.Context) {
	s := r.service
	for ctx.Err() == nil {
		s.mu.Lock()
		w, err, changed := s.watch, s.err, s.changed
		s.mu.Unlock()
		switch {
		case w != nil:
			for list, err := range w.Changes(ctx) {
				switch {
				case err == nil:
					r.publish(list)
				case ctx.Err() == nil: // the client is closed
					r.cc.ReportError(err)
				}
			}
			return
		case err != nil:
			r.cc.ReportError(err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// publish passes a list on. After an empty state gRPC's own error hides ours, so an empty list is only an error unless
// there is another one to replace.
func (r *follower[T]) publish(list []discovery.Instance[T]) {
	var state resolver.State
	for _, i := range list {
		port := i.Port
		if port == 0 {
			port = i.SSLPort
		}
		if i.Disabled || i.Address == "" || port == 0 {
			continue
		}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses:  []resolver.Address{{Addr: net.JoinHostPort(i.Address, strconv.Itoa(port))}},
			Attributes: attributes.New(instanceKey{}, attribute[T]{i}),
		})
	}
	if len(state.Endpoints) > 0 || r.published {
		_ = r.cc.UpdateState(state) // an error asks a resolver that polls to try again
		r.published = true
	}
	if len(state.Endpoints) == 0 {
		r.cc.ReportError(fmt.Errorf("resolve %s:///%s: %w", Scheme, r.name, discovery.ErrNoInstance))
	}
}

type instanceKey struct{}

// attribute can be compared, as gRPC wants: payloads may be maps.
type attribute[T any] struct{ instance discovery.Instance[T] }

func (a attribute[T]) Equal(other any) bool {
	o, ok := other.(attribute[T])
	return ok && reflect.DeepEqual(a, o)
}

// Instance returns the instance that an endpoint was made of, for balancers that use its payload. It must not be changed.
func Instance[T any](e resolver.Endpoint) (i discovery.Instance[T], found bool) {
	a, found := e.Attributes.Value(instanceKey{}).(attribute[T])
	return a.instance, found
}
