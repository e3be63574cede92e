package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
)

var (
	// ErrRunning means that another process runs the job. The error contains the name of that
	// process if it is known. It wraps [lock.ErrNotAcquired].
	ErrRunning = fmt.Errorf("running elsewhere: %w", lock.ErrNotAcquired)

	// ErrTooSoon means that less than the time of [WithMinInterval] has passed since the last
	// success. The text says how much is left.
	ErrTooSoon = errors.New("too soon after the last success")

	// ErrBadValue means that the record node contains data of another program. They are never
	// overwritten.
	ErrBadValue = errors.New("not a record of package once")
)

// Once is a job that runs once for each key. It is safe for concurrent use, and need not be closed.
type Once struct {
	client *framework.Client // does not compress
	user   *framework.Client // encodes data of the user
	queue  *lock.Queue
	path   string
	node   string // the record node
	by     string
	cfg    config
}

// Record describes a success, or the call that has found or made it.
type Record struct {
	Key string
	By  string    // the data of the lock's node: "host:pid" without [lock.WithData]
	At  time.Time // when it was recorded, by the servers' clock; zero if unknown

	// Ran reports whether the function succeeded in this call. If the call also returns an error,
	// the success is not known to be recorded.
	Ran bool
}

// inside is what package lock offers to the recipes of this module.
var inside = locks.Inside

// New returns the job at path. It sends no request.
//
// Errors are
//   - [framework.ErrBadPath] if path is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, an option is invalid, or the records of
//     [WithKeep] might not fit into a request.
func New(client *framework.Client, path string, opts ...Option) (*Once, error) {
	o, err := newOnce(client, path, opts)
	return o, operr.New("once", path, err)
}

func newOnce(client *framework.Client, path string, opts []Option) (*Once, error) {
	cfg := config{keep: defaultKeep}
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, err
	}
	o := &Once{
		user: client,
		path: path,
		node: framework.Join(path, recordName),
		cfg:  cfg,
	}
	own := inside.With(locking.Settings[*lock.Queue]{Noun: "job", Remains: o.remains})
	var err error
	o.queue, err = lock.New(client, path, "lock-", lock.Standard{}, append(slices.Clone(cfg.lock), own)...)
	if err != nil {
		return nil, err
	}
	data, keeps := inside.Describe(o.queue)
	switch {
	case inside.MaxLeases(o.queue) != 1:
		return nil, fmt.Errorf("%w: %d leases, a job has one", framework.ErrBadArgument, inside.MaxLeases(o.queue))
	case keeps:
		return nil, fmt.Errorf("%w: a job excludes retention", framework.ErrBadArgument)
	}
	o.client = engine.Uncompressed(client)
	if data == nil {
		data = engine.Of(o.user).DefaultData()
	}
	o.by = identity(data)
	if err := engine.Of(o.user).Fits(o.node, o.room(nil)); err != nil {
		return nil, fmt.Errorf("%w: %d records may not fit into a request: %w", framework.ErrBadArgument, cfg.keep, operr.Bare(err))
	}
	return o, nil
}

// room returns how many bytes of a request the recording of next may take, and without next the
// longest record of this version. The transaction also checks and deletes the lock's node, and its
// mark.
func (o *Once) room(next *record) int {
	size := o.cfg.keep * maxEntry
	if next != nil {
		size = max(size, len(next.encode()))
	}
	return size + maxHead + 2*len(o.path) + 256
}

// remains implements locking.Settings: the record is created again, with the time of its newest
// success.
func (o *Once) remains(ctx context.Context) (deletions, creations []any, err error) {
	r, err := o.read(ctx, o.client)
	if err != nil || r.stat == nil {
		return nil, nil, err
	}
	acl, _, err := o.client.GetACL(ctx, o.node)
	if err != nil {
		return nil, nil, err
	}
	return []any{&zk.DeleteRequest{Path: o.node, Version: r.stat.Version}},
		[]any{&zk.CreateRequest{Path: o.node, Data: r.moved().encode(), Acl: acl}}, nil
}

// Path returns the path of the job.
func (o *Once) Path() string { return o.path }

