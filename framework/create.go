package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/retry"
)

// Create makes a node and returns its path, which differs from the one asked for if it
// is sequential or protected. By default the node is persistent. nil data mean the client's default data; for a
// node with empty data, give an empty slice that is not nil. If the parent is the node of the client's
// namespace and is missing, it is made, too, as with [ContainerParents].
//
// Errors are zk.ErrNodeExists, zk.ErrNoNode (a parent is missing and neither [ContainerParents] nor
// [PersistentParents] was given), zk.ErrNoChildrenForEphemerals, zk.ErrInvalidACL, and [ErrBadArgument] for
// options that do not go together. If a reply was lost and Create fails, [retry.Unknown] is true: without
// [Protected] the node may be there. [ErrUnimplemented] means that the server makes no
// containers, or no nodes with a TTL, or knows nothing of [StatTo].
func (c *Client) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	var o creation
	err := opt.Apply(&o, opts)
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
	if dir, _ := Split(real); c.namespace != "" && dir == c.real("/") && !o.parents {
		o.parents, o.parentsAs = true, Container // the namespace's own node, as Java's client does
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
			if created, err = c.findOwn(ctx, l, dir, node.id, o.stat); err != nil || created != "" {
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
		node = &unwanted{session: l.session, dir: dir, id: uuid.New(), persistent: o.mode != Ephemeral && o.mode != EphemeralSequential}
		if node.persistent {
			c.sweeper.expect(node) // the end of the session does not remove it, so Close must
		}
		var err error
		created, err = c.createOn(ctx, l, Join(dir, protectedName(node.id, name)), data, o, c.unwantedLater(node))
		if err == nil {
			return nil
		}
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

// findOwn looks below dir for the node that this session made with id, and writes its stat to found unless that is nil. It
// returns "" if there is none.
func (c *core) findOwn(ctx context.Context, l *link, dir, id string, found *zk.Stat) (string, error) {
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
		if found != nil {
			*found = *stat
		}
		return path, nil
	}
	return "", nil
}

// parentTries bounds how often a parent may vanish between its making and the
// node's: a container is reaped as soon as it is seen to be empty.
const parentTries = 20

// createOn makes one node, and its parents if asked to.
func (c *core) createOn(ctx context.Context, l *link, path string, data []byte, o creation, late func(string, error)) (string, error) {
	if o.replaces != "" {
		return c.replaceOn(ctx, l, path, data, o, late)
	}
	for try := 1; ; try++ {
		q := askCreate(path, data, o)
		if late != nil {
			q.late = func(r withStat[string], err error) { late(r.value, err) }
		}
		created, err := askIfKnown(ctx, l, q)
		if !o.parents || try == parentTries || !errors.Is(err, zk.ErrNoNode) {
			if err == nil && o.stat != nil {
				*o.stat = *created.stat
			}
			return created.value, err
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
	for try := 1; ; try++ {
		if mode == Container && c.unknownOps.has(l, proto.OpCreateContainer) {
			mode = Persistent
		}
		_, err := c.createOn(ctx, l, dir, []byte{}, creation{mode: mode, acl: c.acl(dir)}, nil)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case mode == Container && errors.Is(err, ErrUnimplemented): // it is known now
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

// op is the operation that makes the node.
func (o *creation) op() proto.Op {
	switch {
	case o.ttl > 0:
		return proto.OpCreateTTL
	case o.mode == Container:
		return proto.OpCreateContainer
	case o.stat != nil:
		return proto.OpCreate2
	}
	return proto.OpCreate
}

// askCreate makes a node. The stat of the result is nil unless the creation has room for it.
func askCreate(path string, data []byte, o creation) question[withStat[string]] {
	r := proto.CreateRequest{Path: path, Data: data, ACL: protoACL(o.acl), Flags: int32(o.mode)}
	q := question[withStat[string]]{op: o.op(), written: o.sent, parse: func(d *proto.Decoder) withStat[string] {
		created := withStat[string]{value: d.String()}
		if o.stat != nil {
			created.stat = parseStat(d)
		}
		return created
	}}
	if o.ttl > 0 {
		r.WithTTL, r.TTL, r.Flags = true, o.ttl.Milliseconds(), proto.FlagTTL
		if o.mode == PersistentSequential {
			r.Flags = proto.FlagPersistentSequentialTTL
		}
	}
	q.frame = r.Append(conn.Begin(64 + len(path) + len(data)))
	return q
}
