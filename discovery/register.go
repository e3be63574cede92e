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

// Registration is an instance registered by [Discovery.Register]. All methods are safe for
// concurrent use.
type Registration[T any] struct {
	d    *Discovery[T]
	node *node.Node
	last atomic.Pointer[Instance[T]]
}

var replace = node.WithIfTaken(node.Replace)

// keepAs lists the options of the kept node of an instance, by type. A Permanent node is not kept.
var keepAs = map[Type][]node.Option{
	Dynamic: {replace},
	Static:  {replace, node.WithPersistence()},
	// The id identifies the node if the reply to its create is lost.
	DynamicSequential: {replace, node.WithSequence(), node.WithProtection()},
}

// Register creates the node of an instance, waits until it exists, and keeps it until
// [Registration.Close]. ctx limits only the wait. Register replaces an existing node, so two
// processes must not register the same id.
//
// If Register fails, it deletes its node. Errors are
//   - [ErrOtherProfile] if the service has an instance of another profile;
//   - [ErrNested] if the service's name has a slash and lies below a service with instances, or if
//     another service lies below its name;
//   - [framework.ErrBadArgument] if a field is invalid, if the payload cannot be encoded as JSON,
//     if the instance is [Permanent], if Spring or Dubbo could not read or call it, or if the
//     format is not [Curator];
//   - [framework.ErrBadPath] if the path is invalid;
//   - [framework.ErrTooLong] if the instance is too long;
//   - the error of ctx if ctx is done first. It also wraps the reason of the wait, such as
//     zk.ErrNoServer or zk.ErrNoAuth;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry of the check of other instances
//     succeeded;
//   - retry.ErrExhausted, which wraps that error, if the check was retried;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrNoAuth if the client is not permitted to read the other instances of an instance of
//     Spring or Dubbo.
func (d *Discovery[T]) Register(ctx context.Context, i Instance[T]) (_ *Registration[T], err error) {
	i, path, data, err := d.prepare(ctx, i)
	defer func() { err = operr.New("register", path, err) }()
	if err != nil {
		return nil, err
	}
	options, known := keepAs[i.Type]
	switch {
	case i.Type == Permanent:
		return nil, fmt.Errorf("%w: cannot register a Permanent instance: use Write", framework.ErrBadArgument)
	case !known:
		return nil, fmt.Errorf("%w: unknown instance type %q", framework.ErrBadArgument, i.Type)
	}
	r := &Registration[T]{d: d}
	r.last.Store(&i)
	if r.node, err = node.Keep(ctx, d.client, path, data, options...); err != nil {
		return nil, err
	}
	return r, nil
}

// Write writes an instance as [Permanent], replaces an existing node, and returns the instance as
// written. The node is not kept, and exists until [Discovery.Unregister].
//
// Errors are
//   - [ErrOtherProfile] if the service has an instance of another profile;
//   - [ErrNested] if the service's name has a slash and lies below a service with instances, or if
//     another service lies below its name;
//   - [framework.ErrBadArgument] if a field is invalid, if the payload cannot be encoded as JSON,
//     if Spring or Dubbo could not read or call the instance, or if the format is not [Curator];
//   - [framework.ErrBadPath] if the path is invalid;
//   - [framework.ErrTooLong] if the instance is too long;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth, or zk.ErrNotEmpty if an existing node has
//     children.
//
// If retry.Unknown is true of an error, the instance may have been written.
func (d *Discovery[T]) Write(ctx context.Context, i Instance[T]) (_ Instance[T], err error) {
	i.Type = Permanent
	i, path, data, err := d.prepare(ctx, i)
	defer func() { err = operr.New("write", path, err) }()
	if err != nil {
		return i, err
	}
	for {
		// In one transaction: an existing node may belong to a session, which would delete it when
		// it expires.
		_, err = d.client.Multi(ctx, &zk.DeleteRequest{Path: path, Version: -1}, &zk.CreateRequest{Path: path, Data: data})
		if errors.Is(err, zk.ErrNoNode) {
			_, err = d.client.Create(ctx, path, data, framework.ContainerParents())
		}
		if !errors.Is(err, zk.ErrNodeExists) { // another client has created the node
			return i, err
		}
	}
}

