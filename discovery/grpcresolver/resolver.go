package grpcresolver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
)

// scheme is the scheme of gRPC targets such as "curator:///orders".
const scheme = "curator"

const (
	// tryTimeout is the time after which a connection without a first list is given the reason.
	tryTimeout = 10 * time.Second
	retryPause = time.Second
)

// Builder builds resolvers for gRPC connections. Pass it to grpc.WithResolvers. All methods are
// safe for concurrent use.
type Builder[T any] struct {
	d    *discovery.Discovery[T]
	cfg  config
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	ends sync.WaitGroup

	mu       sync.Mutex // guards services, to which none is added after Close
	services map[string]*service[T]
}

// service is a followed service, from its first resolver until the Builder is closed.
type service[T any] struct {
	mu      sync.Mutex          // guards the fields below
	watch   *discovery.Watch[T] // nil until there is one
	err     error               // why there is none yet
	changed chan struct{}       // closed at each change of these, and replaced
}

// Option configures a Builder. [NewBuilder] rejects invalid values with framework.ErrBadArgument.
type Option func(*config) error

type config struct{ protocol string }

// WithProtocol sets the protocol whose port is used for instances of Dubbo. The default is "tri".
func WithProtocol(name string) Option {
	return opt.Checked(name != "", func(c *config) { c.protocol = name }, "empty protocol")
}

// NewBuilder returns a Builder for the services of d. The caller must call Close after closing all
// gRPC connections.
//
// It returns framework.ErrBadArgument if d is nil or an option is invalid.
func NewBuilder[T any](d *discovery.Discovery[T], opts ...Option) (*Builder[T], error) {
	b := &Builder[T]{d: d, cfg: config{protocol: "tri"}, services: make(map[string]*service[T])}
	if d == nil {
		return nil, fmt.Errorf("grpcresolver: %w: nil discovery", framework.ErrBadArgument)
	}
	if err := opt.Apply(&b.cfg, opts); err != nil {
		return nil, fmt.Errorf("grpcresolver: %w", err)
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b, nil
}

// Target returns the gRPC target of a service. It escapes '%', '?' and '#'.
func Target(service string) string { return scheme + ":///" + url.PathEscape(service) }

// Scheme returns "curator", the scheme of targets such as "curator:///orders".
func (b *Builder[T]) Scheme() string { return scheme }

// Close stops all watches. Connections keep their last lists of instances. The error is always nil,
// and later calls do nothing.
func (b *Builder[T]) Close() error {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	b.ends.Wait()
	return nil
}

// Build implements resolver.Builder.
//
// Errors are
//   - framework.ErrBadArgument if the target is invalid;
//   - framework.ErrClosed after Close.
func (b *Builder[T]) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	name := target.Endpoint()
	if u := target.URL; name == "" || u.Host != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, fmt.Errorf("resolve %v: %w: target must be %s:///service, escaped by Target", &u, framework.ErrBadArgument, scheme)
	}
	s, err := b.service(name)
	if err != nil {
		return nil, fmt.Errorf("resolve %v: %w", &target.URL, err)
	}
	r := &follower[T]{name: name, service: s, cc: cc, cfg: b.cfg}
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
	cfg     config
	cc      resolver.ClientConn
	stop    context.CancelFunc
	ends    sync.WaitGroup

	published bool // cc has a state; only run uses it
}

// ResolveNow does nothing: the list is always the newest.
func (r *follower[T]) ResolveNow(resolver.ResolveNowOptions) {}

// Close is called by gRPC when the connection is closed or idle.
func (r *follower[T]) Close() {
	r.stop()
	r.ends.Wait()
}

// run passes on the lists of the service and, until there is one, the reason for its absence.
func (r *follower[T]) run(ctx context.Context) {
	s := r.service
	for ctx.Err() == nil {
		s.mu.Lock()
		w, err, changed := s.watch, s.err, s.changed
		s.mu.Unlock()
		switch {
		case w != nil:
			for list, err := range w.Available(ctx) {
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

// publish passes a list on. After an empty state gRPC's own error hides the resolver's, so an empty
// list is only an error unless there is another one to replace.
func (r *follower[T]) publish(list []discovery.Instance[T]) {
	var state resolver.State
	for _, i := range list {
		if addr := r.addr(i); addr != "" {
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{
				Addresses:  []resolver.Address{{Addr: addr}},
				Attributes: attributes.New(instanceKey{}, attribute[T]{i}),
			})
		}
	}
	if len(state.Endpoints) > 0 || r.published {
		_ = r.cc.UpdateState(state) // an error asks a resolver that polls to try again
		r.published = true
	}
	if len(state.Endpoints) == 0 {
		r.cc.ReportError(fmt.Errorf("resolve %s:///%s: %w", scheme, r.name, discovery.ErrNoInstance))
	}
}

// addr returns the address at which an instance is called, or "".
func (r *follower[T]) addr(i discovery.Instance[T]) string {
	port := i.PortOf(r.cfg.protocol)
	if port == 0 && i.Port == 0 {
		port = i.SSLPort
	}
	if i.Address == "unix" && port != 0 { // without brackets gRPC dials a socket in the file system
		return "[unix]:" + strconv.Itoa(port)
	}
	return i.Addr(port)
}

type instanceKey struct{}

// attribute can be compared, as gRPC wants: payloads may be maps.
type attribute[T any] struct{ instance discovery.Instance[T] }

func (a attribute[T]) Equal(other any) bool {
	o, ok := other.(attribute[T])
	return ok && reflect.DeepEqual(a, o)
}

// Instance returns the discovered instance of an endpoint, for balancers that use its payload. The
// caller must not modify it.
func Instance[T any](e resolver.Endpoint) (i discovery.Instance[T], found bool) {
	a, found := e.Attributes.Value(instanceKey{}).(attribute[T])
	return a.instance, found
}
