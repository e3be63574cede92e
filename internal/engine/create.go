package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/retry"
)

// Creation says how a node is made.
type Creation struct {
	Mode       int32    // flags of go-zookeeper
	ACL        []zk.ACL // nil: the client's
	Parents    bool     // make what is missing above it, with ParentMode
	ParentMode int32
	Protected  bool
	TTL        time.Duration
	Stat       *zk.Stat // of the node is written here; nil: nowhere

	sent     func()                       // see Hints
	replaces string                       // the server's path of a node that goes in the same transaction; empty: none
	late     func(path string, err error) // gets the answer that nobody waits for any more; nil: nobody does
}

func (o *Creation) ephemeral() bool {
	return o.Mode == zk.FlagEphemeral || o.Mode == zk.FlagEphemeralSequential
}

// Create makes a node and returns its path, which differs from the one asked for if it
// is sequential or protected. If the parent is the node of the client's
// namespace and is missing, it is made, too.
func (c Client) Create(ctx context.Context, path string, data []byte, o Creation) (created string, err error) {
	real := c.prepare(path, &o)
	hints := HintsOf(ctx)
	o.sent = hints.Sent
	if hints.Replaces != "" {
		o.replaces = c.Real(hints.Replaces)
	}
	if o.Protected {
		dir, name := Split(real)
		created, err = (&protected{core: c.core, dir: dir, name: name, data: data, options: o}).create(ctx, path)
	} else {
		err = c.Do(ctx, "create", path, func(l *Connection) error {
			created, err = c.createOn(ctx, l, real, data, o)
			return err
		})
	}
	return c.Unreal(created), err
}

// prepare returns the server's path of a node to be created, and completes o for it.
func (c Client) prepare(path string, o *Creation) (real string) {
	real = c.RealNew(path)
	if o.ACL == nil {
		o.ACL = c.ACLAt(real)
	}
	if dir, _ := Split(real); c.namespace != "" && dir == c.Real("/") && !o.Parents {
		o.Parents, o.ParentMode = true, zk.FlagContainer // the namespace's own node, as Java's client does
	}
	return real
}

// CreateOrSet makes a node that is neither protected nor sequential, or sets the data of the node that exists.
func (c Client) CreateOrSet(ctx context.Context, path string, data []byte, o Creation) (created bool, err error) {
	real := c.prepare(path, &o)
	var tried []int64 // sessions in which an ephemeral node may have been made
	err = c.Do(ctx, "createOrSet", path, func(l *Connection) error {
		session := l.session.ID()
		if o.ephemeral() {
			tried = append(tried, session)
		}
		for {
			_, err := c.createOn(ctx, l, real, data, o)
			created = err == nil
			if !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			stat, err := Call(ctx, l, AskSet(real, data, -1))
			if err == nil && (stat.EphemeralOwner == session || !slices.Contains(tried, stat.EphemeralOwner)) {
				return nil
			}
			if err == nil { // it is of an earlier try, whose session is over: the servers would delete it soon
				_, err = Call(ctx, l, AskDelete(real, stat.Version))
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
				return err
			}
		}
	})
	return created, err
}

// protected is a create that finds its node again by the id in the node's name. Each session gets an id of its own, so a node that
// an old one left behind is never taken for ours. And each request does: when a node is not found after a request that was not
// answered, it may still come, from a server that stood still, say, with the request in its hands. So what bears an old id is
// not wanted any more.
type protected struct {
	core      *core
	dir, name string
	data      []byte
	options   Creation

	node *unwanted // of the last request; nil: none was sent, or the sweeper has it
	err  error     // how that request has ended
}

// create makes the node. asked is the path as the caller wrote it.
func (p *protected) create(ctx context.Context, asked string) (created string, err error) {
	err = p.core.Do(ctx, "create", asked, func(l *Connection) error {
		created, err = p.try(ctx, l)
		return err
	})
	switch {
	case err != nil:
		p.leave()
	case !p.core.sweeper.forget(p.node):
		return "", ErrClosed // Close has removed it, or is about to
	}
	return created, err
}

func (p *protected) try(ctx context.Context, l *Connection) (created string, err error) {
	if p.node != nil && p.node.session == l.session && retry.Unknown(p.err) {
		if created, err = p.core.findOwn(ctx, l, p.dir, p.node.id, p.options.Stat); err != nil || created != "" {
			return created, err
		}
	}
	p.leave()
	node := &unwanted{session: l.session, persistent: !p.options.ephemeral(), place: place{p.dir, true}, id: uuid.New()}
	sweeper := p.core.sweeper
	sweeper.expect(node)
	p.options.late = func(path string, err error) { sweeper.unwant(node, path, err) }
	created, err = p.core.createOn(ctx, l, Join(p.dir, protectedName(node.id, p.name)), p.data, p.options)
	p.node, p.err = node, err
	if err == nil {
		return created, nil
	}
	// Not ctx.Err(): ctx may have ended just after the connection did, and then nobody else knows of the node.
	var given unanswered
	if errors.As(err, &given) {
		p.node = nil // late will see to it
	}
	return "", err
}

// leave gives up the node of the last request, which has failed.
func (p *protected) leave() {
	if p.node != nil {
		p.core.sweeper.unwant(p.node, "", p.err)
		p.node = nil
	}
}