// Do runs f unless key is recorded. While another process runs the job, Do waits. If f returns nil
// while its context is live, the success is recorded.
//
// f's context is cancelled when the lock may be lost, and when ctx is done. If it is cancelled
// before f returns, nothing is recorded, whatever f returns. If f panics, the lock is released and
// nothing is recorded.
//
// If the error is nil, key is recorded: by this call if Record.Ran is true, and otherwise by an
// earlier one. If Record.Ran is true beside an error, the success is not known to be recorded, and
// [retry.Unknown] reports whether it may have been.
//
// Errors are
//   - the error of f: nothing is recorded;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lock is lost before f returns:
//     nothing is recorded. With Record.Ran, the lock was lost before the recording was confirmed;
//   - the error of ctx if ctx is done before f returns: nothing is recorded. If it is done before f
//     is called, the error also wraps zk.ErrNoServer if no server could be reached, and otherwise
//     [lock.ErrNotAcquired] if another process was ahead in the queue;
//   - with Record.Ran, a [*framework.MultiError] if the server refuses an operation of [Commit], or
//     the error with which it refuses the record;
//   - [ErrTooSoon] if the time of [WithMinInterval] has not passed: f is not called;
//   - [framework.ErrBadArgument] if ctx or f is nil, key is empty, longer than 255 bytes or not
//     text, or ctx is the context of a function of this job;
//   - [ErrBadValue] if the record node contains data of another program: f is not called;
//   - [framework.ErrTooLong] if fields of another version leave no room for the record: f is not
//     called;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded: f is not called;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried: f is not called;
//   - [lock.ErrHeld] if ctx derives from a hold of a mutex at the job's path;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the lock's node was
//     lost before f was called, and the retry policy allows no more tries;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to write the record:
//     f is not called.
//
// After f has returned nil, Do does not end with ctx: while no server can be reached, it waits
// until the session counts as lost, for up to its timeout.
func (o *Once) Do(ctx context.Context, key string, f func(ctx context.Context) error) (Record, error) {
	return o.once(ctx, "do", key, f, true)
}

// TryDo runs f unless key is recorded, or another process runs the job. It does not wait for that
// process. If f returns nil while its context is live, the success is recorded.
//
// f's context is cancelled when the lock may be lost, and when ctx is done. If it is cancelled
// before f returns, nothing is recorded, whatever f returns. If f panics, the lock is released and
// nothing is recorded.
//
// If the error is nil, key is recorded: by this call if Record.Ran is true, and otherwise by an
// earlier one. If Record.Ran is true beside an error, the success is not known to be recorded, and
// [retry.Unknown] reports whether it may have been.
//
// Errors are
//   - [ErrRunning] while another process runs the job: f is not called;
//   - the error of f: nothing is recorded;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lock is lost before f returns:
//     nothing is recorded. With Record.Ran, the lock was lost before the recording was confirmed;
//   - the error of ctx if ctx is done before f returns: nothing is recorded. If it is done before f
//     is called, the error also wraps zk.ErrNoServer if no server could be reached;
//   - with Record.Ran, a [*framework.MultiError] if the server refuses an operation of [Commit], or
//     the error with which it refuses the record;
//   - [ErrTooSoon] if the time of [WithMinInterval] has not passed: f is not called;
//   - [framework.ErrBadArgument] if ctx or f is nil, key is empty, longer than 255 bytes or not
//     text, or ctx is the context of a function of this job;
//   - [ErrBadValue] if the record node contains data of another program: f is not called;
//   - [framework.ErrTooLong] if fields of another version leave no room for the record: f is not
//     called;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded: f is not called;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried: f is not called;
//   - [lock.ErrHeld] if ctx derives from a hold of a mutex at the job's path;
//   - [framework.ErrSessionLost] or [lock.ErrNodeDeleted] if the session or the lock's node was
//     lost before f was called, and the retry policy allows no more tries;
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to write the record:
//     f is not called.
//
// After f has returned nil, TryDo does not end with ctx: while no server can be reached, it waits
// until the session counts as lost, for up to its timeout.
func (o *Once) TryDo(ctx context.Context, key string, f func(ctx context.Context) error) (Record, error) {
	return o.once(ctx, "try", key, f, false)
}

