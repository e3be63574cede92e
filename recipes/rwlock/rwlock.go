// Package rwlock is a lock for many readers or one writer at a time, across all processes that use the same
// path of a ZooKeeper ensemble. It is Curator's InterProcessReadWriteLock.
//
// # On the wire
//
// Readers and writers create ephemeral sequential nodes in one queue:
//
//	<path>/_c_<uuid>-__READ__<sequence>
//	<path>/_c_<uuid>-__WRIT__<sequence>
//
// A writer holds if nobody is ahead of it, a reader if no writer is ahead of it. A waiting writer waits for the
// node directly ahead, a waiting reader for the nearest writer ahead. This is the shared lock recipe of the
// ZooKeeper documentation with Curator's names, so Java and Go exclude each other on one path.
//
// A writer may acquire the read lock, and so continue as a reader after it has released the write lock
// (downgrade). The reader's node has the writer's number and is not sequential, as in Curator since
// CURATOR-621: whoever queued behind the writer is behind the reader too.
//
// # What it promises
//
//   - While a writer has a live context, no other holder has one. Readers share the lock only with readers.
//   - First come, first served: readers that come after a waiting writer do not overtake it.
//
// # What it cannot promise
//
// See package lock for what no lock can promise. And in Java's Curator up to 5.4.0 the reader of a downgrade
// queues at the end, so a waiting writer acquires while that reader holds.
package rwlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
)

// ErrUpgrade means that a reader tried to acquire the write lock. It would have waited for itself. Release the
// read lock first; others may write in between.
var ErrUpgrade = errors.New("a reader cannot become a writer")

// Curator's names for the nodes. Its sorting needs both to have the same length.
const (
	readName  = "__READ__"
	writeName = "__WRIT__"
)

// Lock is a read/write lock at one path. It has no state between calls and is safe for concurrent use.
type Lock struct {
	read, write      *queue.Queue
	readers, writers Side
}

// New makes a read/write lock at path. Nothing is sent. Errors are [framework.ErrBadPath] and
// [framework.ErrBadArgument]; it cannot have [lock.WithMaxLeases] other than 1.
func New(client *framework.Client, path string, opts ...lock.Option) (*Lock, error) {
	l := &Lock{}
	var err error
	opts = append(slices.Clone(opts), opt.Set(func(c *queue.Config) { c.Sequential = true }))
	if l.write, err = queue.New(client, path, writeName, writer{lock: l}, opts...); err == nil {
		if n := l.write.MaxLeases(); n != 1 {
			err = fmt.Errorf("%w: %d leases, a read/write lock has one", framework.ErrBadArgument, n)
		}
	}
	if err == nil {
		l.read, err = queue.New(client, path, readName, reader{write: l.write}, opts...)
	}
	if err != nil {
		return nil, follow.OpError("rwlock", path, err)
	}
	l.readers, l.writers = Side{l, l.read}, Side{l, l.write}
	return l, nil
}

// Read returns the read lock.
func (l *Lock) Read() *Side { return &l.readers }

// Write returns the write lock.
func (l *Lock) Write() *Side { return &l.writers }

// Participants lists holders and waiters of both sides, in the order of the queue: see [lock.Queue.Participants].
func (l *Lock) Participants(ctx context.Context) ([]lock.Participant, error) {
	ps, err := l.write.Participants(ctx) // the queue is the same for both
	return ps, follow.OpError("participants", l.Path(), err)
}

// Path is the path of the lock.
func (l *Lock) Path() string { return l.write.Path() }

// Side is the read lock or the write lock of a [Lock]: what readLock() and writeLock() of Curator's InterProcessReadWriteLock
// return. Both are sides of one queue. It is safe for concurrent use.
type Side struct {
	lock  *Lock
	queue *queue.Queue
}

// Acquire waits until it holds this side, until ctx is done, or until no server could be reached for as long as
// the client's retry policy allows. With the context of a hold of this side it re-enters. With the context of a
// write hold, the read side is granted at once, and may outlive the write hold. With the context of a read hold
// alone, the write side returns [ErrUpgrade]. If the hold that ctx comes from was released or lost, the error is the
// cause of its end. After an error no node of ours stays. [lock.Queue.Acquire] has all errors.
func (s *Side) Acquire(ctx context.Context) (*lock.Hold, error) {
	hold, err := s.acquire(ctx, s.queue.Acquire)
	return (*lock.Hold)(hold), follow.OpError("acquire", s.Path(), err)
}

// TryAcquire is [Side.Acquire] without waiting: the error is [lock.ErrNotAcquired] if it would have to wait.
func (s *Side) TryAcquire(ctx context.Context) (*lock.Hold, error) {
	acquire := s.queue.TryAcquire
	if s.queue == s.lock.read && s.lock.write.HeldIn(ctx) != nil {
		acquire = s.queue.Acquire // nobody but ourselves can be in the way
	}
	hold, err := s.acquire(ctx, acquire)
	return (*lock.Hold)(hold), follow.OpError("try", s.Path(), err)
}

func (s *Side) acquire(ctx context.Context, acquire func(context.Context) (*queue.Hold, error)) (*queue.Hold, error) {
	ctx, err := s.admit(ctx)
	if err != nil {
		return nil, err
	}
	return acquire(ctx)
}

