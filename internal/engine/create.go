package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/debt"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/uuid"
)

// Creation describes how a node is created.
type Creation struct {
	Mode       int32    // flags of go-zookeeper
	ACL        []zk.ACL // nil: the client's
	Parents    bool     // create missing parents, with ParentMode
	ParentMode int32
	Protected  bool
	TTL        time.Duration
	OrSet      bool // set the data if the node exists; not for a protected or sequential node
	// Idempotent accepts an existing node with the same data; not for a protected or sequential
	// node.
	Idempotent bool
	IfMissing  bool     // accept any existing node; not for a protected, sequential or ephemeral one
	Stat       *zk.Stat // receives the stat of the node, unless it is nil

	sent func() // see Sent
	debt *Debt  // learns how the create has ended; nil: there is none
}

func (o *Creation) ephemeral() bool {
	return o.Mode == zk.FlagEphemeral || o.Mode == zk.FlagEphemeralSequential
}

// Create creates a node and returns its path, which differs from path if the node is sequential or
// protected. If the parent is the node of the client's namespace and does not exist, Create also
// creates the parent.
func (c Client) Create(ctx context.Context, path string, data []byte, o Creation) (created string, err error) {
	real := c.prepare(path, &o)
	if data, err = c.Encode(data); err != nil {
		return "", err
	}
	if c.sent != nil {
		o.sent = *c.sent
	}
	if found := o.Stat; found != nil {
		o.Stat = new(zk.Stat)
		defer func() {
			if err == nil {
				*found = *o.Stat
			}
		}()
	}
	switch {
	case o.Protected, o.Mode&zk.FlagSequence != 0: // the name is new
	default:
		if err = c.AwaitPlace(ctx, "create", path, real); err != nil {
			return "", err
		}
	}
	switch {
	case o.OrSet || o.Idempotent || o.IfMissing:
		created, err = real, c.createOrAccept(ctx, path, real, data, o)
	case o.Protected:
		dir, name := proto.Split(real)
		created, err = (&protected{client: c, dir: dir, name: name, data: data, options: o}).create(ctx, path)
	default:
		err = c.Do(ctx, "create", path, func(l *Connection) error {
			created, err = c.createOn(ctx, l, real, data, o)
			return err
		})
	}
	if err != nil {
		return "", err
	}
	return c.Unreal(created), nil
}

// prepare returns the server's path of a node to be created, and completes o for it.
func (c Client) prepare(path string, o *Creation) (real string) {
	real = c.RealNew(path)
	if o.ACL == nil {
		o.ACL = c.ACLAt(real)
	}
	if dir, _ := proto.Split(real); c.namespace != "" && dir == c.Real("/") && !o.Parents {
		o.Parents, o.ParentMode = true, zk.FlagContainer // the namespace's own node, as Java's client does
	}
	return real
}

// createOrAccept creates a node that is neither protected nor sequential. If the node exists, it
// sets the node's data or accepts the node as it is.
func (c Client) createOrAccept(ctx context.Context, path, real string, data []byte, o Creation) error {
	var tried []int64 // sessions in which an ephemeral node may have been created
	return c.Do(ctx, "create", path, func(l *Connection) error {
		session := l.session.ID()
		if o.ephemeral() {
			tried = append(tried, session)
		}
		for {
			_, refused := c.createOn(ctx, l, real, data, o)
			if !errors.Is(refused, zk.ErrNodeExists) {
				return refused
			}
			if o.IfMissing && o.Stat == nil {
				return nil
			}
			stat, same, err := o.accept(ctx, l, real, data)
			earlier := same && stat.EphemeralOwner != session && slices.Contains(tried, stat.EphemeralOwner)
			switch {
			case errors.Is(err, zk.ErrNoNode):
			case err != nil:
				return err
			case earlier: // a try in a session that is over: the servers delete its node soon
				if err = l.deleteVersion(ctx, real, stat.Version); err != nil {
					return err
				}
			case !same || o.ephemeral() && o.Idempotent && stat.EphemeralOwner != session:
				return refused
			default:
				o.found(stat)
				return nil
			}
		}
	})
}

// found gives the caller the Stat of a node that exists, if it wants that.
func (o *Creation) found(stat *zk.Stat) {
	if o.Stat != nil {
		*o.Stat = *stat
	}
}

// deleteVersion deletes a node, unless it is missing or has another version.
func (l *Connection) deleteVersion(ctx context.Context, path string, version int32) error {
	_, err := wire.Call(ctx, l.Conn, wire.AskDelete(path, version))
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return nil
	}
	return err
}