func (o *Once) once(ctx context.Context, op, key string, f func(ctx context.Context) error, mayWait bool) (Record, error) {
	err := checkKey(key)
	if err == nil && f == nil {
		err = fmt.Errorf("%w: nil function", framework.ErrBadArgument)
	}
	if err != nil {
		return Record{Key: key}, operr.New(op, o.path, err)
	}
	a := &attempt{
		Once: o, op: op, mayWait: mayWait, timed: o.cfg.interval > 0,
		done: func(r *record) (Record, bool) {
			if e := r.find(key); e != nil {
				return r.result(e), true
			}
			return Record{}, false
		},
		choose: func(*record, time.Time) (string, error) { return key, nil },
		f:      f,
	}
	found, err := a.run(ctx)
	found.Key = key
	return found, err
}

// attempt is one call of Do or TryDo, or one firing of Run:
//
//	look       the record without the lock: nothing to do, or
//	acquire    the lock, unless a record appears that leaves nothing to do
//	claim      the record with the lock, and the right to write it
//	call       the function
//	conclude   the record and the release, in one transaction
//
// Its requests are
//
//  1. get the record. If the key is done, that is all. A missing key proves nothing here, since
//     the server may lag.
//  2. create and list: the lock. A waiter watches the node ahead, and the record if several are
//     ahead. So a success wakes all waiters at once, and each reads the record.
//  3. a transaction that writes the record, or that a server refuses after it has found that it
//     could be written. It proves that the record has not changed since step 1, and that the client
//     is permitted to write it, before the function is called.
//  4. the function.
//  5. a transaction: check the lock's node, write the record, carry out the operations of
//     [Commit], and delete the lock's node.
//
// A call that waits for another process takes at most one request more than a waiter of a mutex. It
// saves the watch on its own node. So if the runner fails, the next call lists before it holds,
// which takes a round trip more. If calls of one process follow each other within 1 s, a waiter of
// a mutex needs neither lists nor watches, and a call that waits takes up to three requests more.
type attempt struct {
	*Once
	op      string
	mayWait bool
	timed   bool // the servers' time is needed

	done   func(r *record) (result Record, done bool) // whether nothing is left to do
	choose func(r *record, now time.Time) (key string, err error)
	f      func(ctx context.Context) error
}

// failed returns the error of a call that has recorded nothing, whatever was lost before.
func (a *attempt) failed(err error) error { return a.ended(err, false) }

// ended returns the error of a call. unknown reports whether a success may be recorded.
func (a *attempt) ended(err error, unknown bool) error {
	return operr.New(a.op, a.path, &unrecorded{operr.Bare(err), unknown})
}

func (a *attempt) run(ctx context.Context) (Record, error) {
	if ctx == nil {
		return Record{}, a.failed(fmt.Errorf("%w: nil context", framework.ErrBadArgument))
	}
	if outer := runOf(ctx); outer != nil && outer.Once == a.Once {
		return Record{}, a.failed(fmt.Errorf("%w: called by a function of the same job", framework.ErrBadArgument))
	}
	hold, r, err := a.acquire(ctx)
	if err != nil {
		return Record{}, a.failed(err)
	}
	if hold == nil {
		result, _ := a.done(r)
		return result, nil
	}
	released := false
	defer func() {
		if !released { // even if f or an observer panics
			_ = hold.Release()
		}
	}()
	now := time.Time{}
	if r, now, err = a.claim(ctx, hold, r); err != nil {
		return Record{}, a.failed(err)
	}
	if result, done := a.done(r); done {
		return result, nil
	}
	if err := a.tooSoon(r, now); err != nil {
		return Record{}, a.failed(err)
	}
	key, err := a.choose(r, now)
	if err != nil {
		return Record{}, a.failed(err)
	}
	room := a.room(r.with(key, a.by, hold.Path(), a.cfg.keep))
	if err := engine.Of(a.user).Fits(a.node, room); err != nil {
		return Record{}, a.failed(err)
	}
	current, err := a.call(ctx, hold, room)
	if err != nil {
		released = true
		return Record{Key: key}, withRelease(err, hold.Release())
	}
	released = true
	return a.conclude(ctx, hold, current, r, key)
}

