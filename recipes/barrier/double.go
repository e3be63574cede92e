package barrier

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/recipes/internal/recipe"
	"github.com/gocurator/curator/retry"
)

var (
	// ErrLeft is the cause of [Entry.Context] after [Entry.Leave] was called.
	ErrLeft = errors.New("left the barrier")

	// ErrMissed is returned by [Double.Enter] if its request to open the barrier was not answered
	// before its session expired, and the other members have left or given up.
	ErrMissed = errors.New("session expired while this member opened the barrier")
)

// ready is the name of the node that lets the members in.
const ready = "ready"

// Double is a barrier for n processes that start together and finish together. More members may
// enter, and a member that arrives while others are inside passes at once. Each Enter counts as one
// member.
//
// A Double has no state and is safe for concurrent use.
type Double struct {
	_ nocopy.Mark

	client *framework.Client
	path   string
	n      int
}

// NewDouble returns the double barrier at path for n members, at least 1. It sends no request. All
// clients must use the same n.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, n is less than 1, or an option is invalid.
func NewDouble(client *framework.Client, path string, n int, opts ...Option) (*Double, error) {
	err := cmp.Or(recipe.Check(client, path), opt.Apply(new(config), opts))
	if err == nil && n < 1 {
		err = fmt.Errorf("%w: %d members, must be at least 1", framework.ErrBadArgument, n)
	}
	if err != nil {
		return nil, operr.New("double barrier", path, err)
	}
	return &Double{client: client, path: path, n: n}, nil
}

// Path returns the path of the barrier.
func (d *Double) Path() string { return d.path }

// Enter blocks until n members have entered or ctx is done. While no server can be reached, it
// keeps waiting. If its session expires, or another client deletes its node, it enters again.
//
// If Enter fails, its node is deleted in the background. Errors are
//   - the error of ctx, wrapped with zk.ErrNoServer if the client is not connected;
//   - [ErrMissed] if the other members may have left without this one;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (d *Double) Enter(ctx context.Context) (*Entry, error) {
	a := arrival{Double: d, values: context.WithoutCancel(ctx), member: framework.Join(d.path, uuid.New())}
	err := errPanicked
	defer func() {
		if err != nil {
			a.giveUp(err)
		}
	}()
	if err = recipe.Reads(ctx, d.client, a.advance); err != nil {
		return nil, operr.New("enter", d.path, err)
	}
	return a.entry, nil
}

// errPanicked is the error of a call that an observer of the client has ended by a panic.
var errPanicked = errors.New("panic")

// giveUp deletes the member's node.
func (a *arrival) giveUp(err error) {
	if a.entry != nil {
		a.entry.end(err)
	}
	if a.first != nil { // a create was sent
		a.discard(a.member, a.first)
	}
}

// discard deletes the node of a member that has given up or left, in the background. Its name is
// never used again, so any session may delete it. first has created it.
func (d *Double) discard(member string, first *framework.Session) {
	engine.Of(d.client).Discard(member, (*engine.Session)(first))
}

// list returns the sorted names of the members, and of the other children: ready and the nodes of
// other programs. It omits the members that this client owes: another member of this process would
// count twice.
func (d *Double) list(ctx context.Context, in *framework.Client) (members, others []string, err error) {
	names, _, err := in.Children(ctx, d.path)
	owed, _ := engine.Of(d.client).Owed(d.path)
	slices.Sort(names)
	for _, name := range names {
		switch {
		case !isMember(name):
			others = append(others, name)
		case !slices.Contains(owed, name):
			members = append(members, name)
		}
	}
	return members, others, err
}

// isMember reports whether a name is a UUID, as in Java and this package, or the digits of one, as
// in kazoo.
func isMember(name string) bool {
	digits, err := hex.DecodeString(name)
	return uuid.Valid(name) || err == nil && len(digits) == 16
}

// arrival is an Enter in progress. Its node has the same name in each session, so that it never
// counts twice.
type arrival struct {
	*Double
	values context.Context
	member string
	// first is the session of the first create; nil: no create was sent.
	first *framework.Session
	// opening is the session of a request that may have opened the barrier; nil: there is none.
	opening *framework.Session
	entry   *Entry           // nil: no node in the present session
	watch   *framework.Watch // the watch on ready
}

// advance is a read for [recipe.Reads].
func (a *arrival) advance(ctx context.Context, in *framework.Client, l engine.Link) (<-chan struct{}, error) {
	s := (*framework.Session)(l.Session())
	if a.entry == nil || a.entry.session != s {
		// Other clients would count this process twice.
		if _, changed := engine.Of(a.client).Owed(a.path); changed != nil {
			return changed, nil
		}
		if created, err := a.create(ctx, in, s); err != nil || !created {
			return framework.Again, err
		}
	}
	// A ready that was deleted again must not be missed: the others have entered, and may have left
	// already.
	if a.watch != nil && a.watch.Event().Type == zk.EventNodeCreated {
		return nil, nil
	}
	path := framework.Join(a.path, ready)
	found, _, watch, err := in.ExistsW(ctx, path)
	if err != nil || found {
		return nil, err
	}
	a.watch = watch
	found, _, own, err := in.ExistsW(ctx, a.member)
	if err != nil {
		return nil, err
	}
	var members []string
	if found {
		members, _, err = a.list(ctx, in)
	}
	if err == nil && len(members) >= a.n {
		// The check keeps a request that is carried out after this member has left from opening the
		// barrier.
		_, err = in.Multi(ctx, &zk.CheckVersionRequest{Path: a.member, Version: -1},
			&zk.CreateRequest{Path: path, Data: engine.Of(a.client).DefaultData()})
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			return nil, nil
		}
		if retry.Unknown(err) {
			a.opening = s
		}
	} else if err == nil && found && a.opening != nil {
		if a.opening != s {
			return nil, ErrMissed
		}
		a.opening = nil // the barrier would be open: this member has not left
	}
	switch {
	case !found, errors.Is(err, zk.ErrNoNode): // another client has deleted the node or the barrier
		a.entry.end(zk.ErrNoNode)
		a.entry = nil
		return framework.Again, nil
	case err != nil:
		return nil, err
	}
	select {
	case <-watch.Done():
	case <-own.Done():
	case <-l.Down():
	case <-ctx.Done():
	case <-engine.Of(a.client).Done():
	}
	return framework.Again, nil
}

