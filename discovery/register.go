package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/node"
)

// Registration is an instance of ours that is registered: what [Discovery.Register] returns.
//
// All methods are safe for concurrent use.
type Registration[T any] struct {
	d    *Discovery[T]
	node *node.Node
	last atomic.Pointer[Instance[T]]
}

var replace = node.WithIfTaken(node.Replace)

// keepAs is how the node of an instance is kept. That of a permanent one is not.
var keepAs = map[Type][]node.Option{
	Dynamic:           {replace},
	Static:            {replace, node.AsPersistent()},
	DynamicSequential: {replace, node.AsSequential(), node.AsProtected()}, // found again by its id when a reply was lost
}

// Register makes the node of an instance and returns when it is there. ctx is for the waiting only.
//
// The node is kept until [Registration.Close]: it is made again after the end of the session and when somebody deletes it. A
// reconnect of a session that lives writes nothing. If there is a node already, as that of an earlier session of ours, it is
// replaced, so two processes must not register the same id.
//
// Errors are [framework.ErrBadArgument], also for a [Permanent] instance, [framework.ErrBadPath], [ErrOtherProfile],
// [framework.ErrTooLong], framework.ErrClosed and that of ctx, which also wraps the reason: zk.ErrNoServer, zk.ErrNoAuth and so
// on. An instance of Spring or Dubbo is refused with zk.ErrNoAuth at once if the client may not read the service. After an error no
// node of ours stays.
func (d *Discovery[T]) Register(ctx context.Context, i Instance[T]) (_ *Registration[T], err error) {
	i, path, data, err := d.prepare(ctx, i)
	defer func() { err = operr.New("register", path, err) }()
	if err != nil {
		return nil, err
	}
	options, known := keepAs[i.Type]
	switch {
	case i.Type == Permanent:
		return nil, fmt.Errorf("%w: a Permanent instance is kept by nobody: use Write", framework.ErrBadArgument)
	case !known:
		return nil, fmt.Errorf("%w: type %q", framework.ErrBadArgument, i.Type)
	}
	r := &Registration[T]{d: d}
	r.last.Store(&i)
	if r.node, err = node.Keep(ctx, d.client, path, data, options...); err != nil {
		return nil, err
	}
	return r, nil
}

// Write writes a [Permanent] instance, whatever its Type says, and returns it as it is written. Nobody keeps it, and it stays until
// [Discovery.Unregister] deletes it. A node that is there is replaced. Errors are those of [Discovery.Register], and what the
// server answered. If retry.Unknown reports true for one, the instance may have been written.
func (d *Discovery[T]) Write(ctx context.Context, i Instance[T]) (_ Instance[T], err error) {
	i.Type = Permanent
	i, path, data, err := d.prepare(ctx, i)
	defer func() { err = operr.New("write", path, err) }()
	if err != nil {
		return i, err
	}
	for {
		// In one transaction: a node that is there may belong to a session, which would delete it at its end.
		_, err = d.client.Multi(ctx, &zk.DeleteRequest{Path: path, Version: -1}, &zk.CreateRequest{Path: path, Data: data})
		if errors.Is(err, zk.ErrNoNode) {
			_, err = d.client.Create(ctx, path, data, framework.ContainerParents())
		}
		if !errors.Is(err, zk.ErrNodeExists) { // it came in between
			return i, err
		}
	}
}

// prepare completes an instance, and returns its path and what to write there.
func (d *Discovery[T]) prepare(ctx context.Context, i Instance[T]) (_ Instance[T], path string, data []byte, err error) {
	i = filled(i, Instance[T]{ID: uuid.New(), Type: Dynamic, RegistrationTime: time.Now().UTC().Truncate(time.Millisecond)})
	if path, err = d.path(i.Name, i.ID); err == nil {
		data, err = d.accept(i)
	}
	if err == nil {
		err = d.checkProfile(ctx, i)
	}
	return i, path, data, err
}

// filled returns i with what it does not have from another.
func filled[T any](i, from Instance[T]) Instance[T] {
	i.ID, i.Type, i.RegistrationTime = cmp.Or(i.ID, from.ID), cmp.Or(i.Type, from.Type), cmp.Or(i.RegistrationTime, from.RegistrationTime)
	return i
}

// accept encodes an instance. It refuses what no reader could use.
func (d *Discovery[T]) accept(i Instance[T]) (data []byte, err error) {
	switch {
	case i.Address == "" && i.URISpec == nil:
		err = errors.New("neither an address nor a URI spec")
	case i.Port == 0 && otherProfile[i.PayloadClass] != "":
		err = errors.New("a Spring or Dubbo instance without a port")
	case i.Port != int(uint16(i.Port)) || i.SSLPort != int(uint16(i.SSLPort)):
		err = fmt.Errorf("ports %d and %d", i.Port, i.SSLPort)
	default:
		data, err = encode(i, d.cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", framework.ErrBadArgument, err)
	}
	return data, nil
}

// Instance is what was registered, or given to the last Update that did not refuse it.
func (r *Registration[T]) Instance() Instance[T] { return *r.last.Load() }

// Path is the path of the node.
func (r *Registration[T]) Path() string { return r.node.Path() }

// Update writes the instance, and returns when it is written. Its Name, ID and Type must be those of the registration; an
// empty ID, Type or RegistrationTime means that of the registration. Of several Updates at a time one wins, and
// [Registration.Instance] may be another.
//
// If Update fails, the instance is written when that becomes possible, as in [node.Node.Set]. Errors are those of that, and
// framework.ErrBadArgument. Only after that and framework.ErrTooLong nothing has changed.
func (r *Registration[T]) Update(ctx context.Context, i Instance[T]) (err error) {
	defer func() { err = operr.New("update", r.Path(), err) }()
	was := r.Instance()
	i = filled(i, was)
	if i.Name != was.Name || i.ID != was.ID || i.Type != was.Type {
		return fmt.Errorf("%w: update of %v to %v", framework.ErrBadArgument, was, i)
	}
	data, err := r.d.accept(i)
	if err == nil {
		err = engine.Of(r.d.client).Fits(r.Path(), len(data))
	}
	if err != nil {
		return err
	}
	r.last.Store(&i)
	return r.node.Set(ctx, data)
}

// Present reports whether the node is there and ours, and returns a channel that is closed when that, or [Registration.Err],
// may have changed: see [node.Node.Present].
func (r *Registration[T]) Present() (there bool, changed <-chan struct{}) { return r.node.Present() }

// Err is nil while the node is there with what was written last, and otherwise the reason why not: see [node.Node.Err].
func (r *Registration[T]) Err() error { return r.node.Err() }

// Close unregisters the instance, as [node.Node.Close] does. It may be called again, and returns the same.
func (r *Registration[T]) Close() error { return r.node.Close() }

// Drain unregisters the instance as Close does, which ctx does not limit, and then waits for d or until ctx is done, so that clients can
// finish their requests. Call it before you stop the server. It returns the error of Close or of ctx.
func (r *Registration[T]) Drain(ctx context.Context, d time.Duration) error {
	return operr.New("drain", r.Path(), errors.Join(r.Close(), wait.Sleep(ctx, d)))
}