// prepare completes an instance, and returns its path and its data.
func (d *Discovery[T]) prepare(ctx context.Context, i Instance[T]) (_ Instance[T], path string, data []byte, err error) {
	i = filled(i, Instance[T]{ID: uuid.New(), Type: Dynamic, RegistrationTime: time.Now().UTC().Truncate(time.Millisecond)})
	if path, err = d.path(i.Name, i.ID); err == nil {
		data, err = d.accept(i)
	}
	if err == nil {
		err = d.checkNeighbors(ctx, i, path)
	}
	return i, path, data, err
}

// filled returns i with its missing fields taken from another.
func filled[T any](i, from Instance[T]) Instance[T] {
	i.ID, i.Type, i.RegistrationTime = cmp.Or(i.ID, from.ID), cmp.Or(i.Type, from.Type), cmp.Or(i.RegistrationTime, from.RegistrationTime)
	i.PayloadClass = cmp.Or(i.PayloadClass, from.PayloadClass)
	return i
}

// accept encodes an instance. It refuses what no reader could use.
func (d *Discovery[T]) accept(i Instance[T]) (data []byte, err error) {
	switch {
	case d.cfg.format != Curator:
		err = fmt.Errorf("instances in the format %v are read-only", d.cfg.format)
	case i.Address == "" && i.URISpec == nil:
		err = errors.New("instance has neither Address nor URISpec")
	case i.Port != int(uint16(i.Port)) || i.SSLPort != int(uint16(i.SSLPort)):
		err = fmt.Errorf("invalid Port %d or SSLPort %d: must be 0 to 65535", i.Port, i.SSLPort)
	default:
		data, err = encode(i, d.cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", framework.ErrBadArgument, err)
	}
	return data, nil
}

// Instance returns the instance as registered, or as passed to the last accepted Update.
func (r *Registration[T]) Instance() Instance[T] { return *r.last.Load() }

// Path returns the path of the instance's node.
func (r *Registration[T]) Path() string { return r.node.Path() }

// Update writes a changed instance, whose Name, ID and Type must equal the registered ones. An
// empty ID, Type, RegistrationTime or PayloadClass is set to the registered one. If calls of Update
// overlap, one of them wins.
//
// Errors are
//   - [framework.ErrBadArgument] if Name, ID or Type differs, a field is invalid, the payload
//     cannot be encoded as JSON, or Spring or Dubbo could not read or call the instance: nothing is
//     written;
//   - [framework.ErrTooLong] if the instance is too long: nothing is written;
//   - [ErrOtherProfile] if the profile has changed and the service has an instance of another one:
//     nothing is written;
//   - the error of ctx if ctx is done first, wrapped with the reason of the wait, such as
//     zk.ErrNoServer;
//   - [framework.ErrEnded] after Close;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
//
// After the error of ctx or of the server, the client still attempts the write when possible.
func (r *Registration[T]) Update(ctx context.Context, i Instance[T]) (err error) {
	defer func() { err = operr.New("update", r.Path(), err) }()
	was := r.Instance()
	i = filled(i, was)
	if i.Name != was.Name || i.ID != was.ID || i.Type != was.Type {
		return fmt.Errorf("%w: cannot change name, id or type of %v to %v", framework.ErrBadArgument, was, i)
	}
	data, err := r.d.accept(i)
	if err == nil {
		err = engine.Of(r.d.client).Fits(r.Path(), len(data))
	}
	if err == nil && profileOf(i.PayloadClass) != profileOf(was.PayloadClass) {
		err = r.d.checkNeighbors(ctx, i, r.Path())
	}
	if err != nil {
		return err
	}
	r.last.Store(&i)
	return r.node.Set(ctx, data)
}

// Present reports whether the node exists and belongs to this session. The channel is closed when
// that, or [Registration.Problem], may have changed.
func (r *Registration[T]) Present() (there bool, changed <-chan struct{}) { return r.node.Present() }

// Problem returns nil while the node exists and the last instance was written. Otherwise it returns
// the reason, such as zk.ErrNoAuth, and the client keeps trying. After the registration has ended
// it returns [Registration.Err].
//
// Problem does not report another client's write, such as a new status, which remains until the
// next Update or the recreation of the node.
func (r *Registration[T]) Problem() error { return r.node.Problem() }

// Err returns nil while the registration is kept. Then its error wraps [framework.ErrEnded] after
// Close, [framework.ErrClosed] after the client was closed, and [framework.ErrSessionLost] if the
// client is a view of a lost session (see [framework.Client.In]).
func (r *Registration[T]) Err() error { return r.node.Err() }

// Close unregisters the instance: it deletes the node, and returns when the deletion is confirmed
// or the session is over. Later calls return the same error.
//
// Errors are
//   - context.DeadlineExceeded if the deletion is not confirmed after 5 s. It also wraps
//     zk.ErrNoServer if no server can be reached. The client deletes the node in the background;
//   - the server's error if the server refuses the deletion, such as zk.ErrNoAuth;
//   - [framework.ErrClosed] if a node of type [Static] stays because the client was closed first.
func (r *Registration[T]) Close() error { return r.node.Close() }

// Drain unregisters the instance, and then waits for d or until ctx is done, so that callers can
// finish. Call it before the server stops. If the servers answer, no Watch offers the instance any
// longer, not even within the grace set by [WithGrace].
//
// Drain adds a notice to the data of the service's node, which Java's readers ignore. It adds none
// if the client is not permitted to read and write that node, or if the node is not a child of the
// base. The node has the last 100 notices, so instances may be drained at the same time.
//
// d must exceed the time for which callers cache their lists: 35 s for Spring Cloud's load
// balancer. Drain joins its errors. Errors are
//   - the error of ctx if ctx is done before d has passed: the instance is unregistered;
//   - context.DeadlineExceeded if the deletion of the node is not confirmed after 5 s. It also
//     wraps zk.ErrNoServer if no server can be reached. The client deletes the node in the
//     background;
//   - the server's error if the server refuses the deletion, such as zk.ErrNoAuth;
//   - [framework.ErrClosed] if a node of type [Static] stays because the client was closed first.
func (r *Registration[T]) Drain(ctx context.Context, d time.Duration) error {
	r.sayGoodbye(ctx)
	return operr.New("drain", r.Path(), operr.Join(r.Close(), wait.Sleep(ctx, d)))
}

// goodbyeTimeout limits the wait for a goodbye. Without one, callers only have the grace.
const goodbyeTimeout = time.Second

// sayGoodbye adds a goodbye before the node is deleted, so that every Watch has the goodbye when it
// has read both. It compares and sets: other instances may be drained at the same time.
func (r *Registration[T]) sayGoodbye(ctx context.Context) {
	dir, name := framework.Split(r.Path())
	if base, _ := framework.Split(dir); base != r.d.base || r.Err() != nil {
		return // the data of a node at another level would be an instance's
	}
	ctx, cancel := context.WithTimeout(ctx, goodbyeTimeout)
	defer cancel()
	for {
		data, stat, err := get(ctx, r.d.client, dir)
		if err != nil && !errors.Is(err, framework.ErrNotCompressed) { // those data are not goodbyes
			return
		}
		// The node exists, or has existed: no child of dir is newer.
		all := decodeGoodbyes(data)
		all.add(name, stat.Pzxid)
		if _, err = r.d.client.Set(ctx, dir, all.encode(), framework.IfVersion(stat.Version)); !errors.Is(err, zk.ErrBadVersion) {
			return
		}
	}
}