// withRelease joins the errors of a call and of the release, unless both report a loss.
func withRelease(err, released error) error {
	if errors.Is(err, framework.ErrLost) && errors.Is(released, framework.ErrLost) {
		return err
	}
	return operr.Join(err, released)
}

// acquire returns a hold and the record as it was before, or no hold and a record that leaves
// nothing to do.
func (a *attempt) acquire(ctx context.Context) (hold *lock.Hold, r *record, err error) {
	if r, err = a.read(ctx, a.client); err != nil || a.isDone(r) {
		return nil, r, err
	}
	if a.mayWait {
		var last *record
		if hold, last, err = a.wait(ctx); last != nil {
			r = last
		}
	} else if hold, err = inside.Acquire(ctx, a.queue, locking.How{}); errors.Is(err, lock.ErrNotAcquired) {
		err = a.runner(ctx)
		if now, failed := a.read(ctx, a.client); failed == nil { // the runner may have succeeded since
			r = now
		}
	}
	if hold == nil && a.isDone(r) {
		err = nil
	}
	return hold, r, err
}

// wait waits for the lock, or for a record that leaves nothing to do, and returns the last record
// that it has read, or nil.
func (a *attempt) wait(ctx context.Context) (hold *lock.Hold, r *record, err error) {
	waiting, giveUp := context.WithCancel(ctx)
	n := &news{attempt: a}
	defer func() { // even if an observer panics
		if hold == nil {
			giveUp() // otherwise when the hold has ended, whose watches would end, too
		} else {
			context.AfterFunc(hold.Context(), giveUp)
		}
	}()
	hold, err = inside.Acquire(waiting, a.queue, locking.How{Wait: true, News: n})
	return hold, n.last, err
}

func (a *attempt) isDone(r *record) bool {
	_, done := a.done(r)
	return done
}

// news is the record, as a waiter for the lock follows it. A success deletes the runner's node in
// the transaction that writes the record. So the first waiter, which watches that node, reads the
// record when it is deleted. The others watch the record: they notice a success at the same time.
type news struct {
	*attempt
	first bool             // only one node is ahead
	watch *framework.Watch // the watch on the record; nil: none
	last  *record          // the last record that was read; nil: none
}

// errDone ends the wait for the lock.
var errDone = fmt.Errorf("nothing is left to do: %w", lock.ErrNotAcquired)

// Watch implements locking.News. If there is no record yet, nothing is watched.
func (n *news) Watch(ctx context.Context, ahead int) (changed <-chan struct{}, err error) {
	n.first = ahead == 1
	if n.watch == nil && !n.first {
		if n.last, n.watch, err = n.readW(ctx, n.client); err != nil {
			return nil, err
		}
	}
	if n.watch == nil {
		return nil, n.check()
	}
	return n.watch.Done(), n.check()
}

// Look implements locking.News.
func (n *news) Look(ctx context.Context) (err error) {
	changed := n.watch != nil && wait.Closed(n.watch.Done())
	if changed {
		n.watch = nil
	}
	if changed || n.first {
		if n.last, err = n.read(ctx, n.client); err != nil {
			return err
		}
	}
	return n.check()
}

func (n *news) check() error {
	if n.last != nil && n.isDone(n.last) {
		return errDone
	}
	return nil
}

// runner returns ErrRunning, with the runner if it is known.
func (o *Once) runner(ctx context.Context) error {
	all, err := o.queue.Participants(ctx)
	if err != nil || len(all) == 0 {
		return ErrRunning
	}
	return fmt.Errorf("%w (by %s)", ErrRunning, identity(all[0].Data))
}

// noVersion is a version that no lock's node reaches. A Multi of the client refuses -2.
const noVersion = -3