// create creates the member's node in session s. It reports false if it must be called again.
func (a *arrival) create(ctx context.Context, in *framework.Client, s *framework.Session) (created bool, err error) {
	if a.entry == nil { // otherwise ready may be there for this member
		if err := a.clear(ctx, in); err != nil {
			return false, err
		}
	}
	if a.first == nil {
		a.first = s
	}
	_, err = in.Create(ctx, a.member, engine.Of(a.client).DefaultData(), framework.As(framework.Ephemeral), framework.ContainerParents())
	if errors.Is(err, zk.ErrNodeExists) {
		// The name is unique: the node is of a try whose reply was lost, or of an earlier session.
		found, stat, err := in.Exists(ctx, a.member)
		if err != nil || !found {
			return false, err
		}
		if stat.EphemeralOwner != s.ID() {
			err := in.Delete(ctx, a.member, framework.IfExists())
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	inside, cancel := context.WithCancelCause(a.values)
	stop, err := s.Depend(connstate.LostEndsHold, cancel)
	if err != nil {
		return false, err
	}
	if a.entry != nil {
		a.entry.end(framework.ErrSessionLost)
	}
	a.watch = nil
	a.entry = &Entry{double: a.Double, member: a.member, first: a.first, session: s, ctx: inside, cancel: cancel, stop: stop}
	return true, nil
}

// clear deletes a ready without members: they have crashed inside, or had given up when it was
// created.
func (a *arrival) clear(ctx context.Context, in *framework.Client) error {
	members, others, err := a.list(ctx, in)
	for _, name := range others {
		if name != ready {
			engine.Of(a.client).Logger().Warn("child of a double barrier is not a member, although Java counts it", "path", framework.Join(a.path, name))
			break
		}
	}
	if err == nil && len(members) == 0 && slices.Contains(others, ready) {
		err = in.Delete(ctx, framework.Join(a.path, ready), framework.IfExists())
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// Entry is a member that has entered. All methods are safe for concurrent use.
type Entry struct {
	double  *Double
	member  string
	first   *framework.Session // the session that created the node
	session *framework.Session // the session that owns the node
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stop    func() bool // ends the dependence on the session
}

func (e *Entry) end(cause error) {
	e.stop()
	e.cancel(cause)
}

// Context returns a context with the values of Enter's context. It is cancelled when the session is
// lost, before the servers can delete the node, or when Leave is called. Its cause is
// [framework.ErrSessionLost], [framework.ErrClosed] or [ErrLeft].
func (e *Entry) Context() context.Context { return e.ctx }

// Path returns the path of the member's node.
func (e *Entry) Path() string { return e.member }

// Leave blocks until all members have left or ctx is done, even if the member's session is lost.
// Call it once.
//
// If Leave fails, the node is deleted in the background and blocks no other member. Errors are
//   - the error of ctx, wrapped with zk.ErrNoServer if the client is not connected;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (e *Entry) Leave(ctx context.Context) error {
	e.end(ErrLeft)
	// inside lists the other members at the time when the node's deletion was first requested. It
	// is nil before that.
	var inside []string
	err := errPanicked
	defer func() {
		// A create of an earlier session may be carried out late.
		if err != nil || e.first != e.session {
			e.double.discard(e.member, e.first)
		}
	}()
	err = recipe.Reads(ctx, e.double.client, func(ctx context.Context, in *framework.Client, _ engine.Link) (<-chan struct{}, error) {
		return e.depart(ctx, in, &inside)
	})
	return operr.New("leave", e.double.path, err)
}

// depart is a read for [recipe.Reads]. The first member by name waits for the last. Any other
// deletes its node and waits for the first of the members that were inside then: later arrivals may
// be waiting for this process to enter again.
func (e *Entry) depart(ctx context.Context, in *framework.Client, inside *[]string) (<-chan struct{}, error) {
	dir := e.double.path
	names, _, err := e.double.list(ctx, in)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, own := framework.Split(e.member)
	there := slices.Contains(names, own)
	others := slices.DeleteFunc(names, func(name string) bool { return name == own })
	alone := len(others) == 0
	waits := *inside == nil && there && !alone && own < others[0]
	if !waits {
		if *inside == nil {
			*inside = append([]string{}, others...)
		}
		// The first member waits for this node, so it is deleted before waiting.
		if err := in.Delete(ctx, e.member, framework.IfExists()); err != nil {
			return nil, err
		}
		others = slices.DeleteFunc(others, func(name string) bool { return !slices.Contains(*inside, name) })
	}
	switch {
	case alone:
		err = in.Delete(ctx, framework.Join(dir, ready), framework.IfExists())
		return nil, err
	case len(others) == 0: // ready belongs to later arrivals
		return nil, nil
	}
	other := others[0]
	if waits {
		other = others[len(others)-1]
	}
	found, _, watch, err := in.ExistsW(ctx, framework.Join(dir, other))
	if err != nil || !found {
		return framework.Again, err
	}
	return watch.Done(), nil
}
