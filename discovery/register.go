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
	kept "github.com/gocurator/curator/recipes/node"
)

// Registration is an instance of ours that is registered: what [Discovery.Register] returns.
//
// All methods are safe for concurrent use.
type Registration[T any] struct {
	d    *Discovery[T]
	node *kept.Node // nil if the instance is permanent: its node belongs to nobody
	path string
	last atomic.Pointer[Instance[T]]
}

var replace = kept.WithIfTaken(kept.Replace)

// keepAs is how the node of an instance is kept. That of a permanent one is not.
var keepAs = map[Type][]kept.Option{
	Dynamic:           {replace},
	Static:            {replace, kept.AsPersistent()},
	Permanent:         nil,
	DynamicSequential: {replace, kept.AsSequential(), kept.AsProtected()}, // found again by its id when a reply was lost
}

// Register makes the node of an instance and returns when it is there. ctx is for the waiting only.
//
// The node is kept until [Registration.Close]: it is made again after the end of the session and when somebody deletes it. A
// reconnect of a session that lives writes nothing. If there is a node already, as that of an earlier session of ours, it is
// replaced, so two processes must not register the same id. A [Permanent] instance is written once, and not kept.
//
// Errors are [framework.ErrBadArgument], [framework.ErrBadPath], [ErrOtherProfile], [framework.ErrTooLong], framework.ErrClosed
// and that of ctx, which also wraps the reason: zk.ErrNoServer, zk.ErrNoAuth and so on. After an error no node of ours stays, except
// a permanent one if retry.Unknown reports true.
func (d *Discovery[T]) Register(ctx context.Context, i Instance[T]) (_ *Registration[T], err error) {
	i = filled(i, Instance[T]{ID: uuid.New(), Type: Dynamic, RegistrationTime: time.Now().UTC().Truncate(time.Millisecond)})
	path, err := d.path(i.Name, i.ID)
	defer func() { err = operr.New("register", path, err) }()
	if err != nil {
		return nil, err
	}
	data, err := d.accept(i)
	if err == nil {
		err = d.checkProfile(ctx, i)
	}
	if err != nil {
		return nil, err
	}
	r := &Registration[T]{d: d, path: path}
	r.last.Store(&i)
	if i.Type != Permanent {
		if r.node, err = kept.Keep(ctx, d.client, path, data, keepAs[i.Type]...); err == nil {
			r.path = r.node.Path()
		}
	} else { // one that is there is replaced in one transaction: it may belong to a session, which would delete it at its end
		_, err = d.client.Multi(ctx, &zk.DeleteRequest{Path: path, Version: -1}, &zk.CreateRequest{Path: path, Data: data})
		if errors.Is(err, zk.ErrNoNode) {
			_, err = d.client.CreateOrSet(ctx, path, data, framework.ContainerParents())
		}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// filled returns i with what it does not have from another.
func filled[T any](i, from Instance[T]) Instance[T] {
	i.ID, i.Type, i.RegistrationTime = cmp.Or(i.ID, from.ID), cmp.Or(i.Type, from.Type), cmp.Or(i.RegistrationTime, from.RegistrationTime)
	return i
}

// accept encodes an instance. It refuses what no reader could use.
func (d *Discovery[T]) accept(i Instance[T]) (data []byte, err error) {
	_, known := keepAs[i.Type]
	switch {
	case !known:
		err = fmt.Errorf("type %q", i.Type)
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
func (r *Registration[T]) Path() string { return r.path }

// Update writes the instance, and returns when it is written. Its Name, ID and Type must be those of the registration; an
// empty ID, Type or RegistrationTime means that of the registration. Of several Updates at a time one wins, and
// [Registration.Instance] may be another.
//
// If Update fails, the instance is written when that becomes possible, as in [kept.Node.Set], but not if it is [Permanent].
// Errors are those of that, and framework.ErrBadArgument. Only after that and framework.ErrTooLong nothing has changed.
func (r *Registration[T]) Update(ctx context.Context, i Instance[T]) (err error) {
	defer func() { err = operr.New("update", r.path, err) }()
	was := r.Instance()
	i = filled(i, was)
	if i.Name != was.Name || i.ID != was.ID || i.Type != was.Type {
		return fmt.Errorf("%w: update of %v to %v", framework.ErrBadArgument, was, i)
	}
	data, err := r.d.accept(i)
	if err == nil {
		err = engine.Of(r.d.client).Fits(r.path, len(data))
	}
	if err != nil {
		return err
	}
	r.last.Store(&i)
	if r.node != nil {
		return r.node.Set(ctx, data)
	}
	_, err = r.d.client.CreateOrSet(ctx, r.path, data, framework.ContainerParents())
	return err
}

// Present reports whether the node is there and ours, and returns a channel that is closed when that, or [Registration.Err],
// may have changed: see [kept.Node.Present]. A permanent instance always is, and its channel is nil.
func (r *Registration[T]) Present() (there bool, changed <-chan struct{}) {
	if r.node == nil {
		return true, nil
	}
	return r.node.Present()
}

// Err is nil while the node is there with what was written last, and otherwise the reason why not: see [kept.Node.Err].
func (r *Registration[T]) Err() error {
	if r.node == nil {
		return nil
	}
	return r.node.Err()
}

// Close unregisters the instance, as [kept.Node.Close] does. A [Permanent] one stays: [Discovery.Unregister] deletes it. Close
// may be called again, and returns the same.
func (r *Registration[T]) Close() error {
	if r.node == nil {
		return nil
	}
	return r.node.Close()
}

// Drain unregisters the instance, and then waits for d or until ctx is done, so that clients can finish their requests. Call it
// before you stop the server. It returns the error of Close or of ctx, and framework.ErrBadArgument for
// a [Permanent] instance.
func (r *Registration[T]) Drain(ctx context.Context, d time.Duration) error {
	if r.node == nil {
		return operr.New("drain", r.path, fmt.Errorf("%w: a permanent instance stays", framework.ErrBadArgument))
	}
	return operr.New("drain", r.path, errors.Join(r.Close(), wait.Sleep(ctx, d)))
}