// claim returns the record as it is while the lock is held, after a proof that the client may write
// it: a transaction that writes the node, or that is refused after the server has found that it
// could. That also shows that the record has not changed since it was read.
//
// If the servers' time is needed, it writes the node, whose time of change it returns.
func (a *attempt) claim(ctx context.Context, hold *lock.Hold, r *record) (_ *record, now time.Time, err error) {
	client := a.client.In(hold.Session())
	guard := hold.Guard()
	for {
		ops := []any{guard, r.set(a.node, r.stamped())}
		probe := !a.timed && r.stat != nil
		if probe {
			ops = []any{&zk.SetDataRequest{Path: a.node, Data: r.data, Version: r.stat.Version},
				&zk.CheckVersionRequest{Path: guard.Path, Version: noVersion}}
		}
		responses, err := client.Multi(ctx, ops...)
		var refused *framework.MultiError
		switch {
		case err == nil && r.stat == nil:
			r = &record{data: r.encode(), stat: new(zk.Stat)} // has version 0, and no entries
			if !a.timed && a.mayWrite() {
				return r, now, nil
			}
			continue
		case err == nil:
			stat := responses[1].Stat
			now = time.UnixMilli(stat.Mtime)
			c := r.stamped()
			c.stat = stat
			if e := c.newest(); e != nil && c.at(e).After(now) && !a.isDone(c) {
				e.stamp(now) // the servers' clock was set back: later records count from now
				r = c
				continue
			}
			return c, now, nil
		case !errors.As(err, &refused):
			return nil, now, err
		case refused.Path == guard.Path && probe && errors.Is(err, zk.ErrBadVersion):
			return r, now, nil
		case refused.Path == guard.Path && errors.Is(err, zk.ErrNoNode):
			return nil, now, cmp.Or(hold.Err(), lock.ErrNodeDeleted)
		case !changed(err):
			return nil, now, notWritable(err)
		}
		if r, err = a.read(ctx, client); err != nil {
			return nil, now, err
		}
		// Servers check the right to write before the version.
		if a.isDone(r) || probe && r.stat != nil {
			return r, now, nil
		}
	}
}

// notWritable names the record node in the error of a write.
func notWritable(err error) error {
	return fmt.Errorf("write node %q: %w", recordName, operr.Bare(err))
}

// changed reports whether a write was refused because the record has changed since it was read.
func changed(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode)
}

// mayWrite reports whether the ACL of a record node that this client creates lets it write for
// certain.
func (o *Once) mayWrite() bool {
	return slices.ContainsFunc(engine.Of(o.user).ACL(o.node), func(a zk.ACL) bool {
		return a.Perms&zk.PermWrite != 0 && (a.Scheme == "world" || a.Scheme == "auth")
	})
}

func (o *Once) tooSoon(r *record, now time.Time) error {
	last := r.newest()
	if last == nil || o.cfg.interval == 0 {
		return nil
	}
	if left := o.cfg.interval - now.Sub(r.at(last)); left > 0 {
		return fmt.Errorf("%w (%v left)", ErrTooSoon, left.Round(time.Millisecond))
	}
	return nil
}

// call calls the function. The error is nil if it has returned nil while its context was live.
func (a *attempt) call(ctx context.Context, hold *lock.Hold, room int) (*run, error) {
	// The function has another hold of the same lease, which ends with it. Then hold is the last
	// one.
	inner, err := inside.Again(hold)
	if err != nil {
		return nil, a.failed(err)
	}
	current := &run{Once: a.Once, hold: inner, room: room}
	defer current.end()
	called, result, ended := false, error(nil), error(nil)
	lost := inner.Do(ctx, func(work context.Context) error {
		called = true
		result = a.f(context.WithValue(work, runKey{}, current))
		if ctx.Err() != nil {
			ended = wait.Err(ctx)
		} else if work.Err() != nil {
			ended = wait.Err(work)
		}
		return nil
	})
	switch {
	case !called:
		return nil, a.failed(cmp.Or(operr.Bare(lost), error(lock.ErrReleased)))
	case result != nil:
		return nil, result
	case ended != nil:
		return nil, a.failed(fmt.Errorf("context ended before the function returned: %w", ended))
	}
	return current, nil
}