// accept sets the data of a node that exists, or reports whether it is the same that would be
// created.
func (o *Creation) accept(ctx context.Context, l *Connection, path string, data []byte) (stat *zk.Stat, same bool, err error) {
	if o.OrSet {
		stat, err = wire.Call(ctx, l.Conn, wire.AskSet(path, data, -1))
		return stat, err == nil, err
	}
	if o.IfMissing {
		stat, err = wire.Call(ctx, l.Conn, wire.AskExists(path, false))
		return stat, err == nil, err
	}
	there, err := wire.Call(ctx, l.Conn, wire.AskGet(path, false))
	switch {
	case errors.Is(err, zk.ErrNoAuth): // the answer to the create stands
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	stat = there.Stat
	kind := o.ephemeral() || stat.EphemeralOwner == 0 || o.TTL > 0 && wire.IsTTL(stat.EphemeralOwner)
	return stat, kind && stat.Version == 0 && bytes.Equal(there.Value, data), nil
}

// protected is a create that finds its node again by the id in the node's name. Each session gets a
// separate id, so the node of an earlier session is never taken for this session's. Each request
// gets a separate id too: if the node of an unanswered request is not found, a server that stood
// still may create it later, and then the node with the old id is unwanted. Package debt says who
// owns the node.
type protected struct {
	client    Client
	dir, name string
	data      []byte
	options   Creation

	debt *Debt // debt of the last request; nil: none was sent
}

// create creates the node. asked is the path as the caller wrote it.
func (p *protected) create(ctx context.Context, asked string) (path string, err error) {
	wanted := false
	defer func() {
		if !wanted { // it failed, or a retry policy panicked
			p.giveUp()
		}
	}()
	err = p.client.Do(ctx, "create", asked, func(l *Connection) error {
		path, err = p.try(ctx, l)
		return err
	})
	wanted = err == nil
	switch {
	case err != nil:
	case p.client.owing != nil:
		if earlier := *p.client.owing; earlier != nil {
			earlier.Settle()
		}
		*p.client.owing = p.debt
		p.debt.CreateEnded(path, nil) // even if it was found
	case !p.debt.Settle():
		return "", ErrClosed // Close has removed it, or is about to
	}
	return path, err
}

func (p *protected) try(ctx context.Context, l *Connection) (path string, err error) {
	if p.debt != nil && p.debt.MayBeMadeBy(l.session) {
		if path, err = p.client.findOwn(ctx, l, p.dir, p.debt.ID(), p.options.Stat); err != nil || path != "" {
			return path, err
		}
	}
	p.giveUp()
	node := debt.Protected(p.dir, uuid.New())
	node.Session, node.Ephemeral = l.session, p.options.ephemeral()
	p.debt = p.client.debts.Owe(node)
	p.options.debt = p.debt
	return p.client.createOn(ctx, l, proto.Join(p.dir, debt.ProtectedName(p.debt.ID(), p.name)), p.data, p.options)
}

// giveUp gives up the node of the last request.
func (p *protected) giveUp() {
	if p.debt != nil {
		p.debt.GiveUp()
		p.debt = nil
	}
}

// findOwn searches dir for the node that this session created with id, and returns "" if it is
// missing. It writes the node's stat to found unless found is nil.
func (c *core) findOwn(ctx context.Context, l *Connection, dir, id string, found *zk.Stat) (string, error) {
	// After a reconnect the server may lag behind the one that received the create. A sync does not
	// help: a leader that was replaced answers it alone.
	if err := l.CaughtUp(ctx); err != nil {
		return "", err
	}
	list, err := wire.Call(ctx, l.Conn, wire.AskChildren(dir, false))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", err
	}
	for _, child := range list.Value {
		if _, own := Unprotected(child); own != id {
			continue
		}
		path := proto.Join(dir, child)
		stat, err := wire.Call(ctx, l.Conn, wire.AskExists(path, false))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return "", err
		}
		if owner := stat.EphemeralOwner; owner != 0 && owner != l.session.ID() {
			c.debts.Discard(debt.Unique(path))
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

// createOn creates one node, and its missing parents if o.Parents is set.
func (c *core) createOn(ctx context.Context, l *Connection, path string, data []byte, o Creation) (string, error) {
	for try := 1; ; try++ {
		if o.debt != nil {
			o.debt.Asks()
		}
		created, err := wire.Call(ctx, l.Conn, askCreate(path, data, o))
		if !o.Parents || try == parentTries || !errors.Is(err, zk.ErrNoNode) {
			if err == nil && o.Stat != nil {
				*o.Stat = *created.Stat
			}
			return created.Value, err
		}
		dir, _ := proto.Split(path)
		if err := c.makeParent(ctx, l, dir, o.ParentMode); err != nil {
			return "", wire.Reason(err) // the create itself was answered
		}
	}
}

// MakeParents creates the missing parents of path, as containers if the servers support them.
func (c Client) MakeParents(ctx context.Context, path string) error {
	dir, _ := proto.Split(c.Real(path))
	return c.Do(ctx, "create", path, func(l *Connection) error { return c.makeParent(ctx, l, dir, zk.FlagContainer) })
}

// makeParent creates dir and its missing parents. An existing node is not an error.
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
		// The server is known now to have no containers.
	}
}

// Fits returns ErrTooLong if a request that creates a node with that many bytes of data and the
// client's ACL exceeds the limit. If the create fits, a set of the same data fits too.
func (c Client) Fits(path string, bytes int) error {
	real := c.RealNew(path)
	// A create with a TTL is the longest.
	q := askCreate(real, nil, Creation{ACL: c.ACLAt(real), TTL: time.Millisecond})
	return conn.CheckLength(len(q.Frame)+bytes, c.cfg.MaxRequest)
}

// op is the operation that creates the node.
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

// askCreate creates a node. The stat of the result is nil unless the creation has room for it.
func askCreate(path string, data []byte, o Creation) wire.Request[wire.WithStat[string]] {
	r := proto.CreateRequest{Path: path, Data: data, ACL: wire.ProtoACL(o.ACL), Flags: int32(o.Mode)}
	q := wire.Request[wire.WithStat[string]]{Op: o.op(), Written: o.sent, Parse: func(d *proto.Decoder) wire.WithStat[string] {
		created := wire.WithStat[string]{Value: d.String()}
		if o.Stat != nil {
			created.Stat = wire.ParseStat(d)
		}
		return created
	}}
	if d := o.debt; d != nil {
		q.Done = func(r wire.WithStat[string], err error) { d.CreateEnded(r.Value, err) }
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
