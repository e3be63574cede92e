package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/retry"
)

// CreateOption says how [Client.Create] makes a node.
type CreateOption func(*creation) error

// creation is what the options of one Create add up to.
type creation struct {
	mode      Mode
	acl       []zk.ACL
	parents   bool
	parentsAs Mode
	protected bool
	ttl       time.Duration
	sent      func() // nil, or see clientapi.Hints
	replaces  string // the server's path of a node that goes in the same transaction; empty: none
}

// As sets the node's mode. The default is [Persistent].
func As(mode Mode) CreateOption {
	return func(o *creation) error {
		switch mode {
		case Persistent, Ephemeral, PersistentSequential, EphemeralSequential, Container:
			o.mode = mode
			return nil
		}
		return fmt.Errorf("%w: create %v", ErrBadArgument, mode)
	}
}

// TTL makes the server delete the node when it has had no children and was not written
// to for d, at least a millisecond. Servers allow it only if told to
// (extendedTypesEnabled). It goes with [Persistent] and [PersistentSequential].
func TTL(d time.Duration) CreateOption {
	return func(o *creation) error {
		if d < time.Millisecond {
			return fmt.Errorf("%w: TTL %v", ErrBadArgument, d)
		}
		o.ttl = d
		return nil
	}
}

// ACL sets the node's ACL, instead of asking the client's [ACLProvider]. Parents
// that have to be made are not concerned.
func ACL(acl []zk.ACL) CreateOption {
	return func(o *creation) error {
		if len(acl) == 0 {
			return fmt.Errorf("%w: empty ACL", ErrBadArgument)
		}
		o.acl = acl
		return nil
	}
}

// ContainerParents makes missing parents, as containers: the server deletes them when they
// have become empty. Servers older than 3.5 get persistent nodes.
func ContainerParents() CreateOption { return parents(Container) }

// PersistentParents makes missing parents, as ordinary nodes that stay. It is Curator's
// creatingParentsIfNeeded(); the other is creatingParentContainersIfNeeded().
func PersistentParents() CreateOption { return parents(Persistent) }

func parents(mode Mode) CreateOption {
	return func(o *creation) error {
		o.parents, o.parentsAs = true, mode
		return nil
	}
}

// Protected puts "_c_", an id and "-" before the node's name, as Curator does, by which
// the node is found again when the reply to its creation is lost. Then
// exactly one node is made, in the session that is alive when Create returns. If Create
// fails, no node stays, even if the server makes it later.
func Protected() CreateOption {
	return func(o *creation) error {
		o.protected = true
		return nil
	}
}

// Create makes a node and returns its path, which differs from the one asked for if it
// is sequential or protected. nil data mean the client's default data; for a
// node with empty data, give an empty slice that is not nil.
//
// Errors are zk.ErrNodeExists, zk.ErrNoNode (a parent is missing and [ContainerParents] was
// not given), zk.ErrNoChildrenForEphemerals and the like. Without [Protected], when a
// reply was lost and Create is not repeated with success, [retry.Unknown] is true
// and the node may be there.
func (c *Client) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	o, err := applied(opts)
	if err == nil {
		err = o.check(path)
	}
	if err != nil {
		return "", opError("create", path, err)
	}
	if data == nil {
		data = c.core.cfg.data
	}
	real := c.realNew(path)
	if o.acl == nil {
		o.acl = c.core.acl(real)
	}
	hints := clientapi.HintsOf(ctx)
	o.sent = hints.Sent
	if hints.Replaces != "" {
		o.replaces = c.real(hints.Replaces)
	}
	var created string
	if o.protected {
		created, err = c.core.createProtected(ctx, path, real, data, o)
	} else {
		err = c.core.do(ctx, "create", path, func(l *link) error {
			created, err = c.core.createOn(ctx, l, real, data, o, nil)
			return err
		})
	}
	if err != nil {
		return "", opError("create", path, err)
	}
	return c.unreal(created), nil
}

// applied is what options add up to.
func applied(opts []CreateOption) (o creation, err error) {
	for _, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("%w: nil option", ErrBadArgument)
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o creation) check(path string) error {
	if o.ttl > 0 && o.mode != Persistent && o.mode != PersistentSequential {
		return fmt.Errorf("%w: TTL with create mode %v", ErrBadArgument, o.mode)
	}
	if o.mode == PersistentSequential || o.mode == EphemeralSequential {
		// The name may be empty: the number is one.
		path += "0"
	}
	if path == "/" {
		return fmt.Errorf("%w: the root cannot be created", ErrBadPath)
	}
	return ValidatePath(path)
}

// createProtected finds its node again by the id in its name. Each session gets an id of
// its own, so a node that an old one left behind is never taken for ours. asked is path as the
// caller wrote it.
func (c *core) createProtected(ctx context.Context, asked, path string, data []byte, o creation) (string, error) {
	dir, name := Split(path)
	var (
		created string
		node    *unwanted // of the session that its id belongs to
		maybe   bool      // a create with this id was sent and not answered
	)
	err := c.do(ctx, "create", asked, func(l *link) error {
		if maybe && node.session == l.session {
			var err error
			if created, err = c.findOwn(ctx, l, dir, node.id); err != nil || created != "" {
				return err
			}
		}
		if maybe {
			// It is not there now, but it may still come: from a server that stood
			// still, say, with our request in its hands. So each request has an id of
			// its own, and what bears an old one is not wanted any more.
			c.sweeper.sweep(node, "")
		} else if node != nil {
			c.sweeper.forget(node)
		}
		maybe = false
		node = &unwanted{session: l.session, dir: dir, id: newID(), persistent: o.mode != Ephemeral && o.mode != EphemeralSequential}
		if node.persistent {
			c.sweeper.expect(node) // the end of the session does not remove it, so Close must
		}
		var err error
		created, err = c.createOn(ctx, l, Join(dir, protectedName(node.id, name)), data, o, c.unwantedLater(node))
		// Not ctx.Err(): ctx may have ended just after the connection did, and then nobody
		// else knows of the node.
		var given unanswered
		if maybe = retry.Unknown(err); errors.As(err, &given) {
			maybe, node = false, nil // unwantedLater sees to it
		}
		return err
	})
	switch {
	case node == nil:
	case err != nil && maybe:
		c.sweeper.sweep(node, "")
	case !c.sweeper.forget(node) && err == nil && node.persistent:
		return "", ErrClosed // Close has removed it, or is about to
	}
	return created, err
}