// conclude records the success of a run and releases the lock.
//
// The transaction is repeated while the lock's node exists: after a lost request or reply, after a
// suspension, and, with the new data, after another client's write of the record. A second copy
// does nothing, since it checks the lock's node. After the end of the session, or if the node is
// missing, the record is read, and id tells whether the success was recorded. If it was not, the
// entries show that, unless more successes than are kept were recorded in between. Only then, or if
// no server can be reached, the outcome stays unknown.
func (a *attempt) conclude(ctx context.Context, hold *lock.Hold, current *run, r *record, key string) (Record, error) {
	_, id := framework.Split(hold.Path())
	in := a.client.In(hold.Session())
	alive := hold.Session().Context()
	number := r.n + 1 // the number of this success
	responses, err := inside.Conclude(hold, func(refused *framework.MultiError) ([]any, error) {
		switch {
		case refused == nil:
		case refused.Index > 0: // an operation of the caller was refused
			return nil, &framework.MultiError{Index: refused.Index - 1, Op: refused.Op, Path: refused.Path, Err: refused.Err}
		case !changed(refused):
			return nil, notWritable(refused)
		default:
			now, err := a.read(alive, in)
			if err != nil {
				return nil, err
			}
			r, number = now, now.n+1
		}
		return append([]any{r.set(a.node, r.with(key, a.by, id, a.cfg.keep))}, current.ops...), nil
	})
	result := Record{Key: key, By: a.by, Ran: true}
	if err == nil {
		if stat := responses[0].Stat; stat != nil {
			result.At = time.UnixMilli(stat.Mtime).UTC()
		}
		return result, nil
	}
	unknown := retry.Unknown(err)
	if unknown {
		// The end of ctx does not leave open what one read can tell.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.Session().Timeout())
		defer cancel()
		found, known := a.settle(ctx, hold.Path(), id, r, number)
		if found != nil {
			found.Key, found.Ran = key, true
			return *found, nil
		}
		unknown = !known
	}
	text := "succeeded, but not recorded"
	if unknown {
		text = "succeeded, but not known to be recorded"
	}
	if multi := (*framework.MultiError)(nil); !errors.As(err, &multi) {
		err = operr.Bare(err)
	}
	return result, a.ended(fmt.Errorf("%s: %w", text, err), unknown)
}

// settle looks for a success with this number, which was to be recorded after sent. known reports
// whether the answer is final: no copy of the transaction can be applied when the lock's node is
// deleted, and the record node is still the same one.
func (o *Once) settle(ctx context.Context, node, id string, sent *record, number int64) (found *Record, known bool) {
	if err := o.client.Delete(ctx, node); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, false
	}
	r, err := o.read(ctx, o.client)
	if err != nil {
		return nil, false
	}
	if e := r.last(func(e *entry) bool { return e.ID == id }); e != nil {
		result := r.result(e)
		return &result, true
	}
	same := r.stat != nil && sent.stat != nil && r.stat.Czxid == sent.stat.Czxid
	return nil, same && r.lacks(number)
}

// unrecorded is the reason why a success is not known to be recorded.
type unrecorded struct {
	error
	unknown bool
}

func (u *unrecorded) Unwrap() error { return u.error }

// Unknown decides [retry.Unknown].
func (u *unrecorded) Unknown() bool { return u.unknown }

// Records lists the recorded successes, newest first.
//
// Errors are
//   - [ErrBadValue] if the record node contains data of another program;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
func (o *Once) Records(ctx context.Context) ([]Record, error) {
	r, err := o.read(ctx, o.client)
	if err != nil {
		return nil, operr.New("records", o.path, err)
	}
	var all []Record
	for i := len(r.done) - 1; i >= 0; i-- {
		if e := &r.done[i]; e.Key != "" {
			all = append(all, r.result(e))
		}
	}
	return all, nil
}

// Forget removes the record of a key, so that the key runs again. A key without a record is not an
// error.
//
// Errors are
//   - [ErrBadValue] if the record node contains data of another program;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth, or zk.ErrNoNode if the record node is deleted
//     during the call.
func (o *Once) Forget(ctx context.Context, key string) error {
	id := ""
	for first := true; ; first = false {
		r, err := o.read(ctx, o.client)
		if err != nil {
			return operr.New("forget", o.path, err)
		}
		e := r.find(key)
		if e == nil || !first && e.ID != id { // the key has run again since
			return nil
		}
		id = e.ID
		_, err = o.client.Set(ctx, o.node, r.without(key).encode(), framework.IfVersion(r.stat.Version))
		if !errors.Is(err, zk.ErrBadVersion) { // otherwise it may have been applied, and the next read shows that
			return operr.New("forget", o.path, err)
		}
	}
}
