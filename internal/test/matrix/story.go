package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// Story is what a user does with a recipe in one day.
type Story struct {
	Name string
	// Run tells the story. It returns the first error of the recipe, or ends with it by Require,
	// after it has released its holds and closed its clients.
	Run func(s *Scene) error
	// Dirs are the parents of the recipe's nodes, as suffixes of the scene's path, such as "" and
	// "/leases". By default that is the path itself. With None there are no such nodes.
	Dirs []string
	None bool
	// Values are nodes whose data the recipe reads, as suffixes of the path.
	Values []string
	// Lookalikes are suffixes of persistent nodes with names as the recipe's own nodes have, and
	// LookalikeData is their data, "x" by default.
	Lookalikes    []string
	LookalikeData string
	// Remains are suffixes of nodes that may remain after the story, such as a shared value.
	// An asterisk at the end stands for any rest.
	Remains []string
	// Logs is the text of a line that the story itself causes in the log, or "".
	Logs string
	// Join lets one more member take part until stop is called. Nil: there are no members.
	Join func(s *Scene, client *framework.Client, id string) (stop func(), err error)
	// OwnClient reports that the story makes its clients itself. Options do not apply.
	OwnClient bool
}

// Scene is the place of one story: servers, a path and two clients.
type Scene struct {
	// Path is the path of the story, as its clients write it.
	Path string
	// A is the client under the condition, and B is another member.
	A, B *framework.Client
	// Ctx is the context of A's calls, and Peer is the context of B's calls. Both have a deadline.
	Ctx, Peer context.Context

	cell      *cell
	root      *framework.Client // the client A, which may be a view
	condition Condition         // the zero Condition in the second round
	real      string            // Path on the server
	base      string            // the first element of Path, with the namespace
	long      bool              // names have 200 characters
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	disturbed atomic.Bool // A's session was ended by the story or the condition
	undo      []func()    // remove the condition's hooks
	extra     []*framework.Client
}

// Name returns the name that a member or a service has in this cell.
func (s *Scene) Name(name string) string {
	if s.long && len(name) < longName {
		return name + strings.Repeat("x", longName-len(name))
	}
	return name
}

// Middle is called where A has what it wants, and B is about to want it. The condition may
// intervene here.
func (s *Scene) Middle() {
	if s.condition.Middle != nil {
		s.condition.Middle(s)
	}
}

// Check notes a promise that is broken unless ok.
func (s *Scene) Check(ok bool, format string, args ...any) {
	if !ok {
		s.cell.fail(format, args...)
	}
}

// Sleep waits, in virtual time.
func (s *Scene) Sleep(d time.Duration) {
	time.Sleep(d) // virtual time
}

// Settle waits until all goroutines of the cell wait.
func (s *Scene) Settle() { synctest.Wait() }

// Expire ends the session of A, and returns when A has been told.
func (s *Scene) Expire() error {
	s.disturbed.Store(true)
	session, err := s.A.Session(s.Ctx)
	if err != nil {
		return err
	}
	if err := s.Server().ExpireSession(session.ID()); err != nil && !errors.Is(err, zktest.ErrNoSession) {
		return err
	}
	select {
	case <-session.Done():
		s.Sleep(time.Millisecond) // the recipes have been told, too
		return nil
	case <-s.Ctx.Done():
		return s.Ctx.Err()
	}
}

// Server returns a server of the scene.
func (s *Scene) Server() *zktest.Server { return s.cell.bed.members[0] }

// Dial opens connections to the servers.
func (s *Scene) Dial() (servers []string, dial dialer) { return s.cell.bed.servers, s.cell.bed.dial }

// Real returns the path on the server of a suffix of the scene's path.
func (s *Scene) Real(suffix string) string { return s.real + suffix }

// Forced reports whether nodes or sessions of the story are deleted by others, so that holds may
// overlap until their holders have been told.
func (s *Scene) Forced() bool { return s.condition.Forced }

// PeerError is an error of the member that is not under the condition.
type PeerError struct{ Err error }

func (e *PeerError) Error() string { return "the other member: " + e.Err.Error() }

func (e *PeerError) Unwrap() error { return e.Err }

// Other marks an error of B.
func (s *Scene) Other(err error) error {
	if err == nil {
		return nil
	}
	return &PeerError{err}
}

// ending is the panic with which Require ends a story.
type ending struct{ err error }

// Require ends the story, or the function of Go that calls it, if err is not nil, as t.FailNow ends
// a test. A function that the library calls must return its errors instead.
func (s *Scene) Require(err error) {
	if err != nil {
		panic(ending{err})
	}
}

// RequireOther is Require for an error of B.
func (s *Scene) RequireOther(err error) { s.Require(s.Other(err)) }

// Await waits until done is closed. The end of A's context ends the story.
func (s *Scene) Await(done <-chan struct{}) {
	select {
	case <-done:
	case <-s.Ctx.Done():
		s.Require(context.Cause(s.Ctx))
	}
}

// Task is a function that runs beside the story.
type Task struct {
	done chan struct{}
	err  error
}

// Go runs f beside the story. It must end with s.Ctx or s.Peer, which end with the story at the
// latest.
func (s *Scene) Go(f func() error) *Task {
	t := &Task{done: make(chan struct{})}
	s.tasks.Go(func() {
		defer close(t.done)
		t.err = guarded(f)
	})
	return t
}

// Wait waits for the task and returns its error.
func (t *Task) Wait() error {
	<-t.done
	return t.err
}

// Ended reports whether the task has returned.
func (t *Task) Ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// panicError is a panic of a function of the story.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Eventually waits until f returns true, in virtual time. what is the text of its error.
func (s *Scene) Eventually(ctx context.Context, what string, f func() bool) error {
	for !f() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", what, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// CatchUp waits until B sees all that A has written.
func (s *Scene) CatchUp() error { return s.Other(s.B.Sync(s.Peer)) }

// Crowded reports whether more members take part than A and B.
func (s *Scene) Crowded() bool { return len(s.extra) > 1 }

// First returns the error that ended the story: of e, or of f if e is nil.
func First(e, f error) error {
	if e != nil {
		return e
	}
	return f
}