// unwantedLater returns what gets the answer to a create that nobody waits for any more.
func (c *core) unwantedLater(node *unwanted) func(string, error) {
	return func(path string, err error) {
		switch {
		case err == nil:
			c.sweeper.sweep(node, path)
		case retry.Unknown(err):
			c.sweeper.sweep(node, "")
		default:
			c.sweeper.forget(node)
		}
	}
}

// findOwn looks below dir for the node that this session made with id. It returns
// "" if there is none.
func (c *core) findOwn(ctx context.Context, l *link, dir, id string) (string, error) {
	children, err := c.freshChildren(ctx, l, dir)
	if err != nil {
		return "", err
	}
	for _, child := range children {
		if !hasID(child, id) {
			continue
		}
		path := Join(dir, child)
		stat, err := ask(ctx, l, askExists(path, false))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return "", err
		}
		if owner := stat.EphemeralOwner; owner != 0 && owner != l.session.ID() {
			c.removeInBackground(path, nil)
			continue
		}
		return path, nil
	}
	return "", nil
}

// freshChildren lists dir as the leader knows it: after a reconnect the server may
// lag behind the one that got our request. A missing dir has no children.
func (c *core) freshChildren(ctx context.Context, l *link, dir string) ([]string, error) {
	if _, err := ask(ctx, l, askSync(dir)); err != nil {
		return nil, err
	}
	r, err := ask(ctx, l, askChildren(dir, false))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return r.value, err
}

// parentTries bounds how often a parent may vanish between its making and the
// node's: a container is reaped as soon as it is seen to be empty.
const parentTries = 20

// createOn makes one node, and its parents if asked to.
func (c *core) createOn(ctx context.Context, l *link, path string, data []byte, o creation, late func(string, error)) (string, error) {
	if o.mode == Container && c.unknown(proto.OpCreateContainer) {
		return "", conn.CodeError(proto.Unimplemented) // asking again could cost the session
	}
	if o.replaces != "" {
		return c.replaceOn(ctx, l, path, data, o, late)
	}
	for try := 1; ; try++ {
		q := askCreate(path, data, o)
		q.late = late
		x := send(l, q)
		created, err := x.wait(ctx, l)
		if o.mode == Container {
			c.noteOutcome(l, proto.OpCreateContainer, x.sent, err)
		}
		if !o.parents || try == parentTries || !errors.Is(err, zk.ErrNoNode) {
			return created, err
		}
		dir, _ := Split(path)
		if err := c.makeParent(ctx, l, dir, o.parentsAs); err != nil {
			var given unanswered
			if errors.As(err, &given) {
				err = given.error // the create itself was answered
			}
			return "", err
		}
	}
}

// replaceOn makes one node and deletes another in one transaction.
func (c *core) replaceOn(ctx context.Context, l *link, path string, data []byte, o creation, late func(string, error)) (string, error) {
	ops := []any{
		&zk.DeleteRequest{Path: o.replaces, Version: -1},
		&zk.CreateRequest{Path: path, Data: data, Acl: o.acl, Flags: int32(o.mode)},
	}
	q, err := (&Client{core: c}).askMulti(ops) // paths are the server's
	if err != nil {
		return "", err
	}
	created := func(results []proto.MultiResult, err error) (string, error) {
		if err == nil {
			err = checkMulti(ops, results)
		}
		if err != nil {
			return "", err
		}
		return results[1].Path, nil
	}
	q.written = o.sent
	if late != nil {
		q.late = func(results []proto.MultiResult, err error) { late(created(results, err)) }
	}
	return created(ask(ctx, l, q))
}

// makeParent makes the node dir, and what is missing above it. That it exists is fine.
func (c *core) makeParent(ctx context.Context, l *link, dir string, mode Mode) error {
	if dir == "/" {
		return zk.ErrNoNode // the root is always there: chroot is not supported here
	}
	if !c.cfg.containers {
		mode = Persistent
	}
	if mode == Container && c.suspected(proto.OpCreateContainer) {
		// To ask for what is there already would cost the session again.
		if _, err := ask(ctx, l, askExists(dir, false)); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	for try := 1; ; try++ {
		if mode == Container && c.unknown(proto.OpCreateContainer) {
			mode = Persistent
		}
		_, err := c.createOn(ctx, l, dir, []byte{}, creation{mode: mode, acl: c.acl(dir)}, nil)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case mode == Container && err != nil && c.unknown(proto.OpCreateContainer):
			if retry.Retryable(err) {
				return err // the connection has ended for it; the next try makes it persistent
			}
		case errors.Is(err, zk.ErrNoNode) && try < parentTries:
			above, _ := Split(dir)
			if err := c.makeParent(ctx, l, above, mode); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// acl says which ACL a node gets that is created without one.
func (c *core) acl(path string) []zk.ACL {
	if c.cfg.acl != nil {
		if acl := c.cfg.acl(path); len(acl) > 0 {
			return acl
		}
	}
	return zk.WorldACL(zk.PermAll)
}