// findOwn looks below dir for the node that this session made with id, and writes its stat to found unless that is nil. It
// returns "" if there is none.
func (c *core) findOwn(ctx context.Context, l *Connection, dir, id string, found *zk.Stat) (string, error) {
	// After a reconnect the server may lag behind the one that got our request. A sync would not do: a leader that was replaced
	// answers it alone.
	if err := l.CaughtUp(ctx); err != nil {
		return "", err
	}
	list, err := Call(ctx, l, AskChildren(dir, false))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", err
	}
	for _, child := range list.Value {
		if _, own := Unprotected(child); own != id {
			continue
		}
		path := Join(dir, child)
		stat, err := Call(ctx, l, AskExists(path, false))
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
func (c *core) createOn(ctx context.Context, l *Connection, path string, data []byte, o Creation) (string, error) {
	if o.replaces != "" {
		return c.replaceOn(ctx, l, path, data, o)
	}
	for try := 1; ; try++ {
		created, err := Call(ctx, l, askCreate(path, data, o))
		if !o.Parents || try == parentTries || !errors.Is(err, zk.ErrNoNode) {
			if err == nil && o.Stat != nil {
				*o.Stat = *created.Stat
			}
			return created.Value, err
		}
		dir, _ := Split(path)
		if err := c.makeParent(ctx, l, dir, o.ParentMode); err != nil {
			var given unanswered
			if errors.As(err, &given) {
				err = given.error // the create itself was answered
			}
			return "", err
		}
	}
}

// replaceOn makes one node and deletes another in one transaction.
func (c *core) replaceOn(ctx context.Context, l *Connection, path string, data []byte, o Creation) (string, error) {
	q := AskMulti(proto.OpMulti, []proto.MultiOp{
		{Op: proto.OpDelete, Body: &proto.VersionRequest{Path: o.replaces, Version: -1}},
		{Op: proto.OpCreate, Body: &proto.CreateRequest{Path: path, Data: data, ACL: ProtoACL(o.ACL), Flags: o.Mode}},
	})
	created := func(results []proto.MultiResult, err error) (string, error) {
		if err == nil {
			_, err = MultiFailure(results, 2)
		}
		if err != nil {
			return "", err
		}
		return results[1].Path, nil
	}
	q.written = o.sent
	if late := o.late; late != nil {
		q.late = func(results []proto.MultiResult, err error) { late(created(results, err)) }
	}
	return created(Call(ctx, l, q))
}

// MakeParents makes the nodes that are missing above path, as containers where the servers make some.
func (c Client) MakeParents(ctx context.Context, path string) error {
	dir, _ := Split(c.Real(path))
	return c.Do(ctx, "create", path, func(l *Connection) error { return c.makeParent(ctx, l, dir, zk.FlagContainer) })
}

// makeParent makes the node dir, and what is missing above it. That it exists is fine.
func (c *core) makeParent(ctx context.Context, l *Connection, dir string, mode int32) error {
	if dir == "/" {
		return zk.ErrNoNode // the root is always there: chroot is not supported here
	}
	for {
		if !c.cfg.Containers || mode == zk.FlagContainer && l.Supports(proto.OpCreateContainer) != nil {
			mode = zk.FlagPersistent
		}
		_, err := c.createOn(ctx, l, dir, []byte{}, Creation{Mode: mode, ACL: c.ACLAt(dir), Parents: true, ParentMode: mode})
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case mode == zk.FlagPersistent || !errors.Is(err, ErrUnimplemented):
			return err
		}
		// It is known now that the server makes no containers.
	}
}

// Fits returns ErrTooLong if a node at path with so many bytes of data could not be made with the client's ACL: the request would be
// longer than the servers take. What fits can also be set.
func (c Client) Fits(path string, bytes int) error {
	real := c.RealNew(path)
	q := askCreate(real, nil, Creation{ACL: c.ACLAt(real), TTL: time.Millisecond}) // with a TTL it is the longest
	return conn.CheckLength(len(q.Frame)+bytes, c.cfg.MaxRequest)
}

// op is the operation that makes the node.
func (o *Creation) op() proto.Op {
	switch {
	case o.TTL > 0:
		return proto.OpCreateTTL
	case o.Mode == zk.FlagContainer:
		return proto.OpCreateContainer
	case o.Stat != nil:
		return proto.OpCreate2
	}
	return proto.OpCreate
}

// askCreate makes a node. The stat of the result is nil unless the creation has room for it.
func askCreate(path string, data []byte, o Creation) Request[WithStat[string]] {
	r := proto.CreateRequest{Path: path, Data: data, ACL: ProtoACL(o.ACL), Flags: int32(o.Mode)}
	q := Request[WithStat[string]]{Op: o.op(), written: o.sent, Parse: func(d *proto.Decoder) WithStat[string] {
		created := WithStat[string]{Value: d.String()}
		if o.Stat != nil {
			created.Stat = ParseStat(d)
		}
		return created
	}}
	if o.late != nil {
		q.late = func(r WithStat[string], err error) { o.late(r.Value, err) }
	}
	if o.TTL > 0 {
		r.WithTTL, r.TTL, r.Flags = true, o.TTL.Milliseconds(), proto.FlagTTL
		if o.Mode == zk.FlagSequence {
			r.Flags = proto.FlagPersistentSequentialTTL
		}
	}
	q.Frame = r.Append(conn.Begin(64 + len(path) + len(data)))
	return q
}
