// Package rwlock is a lock for many readers or one writer at a time, across all processes that use
// the same path of a ZooKeeper ensemble. It is Curator's InterProcessReadWriteLock.
//
//	l, err := rwlock.New(client, "/shop/catalogue")
//	if err != nil { ... }
//	err = l.Read().Do(ctx, load)     // beside other readers
//	err = l.Write().Do(ctx, rebuild) // alone
//
// # On the wire
//
// Readers and writers create ephemeral sequential nodes in one queue:
//
//	<path>/_c_<uuid>-__READ__<sequence>
//	<path>/_c_<uuid>-__WRIT__<sequence>
//
// A writer holds if no node is ahead of it, a reader if no writer is ahead of it. A waiting writer
// waits for the node directly ahead, a waiting reader for the nearest writer ahead. This is the
// shared lock recipe of the ZooKeeper documentation with Curator's names, so Java and Go exclude
// each other on one path.
//
// A writer can continue as a reader after it has released the write lock: see [Lock.Downgrade]. The
// reader's node has the writer's number and is not sequential, as in Curator since CURATOR-621: a
// contender behind the writer is behind the reader too.
//
// # Acquire inside a hold
//
// A caller whose context derives from a hold of the lock would wait for itself. So [Side.Acquire]
// and [Side.TryAcquire] return an error at once:
//
//	acquires      inside      error             with lock.WithReentry
//	a read lock   a read      lock.ErrHeld      another hold of the same lease
//	a read lock   a write     lock.ErrHeld      downgrades, as Java's lock does
//	a write lock  a write     lock.ErrHeld      another hold of the same lease
//	a write lock  a read      ErrUpgrade        ErrUpgrade
//
// A hold of a second Lock of the same client and path counts, and the option does not apply to it.
// A reader inside a read would wait for a writer in between, which waits for the reader outside.
//
// # What it promises
//
//   - While a writer has a live context, no other holder has one. Readers share the lock only with
//     readers.
//   - First come, first served: a reader does not overtake a waiting writer.
//
// # What it cannot promise
//
// See package lock for what no lock can promise. In Java's Curator up to 5.4.0 the reader of a
// downgrade queues at the end, so a waiting writer acquires while that reader holds.
package rwlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
)

// ErrUpgrade means that a reader tried to acquire the write lock: it would have waited for itself.
// Release the read lock first; others may write in between. ErrUpgrade wraps [lock.ErrHeld].
var ErrUpgrade = fmt.Errorf("%w: a reader cannot become a writer", lock.ErrHeld)

// releaseFirst is the way out that ErrUpgrade names.
const releaseFirst = "release it first"

// Curator's names for the nodes. Its sorting needs both to have the same length.
const (
	readName  = "__READ__"
	writeName = "__WRIT__"
)

// inside is what package lock offers to the recipes of this module.
var inside = locks.Inside

// Lock is a read/write lock at one path. It has no state between calls and is safe for concurrent
// use.
type Lock struct {
	_ nocopy.Mark

	read, write      *lock.Queue
	readers, writers Side
}

// New returns a read/write lock at path. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, an option is invalid, or an option is for
//     another kind of lock: [lock.WithMaxLeases] other than 1, [lock.WithRetention] or
//     [lock.WithLockDelay].
func New(client *framework.Client, path string, opts ...lock.Option) (*Lock, error) {
	l := &Lock{}
	var err error
	opts = append(slices.Clone(opts), inside.With(locking.Settings[*lock.Queue]{Numbered: true}))
	if l.write, err = lock.New(client, path, writeName, rules{}, opts...); err == nil {
		if n := inside.MaxLeases(l.write); n != 1 {
			err = fmt.Errorf("%w: %d leases, a read/write lock has one", framework.ErrBadArgument, n)
		}
	}
	if err == nil {
		l.read, err = lock.New(client, path, readName, reader{write: l.write}, opts...)
	}
	if err != nil {
		return nil, operr.New("rwlock", path, err)
	}
	l.readers, l.writers = Side{lock: l, queue: l.read}, Side{lock: l, queue: l.write}
	return l, nil
}

