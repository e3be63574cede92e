package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/uuid"
	"github.com/gocurator/curator/recipes/internal/follow"
)

// ready is the name of the node that lets everybody in.
const ready = "ready"

// Double is a barrier at one path for n processes that begin together and end together. More than n may enter: n is a
// threshold, and whoever comes while the others are inside passes at once. It has no state of its own, and is safe for concurrent
// use; each Enter is a member of its own.
type Double struct {
	client *framework.Client
	path   string
	n      int
}

// NewDouble makes a double barrier at path for n members, at least 1, which must be the same number everywhere. Nothing is sent.
// Errors are [framework.ErrBadPath] and [framework.ErrBadArgument].
func NewDouble(client *framework.Client, path string, n int) (*Double, error) {
	err := follow.Check(client, path)
	if err == nil && n < 1 {
		err = fmt.Errorf("%w: %d members, must be at least 1", framework.ErrBadArgument, n)
	}
	if err != nil {
		return nil, follow.OpError("double barrier", path, err)
	}
	return &Double{client, path, n}, nil
}

// Path is the path of the barrier.
func (d *Double) Path() string { return d.path }

// Enter returns when n members have come. It waits as long as ctx, also while no server can be reached, and comes again if its
// session ends meanwhile. After an error we are no member: our node is deleted, in the background. Errors are that of ctx, which
// wraps zk.ErrNoServer if there is no connection, [framework.ErrClosed], and answers such as zk.ErrNoAuth.
func (d *Double) Enter(ctx context.Context) (*Entry, error) {
	a := arrival{Double: d, values: context.WithoutCancel(ctx), member: framework.Join(d.path, uuid.New())}
	if err := follow.Reads(ctx, d.client, a.advance); err != nil {
		if a.entry != nil {
			a.entry.end(err)
		}
		d.deleteSoon(a.member)
		return nil, follow.OpError("enter", d.path, err)
	}
	return a.entry, nil
}

// deleteSoon deletes the node of a member, as long as that takes. The name is never used again, so any session may do it.
func (d *Double) deleteSoon(member string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what is left is done in the background
	_, _ = d.client.DeleteGuaranteed(ctx, member)
}

// arrival is an Enter that is under way. Its node has the same name in each session, so that it never counts twice.
type arrival struct {
	*Double
	values context.Context
	member string
	entry  *Entry           // nil: no node in the present session
	watch  *framework.Watch // on ready
}

// advance is a read for [follow.Reads].
func (a *arrival) advance(in context.Context, l engine.Link) (<-chan struct{}, error) {
	s := (*framework.Session)(l.Session())
	if a.entry == nil || a.entry.session != s {
		if came, err := a.come(in, s); err != nil || !came {
			return follow.Again, err
		}
	}
	// A ready that is gone again must not be missed: the others have entered, and may have left already.
	if a.watch != nil && a.watch.Event().Type == zk.EventNodeCreated {
		return nil, nil
	}
	path := framework.Join(a.path, ready)
	found, _, watch, err := a.client.ExistsW(in, path)
	if err != nil || found {
		return nil, err
	}
	a.watch = watch
	names, _, err := a.client.Children(in, a.path)
	if err != nil {
		return nil, err
	}
	if len(members(names)) >= a.n {
		// Only while we are a member: if it is carried out late, when we have left, it must not let others in.
		_, err = a.client.Multi(in, &zk.CheckVersionRequest{Path: a.member, Version: -1},
			&zk.CreateRequest{Path: path, Data: a.client.DefaultData()})
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			err = nil
		case errors.Is(err, zk.ErrNoNode): // somebody has deleted our node
			a.entry.end(err)
			a.entry = nil
			return follow.Again, nil
		}
		return nil, err
	}
	return watch.Done(), nil // the last one to come finds all
}