// Do acquires, calls f and releases. f's context ends when the lock may no longer be ours, and when ctx ends.
// The error is Acquire's, or that of [lock.Hold.Do]: f's and Release's joined. If f panics, the lock is released.
func (s *Side) Do(ctx context.Context, f func(ctx context.Context) error) error {
	hold, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return hold.Do(ctx, f)
}

// Participants lists holders and waiters of this side, in the order of the queue: see [lock.Queue.Participants].
func (s *Side) Participants(ctx context.Context) ([]lock.Participant, error) {
	ps, err := s.queue.Participants(ctx)
	return slices.DeleteFunc(ps, func(p lock.Participant) bool {
		return isRead(p.Path) != (s.queue == s.lock.read)
	}), follow.OpError("participants", s.Path(), err)
}

// Path is the path of the lock.
func (s *Side) Path() string { return s.queue.Path() }

// admit refuses a caller that would wait for itself, and one whose hold in ctx has ended. The queue does that
// for holds of its own side. It returns the context to acquire with.
func (s *Side) admit(ctx context.Context) (context.Context, error) {
	w, r := s.lock.write.HeldIn(ctx), s.lock.read.HeldIn(ctx)
	if s.queue == s.lock.read && w != nil {
		// In no other session: it would be tried again and again. ctx need not say so, since it may also come from a
		// hold of another client.
		ctx = framework.InSession(ctx, w.Session())
	}
	switch {
	case s.queue == s.lock.read && r == nil && w != nil:
		return ctx, w.Err()
	case s.queue == s.lock.read, r == nil, w != nil && w.Err() == nil:
		return ctx, nil
	case r.Err() == nil:
		return ctx, ErrUpgrade
	default:
		// Another hold of the same lease may still be there, and we would wait for it.
		return ctx, r.Err()
	}
}

// rules are the common part of both drivers: one queue for both kinds, and who holds.
type rules struct{ queue.Standard }

// SortKey is the sequence number, of either kind.
func (rules) SortKey(child, _ string) (key string, ours bool) {
	for _, name := range []string{readName, writeName} {
		if key, ours = (queue.Standard{}).SortKey(child, name); ours {
			return key, true
		}
	}
	return "", false
}

// Decide compares only with nodes that have a lower number: the reader of a downgrade has the number of its
// writer.
func (r rules) Decide(children []string, own string, _ int) (queue.Decision, error) {
	ownKey, ours := r.SortKey(own, "")
	if !ours || !slices.Contains(children, own) {
		return queue.Decision{}, fmt.Errorf("%s: %w", own, queue.ErrNodeDeleted)
	}
	var inTheWay []string
	for _, child := range children {
		if key, _ := r.SortKey(child, ""); key < ownKey && !(isRead(own) && isRead(child)) {
			inTheWay = append(inTheWay, child)
		}
	}
	if len(inTheWay) == 0 {
		return queue.Decision{Held: true}, nil
	}
	return queue.Decision{Watch: inTheWay[len(inTheWay)-1:]}, nil
}

func isRead(child string) bool {
	_, ok := queue.Sequence(child, readName)
	return ok
}

type writer struct {
	rules
	lock *Lock
}

// Create makes a writer's node at the end of the queue. It refuses a context that comes from a read hold: only
// lock.Hold.Requeue gets here with one, and the writer would wait for its own reader.
func (w writer) Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error) {
	if r := w.lock.read.HeldIn(ctx); r != nil {
		return "", cmp.Or(r.Err(), ErrUpgrade)
	}
	return w.Standard.Create(ctx, client, base, name, data)
}

type reader struct {
	rules
	write *queue.Queue
}

// Create makes a reader's node: at the end of the queue, or with the writer's number if ctx comes from a write
// hold.
func (r reader) Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error) {
	w := r.write.HeldIn(ctx)
	if w == nil {
		return r.Standard.Create(ctx, client, base, name, data)
	}
	if err := w.Err(); err != nil {
		return "", err // whoever was promised not to wait must not end up in the queue
	}
	sequence, _ := r.SortKey(w.Path(), "")
	// It has the writer's ACL: whoever gets the event of the writer's end must have got that of the reader. Servers
	// report nothing about nodes that a client may not read, and no number shows this one. An ACL provider is asked
	// for the path that the writer was created with, which had no number.
	path, err := client.Create(ctx, framework.Join(base, name+sequence), data, framework.As(framework.Ephemeral),
		framework.Protected(), framework.ContainerParents(), framework.ACL(engine.Of(client).ACL(framework.Join(base, writeName))))
	if err != nil {
		return "", err
	}
	// Another goroutine may have released the writer meanwhile, and then we must not be ahead of all others. If
	// the writer's node exists now, it existed when ours was created, since a node is never created again under
	// its name.
	found, stat, err := client.Exists(ctx, w.Path())
	if err == nil && found {
		// The reader has the token of the writer: the nodes that wait behind both may be older than the
		// reader's node.
		queue.SetToken(ctx, stat.Czxid)
		return path, nil
	}
	if err == nil {
		err = cmp.Or(w.Err(), queue.ErrNodeDeleted)
	}
	return "", errors.Join(err, remove(client, path))
}

// removeTimeout limits how long remove may delay the caller. The client continues in the background.
const removeTimeout = time.Second

// remove deletes a node that only we know of. It does not use the caller's context, which may have ended.
func remove(client *framework.Client, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	_, err := client.DeleteGuaranteed(ctx, path)
	if ctx.Err() != nil {
		return nil // it goes in any case
	}
	return err
}