// Read returns the read lock.
func (l *Lock) Read() *Side { return &l.readers }

// Write returns the write lock.
func (l *Lock) Write() *Side { return &l.writers }

// Participants lists holders and waiters of both sides in the order of the queue, as the client's
// server knows them at the time of the call. It omits nodes that are deleted at the same time. If
// the path does not exist, the list is empty.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress a
//     node's data;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read a node.
func (l *Lock) Participants(ctx context.Context) ([]lock.Participant, error) {
	ps, err := l.write.Participants(ctx) // the queue is the same for both
	return ps, operr.New("participants", l.Path(), err)
}

// Path returns the path of the lock.
func (l *Lock) Path() string { return l.write.Path() }

// Side is the read lock or the write lock of a [Lock]. Both are sides of one queue. It is safe for
// concurrent use.
//
// Curator's InterProcessReadWriteLock returns its sides from readLock() and writeLock().
type Side struct {
	_ nocopy.Mark

	lock  *Lock
	queue *lock.Queue
}

// Acquire waits until it holds this side. If it fails, its node is deleted. If the session is lost
// while Acquire waits, or another client deletes its node, it queues again at the end, as often as
// the client's retry policy allows.
//
// Errors are
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue. It wraps
//     [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [lock.ErrHeld] inside a hold of the lock, unless [lock.WithReentry] allows it: see the
//     package comment;
//   - [ErrUpgrade], which wraps lock.ErrHeld, if this is the write lock and ctx derives from a read
//     hold;
//   - [lock.ErrReleased] inside a hold of a released lease, with [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while a
//     [lock.Observer] was notified of it, or if ctx derives from a hold that was suspended and is
//     not released. With [lock.WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own node or the one that it waits for.
//
// To wait for longer in an outage, give the client [framework.WithRetryPolicy] with retry.Forever.
func (s *Side) Acquire(ctx context.Context) (*lock.Hold, error) {
	hold, err := s.acquire(ctx, locking.How{Wait: true})
	return hold, operr.New("acquire", s.Path(), err)
}

// TryAcquire acquires this side without waiting for other clients. A server that lags may still
// report a released lock as taken.
//
// Errors are
//   - [lock.ErrNotAcquired] if it would have to wait;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue. It wraps
//     [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began;
//   - [lock.ErrHeld] inside a hold of the lock, unless [lock.WithReentry] allows it: see the
//     package comment;
//   - [ErrUpgrade], which wraps lock.ErrHeld, if this is the write lock and ctx derives from a read
//     hold;
//   - [lock.ErrReleased] inside a hold of a released lease, with [lock.WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while a
//     [lock.Observer] was notified of it, or if ctx derives from a hold that was suspended and is
//     not released. With [lock.WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the servers answer too slowly for a hold, or if the client is a
//     view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own.
func (s *Side) TryAcquire(ctx context.Context) (*lock.Hold, error) {
	hold, err := s.acquire(ctx, locking.How{})
	return hold, operr.New("try", s.Path(), err)
}

// acquire refuses a caller that would wait for itself. The queue does that for holds of its own
// side.
func (s *Side) acquire(ctx context.Context, how locking.How) (*lock.Hold, error) {
	l, reads := s.lock, s.queue == s.lock.read
	w := inside.HeldIn(ctx, l.write)
	var err error
	switch {
	case reads:
		err = inside.Refuse(ctx, l.write, lock.ErrHeld, "Lock.Downgrade continues as a reader")
	case w == nil || w.Err() != nil:
		err = inside.Refuse(ctx, l.read, ErrUpgrade, releaseFirst)
	}
	switch {
	case err != nil:
		return nil, err
	case reads && w != nil && inside.Reenters(s.queue):
		return l.downgrade(ctx, w)
	case reads:
		// A write hold in ctx has ended. The driver must not take this for a downgrade.
		return inside.Acquire(inside.Without(ctx, l.write), s.queue, how)
	}
	r := inside.HeldIn(ctx, l.read)
	switch {
	case r == nil || w != nil && w.Err() == nil || !inside.Reenters(s.queue):
		return inside.Acquire(ctx, s.queue, how)
	case r.Err() == nil:
		return nil, fmt.Errorf("%w: %s (%s, or use a context from outside the hold)", ErrUpgrade, r.Path(), releaseFirst)
	default:
		// Another hold of the same lease may still exist, and this caller would wait for it.
		return nil, r.Err()
	}
}