// come creates the member's node in session s. came is false if it has to be called again.
func (a *arrival) come(in context.Context, s *framework.Session) (came bool, err error) {
	if a.entry == nil { // later it may be there for us
		if err := a.clear(in); err != nil {
			return false, err
		}
	}
	_, err = a.client.Create(in, a.member, nil, framework.As(framework.Ephemeral), framework.ContainerParents())
	if errors.Is(err, zk.ErrNodeExists) {
		// It is ours: of a try whose reply was lost, or of an earlier session.
		there, stat, err := a.client.Exists(in, a.member)
		if err != nil || !there {
			return false, err
		}
		if stat.EphemeralOwner != s.ID() {
			_, err := a.client.DeleteIfExists(in, a.member, -1)
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(a.values)
	stop, err := s.Depend(connstate.Session, cancel)
	if err != nil {
		return false, err
	}
	if a.entry != nil {
		a.entry.end(framework.ErrSessionLost)
	}
	a.entry, a.watch = &Entry{double: a.Double, member: a.member, session: s, ctx: ctx, cancel: cancel, stop: stop}, nil
	return true, nil
}

// clear deletes a ready that has no members: they have crashed inside, or had given up when it was created.
func (a *arrival) clear(in context.Context) error {
	names, _, err := a.client.Children(in, a.path)
	if err == nil && slices.Equal(names, []string{ready}) {
		_, err = a.client.DeleteIfExists(in, framework.Join(a.path, ready), -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// members are the names of members, sorted.
func members(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return name == ready })
	slices.Sort(names)
	return names
}

// Entry is a member that is inside. All methods are safe for concurrent use.
type Entry struct {
	double  *Double
	member  string
	session *framework.Session
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stop    func() bool // to depend on the session
}

func (e *Entry) end(cause error) {
	e.stop()
	e.cancel(cause)
}

// Context ends when the session is lost, always before the servers delete our node, or when Leave is called. context.Cause then is
// [framework.ErrSessionLost], [framework.ErrClosed] or [context.Canceled]. It has the values of the context that was given to Enter.
func (e *Entry) Context() context.Context { return e.ctx }

// Path is the path of our node.
func (e *Entry) Path() string { return e.member }

// Leave returns when all members have left. If our session is lost it still waits for the others. Call it once. It waits as long as
// ctx. After an error our node is deleted, in the background, and the others need not wait for us. Errors are those of [Double.Enter].
func (e *Entry) Leave(ctx context.Context) error {
	e.end(context.Canceled)
	var inside []string // who else was, when our node began to go; nil: it has not
	err := follow.Reads(ctx, e.double.client, func(ctx context.Context, _ engine.Link) (<-chan struct{}, error) {
		return e.depart(ctx, &inside)
	})
	if err != nil {
		e.double.deleteSoon(e.member)
	}
	return follow.OpError("leave", e.double.path, err)
}

// depart is a read for [follow.Reads]. The first by name waits for the last; the others go, and wait for the first of those who were
// inside then: who has come since may wait for us to come again.
func (e *Entry) depart(ctx context.Context, inside *[]string) (<-chan struct{}, error) {
	client, dir := e.double.client, e.double.path
	names, _, err := client.Children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, own := framework.Split(e.member)
	there := slices.Contains(names, own)
	others := slices.DeleteFunc(members(names), func(name string) bool { return name == own })
	alone := len(others) == 0
	waits := *inside == nil && there && !alone && own < others[0]
	if !waits {
		if *inside == nil {
			*inside = append([]string{}, others...)
		}
		// The others wait for our node: it goes before we wait.
		if _, err := client.DeleteIfExists(ctx, e.member, -1); err != nil {
			return nil, err
		}
		others = slices.DeleteFunc(others, func(name string) bool { return !slices.Contains(*inside, name) })
	}
	switch {
	case alone:
		_, err = client.DeleteIfExists(ctx, framework.Join(dir, ready), -1)
		return nil, err
	case len(others) == 0: // ready is for those who have come since
		return nil, nil
	}
	other := others[0]
	if waits {
		other = others[len(others)-1]
	}
	found, _, watch, err := client.ExistsW(ctx, framework.Join(dir, other))
	if err != nil || !found {
		return follow.Again, err
	}
	return watch.Done(), nil
}
