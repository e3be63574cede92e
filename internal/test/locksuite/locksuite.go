// Package locksuite tests what every lock promises. Each lock recipe runs the suite with its own
// [Kind], and keeps the tests of the promises that only it has.
package locksuite

import (
	"context"
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

// Hold is a hold of any lock: a *lock.Hold, a *lock.Group or a *revocable.Hold.
type Hold interface {
	Context() context.Context
	Done() <-chan struct{}
	Err() error
	Release() error
}

// Contender is a lock object of one client.
type Contender struct {
	Lock                any // has the methods Acquire and TryAcquire, and their lists of errors
	Acquire, TryAcquire func(ctx context.Context) (Hold, error)
	Do                  func(ctx context.Context, f func(ctx context.Context) error) error
	Participants        func(ctx context.Context) ([]lock.Participant, error)
}

// Locker is a lock whose holder has an H.
type Locker[H Hold] interface {
	Acquire(ctx context.Context) (H, error)
	TryAcquire(ctx context.Context) (H, error)
	Do(ctx context.Context, f func(ctx context.Context) error) error
}

// Of returns the contender with the methods of l. Participants lists all contenders at its path.
func Of[H Hold](l Locker[H], participants func(ctx context.Context) ([]lock.Participant, error)) Contender {
	hold := func(h H, err error) (Hold, error) {
		if err != nil {
			return nil, err
		}
		return h, nil
	}
	return Contender{
		Lock:         l,
		Acquire:      func(ctx context.Context) (Hold, error) { return hold(l.Acquire(ctx)) },
		TryAcquire:   func(ctx context.Context) (Hold, error) { return hold(l.TryAcquire(ctx)) },
		Do:           l.Do,
		Participants: participants,
	}
}

// New returns a contender at a path.
type New func(client *framework.Client, path string, opts ...lock.Option) (Contender, error)

// Kind is a kind of lock.
type Kind struct {
	New       New
	Op        string   // the operation in an error of New
	Rivals    []New    // the contenders that New's exclude; if empty, New itself
	Shared    bool     // New's contenders hold together
	Reentrant bool     // the context of a hold is refused, and re-enters with lock.WithReentry
	Late      bool     // a waiter watches the node ahead only, and sees then that its own was deleted
	Several   bool     // it is several locks: Acquire fails if one is lost during the wait for the next
	Dirs      []string // the parents of the nodes, as suffixes of the path; if empty, the path itself
	Foreign   []string // names of children that do not belong to this lock
}

func (k Kind) rivals() []New {
	if len(k.Rivals) == 0 {
		return []New{k.New}
	}
	return k.Rivals
}

func (k Kind) dirs(path string) (dirs []string) {
	if len(k.Dirs) == 0 {
		return []string{path}
	}
	for _, suffix := range k.Dirs {
		dirs = append(dirs, path+suffix)
	}
	return dirs
}

// paths returns the paths of the hold's nodes.
func paths(h Hold) (all []string) {
	for _, n := range nodes(h) {
		all = append(all, n.Path())
	}
	return all
}

func guards(h Hold) (all []any) {
	for _, n := range nodes(h) {
		all = append(all, n.Guard())
	}
	return all
}

// node is a part of a hold: its node.
type node interface {
	Path() string
	Guard() *zk.CheckVersionRequest
}

func nodes(h Hold) (all []node) {
	g, ok := h.(*lock.Group)
	if !ok {
		return []node{h.(node)}
	}
	for _, one := range g.Holds() {
		all = append(all, one)
	}
	return all
}

// stage is the place of one case: contenders of a kind at one path, each with its own client.
type stage struct {
	Kind
	t    *testing.T
	bed  *testbed.Bed
	path string
	view Contender         // reads the queue
	root *framework.Client // the client of view
}

func newStage(t *testing.T, kind Kind, bed *testbed.Bed) *stage {
	s := &stage{Kind: kind, t: t, bed: bed, path: testbed.Path(t)}
	s.view, s.root = s.contender()
	return s
}

// contender returns a lock of the kind under test.
func (s *stage) contender(opts ...lock.Option) (Contender, *framework.Client) {
	s.t.Helper()
	return s.on(s.New, opts...)
}

// rival returns a lock that the kind under test excludes.
func (s *stage) rival() (Contender, *framework.Client) {
	s.t.Helper()
	return s.on(s.rivals()[0])
}

func (s *stage) on(constructor New, opts ...lock.Option) (Contender, *framework.Client) {
	s.t.Helper()
	client := s.bed.Client(s.t)
	return testbed.Must(constructor(client, s.path, opts...)), client
}

func acquire(t *testing.T, c Contender) Hold {
	t.Helper()
	hold, err := c.Acquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, hold.Err())
	return hold
}

func release(t *testing.T, holds ...Hold) {
	t.Helper()
	for _, h := range holds {
		require.NoError(t, h.Release())
	}
}

// result is the result of an Acquire.
type result struct {
	hold Hold
	err  error
}

// begin begins an Acquire or a TryAcquire.
func begin(ctx context.Context, acquire func(context.Context) (Hold, error)) <-chan result {
	return testbed.Go(func() result {
		hold, err := acquire(ctx)
		return result{hold, err}
	})
}

// start begins an Acquire and returns when the queue has n nodes.
func (s *stage) start(ctx context.Context, c Contender, n int) <-chan result {
	s.t.Helper()
	done := begin(ctx, c.Acquire)
	s.queued(n)
	return done
}

// queued waits until the queue has n nodes.
func (s *stage) queued(n int) {
	s.t.Helper()
	testbed.Eventually(s.t, func() bool {
		ps, err := s.view.Participants(testbed.Context(s.t))
		return err == nil && len(ps) == n
	}, "the queue has the expected length")
}

// empty waits until the lock has no node.
func (s *stage) empty() {
	s.t.Helper()
	testbed.Eventually(s.t, func() bool {
		for _, dir := range s.dirs(s.path) {
			children, _, err := s.root.Children(testbed.Context(s.t), dir)
			if len(children) > 0 || err != nil && !errors.Is(err, zk.ErrNoNode) {
				return false
			}
		}
		return true
	}, "no node is left")
}

func (s *stage) waits(c <-chan result) {
	s.t.Helper()
	select {
	case got := <-c:
		require.FailNow(s.t, "acquired a held lock", "%v", got.err)
	default:
	}
}

func (s *stage) received(c <-chan result) Hold {
	s.t.Helper()
	got := testbed.Receive(s.t, c, "the lock")
	require.NoError(s.t, got.err)
	require.NoError(s.t, got.hold.Err())
	return got.hold
}

// lost waits for the end of a hold, whose release then fails.
func lost(t *testing.T, hold Hold) {
	t.Helper()
	testbed.Receive(t, hold.Done(), "the loss of the hold")
	require.Error(t, hold.Err())
	require.Error(t, hold.Release(), "a loss is not a release")
}