// Downgrade acquires the read lock inside a write hold, at once. ctx derives from the write hold,
// as the context inside Do does. The write hold continues; after its release other readers may
// acquire, and no writer before the new reader has released.
//
// Errors are
//   - [framework.ErrBadArgument] if ctx does not derive from a write hold of this Lock;
//   - [lock.ErrReleased] if that hold was released before;
//   - the cause of the loss, which wraps [framework.ErrLost], if that hold or the session was lost,
//     or the new lease while a [lock.Observer] was notified of it;
//   - [lock.ErrNodeDeleted] if the node of the write hold does not exist, or the new node was
//     deleted and the retry policy allows no more tries;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [lock.ErrHeld] inside a read hold of another Lock for this path, with [lock.WithReentry];
//   - [framework.ErrSessionLost] if the session of the write hold has expired;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create or read
//     its own node.
func (l *Lock) Downgrade(ctx context.Context) (*lock.Hold, error) {
	w := inside.HeldIn(ctx, l.write)
	if w == nil {
		return nil, operr.New("downgrade", l.Path(), fmt.Errorf("%w: the context is not that of a write hold", framework.ErrBadArgument))
	}
	if !inside.Reenters(l.read) {
		ctx = inside.Without(ctx, l.read) // another reader does not wait for the one in ctx
	}
	hold, err := l.downgrade(ctx, w)
	return hold, operr.New("downgrade", l.Path(), err)
}

// downgrade acquires the read lock with the context of a write hold, or again with the context of a
// read hold inside it.
func (l *Lock) downgrade(ctx context.Context, w *lock.Hold) (*lock.Hold, error) {
	if w.Err() != nil && inside.HeldIn(ctx, l.read) == nil {
		return nil, w.Err()
	}
	// In no other session: it would be tried again and again. It does not wait: only the writer
	// could be in the way.
	return inside.Acquire(ctx, l.read, locking.How{Wait: true, Session: w.Session()})
}

// Do acquires this side, calls f, and releases it, even if f panics. f's context derives from ctx,
// and is also cancelled when the lock may be lost: see [lock.Hold.Do]. If Do cannot acquire, f is
// not called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if the lease was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease is lost before its
//     release, or ctx derives from a hold that was suspended and is not released. With
//     [lock.WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrBadArgument] if f is nil, or the client is a view of nil or of another client's
//     session;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [lock.ErrNotAcquired] if another contender was ahead in the queue. It wraps
//     [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [lock.ErrHeld] inside a hold of the lock, unless [lock.WithReentry] allows it: see the
//     package comment;
//   - [ErrUpgrade], which wraps lock.ErrHeld, if this is the write lock and ctx derives from a read
//     hold;
//   - [lock.ErrReleased] inside a hold of a released lease, with [lock.WithReentry];
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the node was lost, and
//     the retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create or delete
//     a node, or to read its own node or the one that it waits for.
//
// If f returns nil after [framework.ErrSuspended], Do returns nil if the lease's node still existed
// at the release: see [lock.Hold.Release].
func (s *Side) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return locking.Do(ctx, s.Path(), s.Acquire, f)
}

// Participants lists holders and waiters of this side in the order of the queue, as the client's
// server knows them at the time of the call. It omits nodes that are deleted at the same time. If
// the path does not exist, the list is empty.
//
// Errors are
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrBadArgument] if the client is a view of nil or of another client's session;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress a
//     node's data;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read a node.
func (s *Side) Participants(ctx context.Context) ([]lock.Participant, error) {
	ps, err := s.queue.Participants(ctx)
	return slices.DeleteFunc(ps, func(p lock.Participant) bool {
		return isRead(p.Path) != (s.queue == s.lock.read)
	}), operr.New("participants", s.Path(), err)
}

// Path returns the path of the lock.
func (s *Side) Path() string { return s.queue.Path() }

// rules are the common part of both drivers: one queue for both kinds, and who holds.
type rules struct{ lock.Standard }

// SortKey is the sequence number, of either kind.
func (rules) SortKey(child, _ string) (key string, ours bool) {
	for _, name := range []string{readName, writeName} {
		if key, ours = (lock.Standard{}).SortKey(child, name); ours {
			return key, true
		}
	}
	return "", false
}

// Decide grants a read lock if no writer is ahead, and a write lock if no node is ahead. Only a
// node with a lower number is ahead: the reader of a downgrade has the number of its writer.
func (r rules) Decide(l lock.Line) (lock.Decision, error) {
	ownKey, ours := r.SortKey(l.Own, "")
	if !ours || !slices.Contains(l.Children, l.Own) {
		return lock.Decision{}, fmt.Errorf("%s: %w", l.Own, lock.ErrNodeDeleted)
	}
	var inTheWay []string
	for _, child := range l.Children {
		if key, _ := r.SortKey(child, ""); key < ownKey && !(isRead(l.Own) && isRead(child)) {
			inTheWay = append(inTheWay, child)
		}
	}
	if len(inTheWay) == 0 {
		return lock.Decision{Held: true}, nil
	}
	return lock.Decision{Watch: inTheWay[len(inTheWay)-1:]}, nil
}

func isRead(child string) bool {
	_, ok := lock.Sequence(child, readName)
	return ok
}

type reader struct {
	rules
	write *lock.Queue
}

var _ locking.TokenDriver = reader{}

// CreateWithToken creates a reader's node: at the end of the queue, or with the writer's number if
// ctx is the context of a write hold.
func (r reader) CreateWithToken(
	ctx context.Context, client *framework.Client, base, name string, data []byte,
) (_ string, token int64, err error) {
	w := inside.HeldIn(ctx, r.write)
	if w == nil {
		path, err := r.Create(ctx, client, lock.Node{Base: base, Name: name, Data: data})
		return path, 0, err
	}
	if err := w.Err(); err != nil {
		return "", 0, err // a reader that was promised not to wait must not end up in the queue
	}
	sequence, _ := r.SortKey(w.Path(), "")
	// It has the writer's ACL: a client that gets the event of the writer's end must have got the
	// event of the reader. Servers report nothing about nodes that a client may not read, and no
	// number shows this one. An ACL provider is asked for the path that the writer was created
	// with, which had no number.
	path, err := client.Create(ctx, framework.Join(base, name+sequence), data, framework.As(framework.Ephemeral),
		framework.Protected(), framework.ContainerParents(), framework.ACL(engine.Of(client).ACL(framework.Join(base, writeName))))
	if err != nil {
		return "", 0, err
	}
	wanted := false
	defer func() {
		if !wanted { // also if a retry policy panics
			err = operr.Join(err, remove(client, path))
		}
	}()
	// Another goroutine may have released the writer in the meantime, and then the reader must not
	// be ahead of all others. If the writer's node exists now, it existed when the reader's was
	// created, since a node is never created again under its name.
	found, stat, err := client.Exists(ctx, w.Path())
	if err != nil {
		return "", 0, err
	}
	if !found {
		return "", 0, cmp.Or(w.Err(), lock.ErrNodeDeleted)
	}
	wanted = true
	// The reader has the token of the writer: the nodes that wait behind both may be older than the
	// reader's node.
	return path, stat.Czxid, nil
}

// removeTimeout limits how long remove may delay the caller. The client continues in the
// background.
const removeTimeout = time.Second

// remove deletes a node that only this client knows of. It does not use the caller's context, which
// may have ended.
func remove(client *framework.Client, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	err := client.Delete(ctx, path, framework.IfExists(), framework.Guaranteed())
	if ctx.Err() != nil {
		return nil // it is deleted in any case
	}
	return err
}
