package shared

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/nocopy"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locks"
	"github.com/gocurator/curator/recipes/internal/recipe"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
)

// Version is a state of a value's node, comparable with ==. The zero Version stands for a missing
// node.
type Version struct {
	czxid, mzxid int64
	number       int32
}

// Exists reports whether the node existed.
func (v Version) Exists() bool { return v != Version{} }

func versionOf(s *zk.Stat) Version { return Version{s.Czxid, s.Mzxid, s.Version} }

// What a write expects instead of a number. The version of a node may be any of 32 bits.
const (
	anyVersion int64 = -1
	noNode     int64 = math.MaxInt64
)

// check returns ErrVersion if the servers do not compare this version.
func (v Version) check() error {
	if v.Exists() && v.number == -1 {
		return ErrVersion
	}
	return nil
}

// expected returns what a write to a node of this version expects.
func (v Version) expected() int64 {
	if v.Exists() {
		return int64(v.number)
	}
	return noNode
}

// Value is a value at one path, shared by all processes. A Value never returns an older state after
// a newer one. It need not be closed, and is safe for concurrent use.
type Value[T any] struct {
	_ nocopy.Mark

	client *framework.Client
	path   string
	codec  codec[T]
	mutex  *mutex.Mutex // nil: none
	recent recent
}

// Path returns the path of the node.
func (v *Value[T]) Path() string { return v.path }

// Get reads the value and its version. A missing node is not an error.
//
// Errors are
//   - [ErrBadValue] if the data are not a value of this kind. The version is valid;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
func (v *Value[T]) Get(ctx context.Context) (T, Version, error) {
	x, version, err := v.get(ctx)
	return x, version, operr.New("get", v.path, err)
}

// GetW reads the value and its version, and sets a watch that fires when the value has changed. A
// missing node is not an error: the watch fires when the node is created.
//
// Errors are
//   - [ErrBadValue] if the data are not a value of this kind. The version and the watch are valid;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
func (v *Value[T]) GetW(ctx context.Context) (T, Version, *framework.Watch, error) {
	x, version, watch, err := v.watch(ctx, v.client)
	return x, version, watch, operr.New("get", v.path, err)
}

// Set writes a value unconditionally. A missing node is created, with its parents.
//
// Errors are
//   - the error of encoding/json if x cannot be encoded: nothing is written;
//   - [framework.ErrTooLong] if the data exceed the client's limit of a request: nothing is
//     written;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the session expires after the request was sent, or if the
//     client is a view of a lost session: see [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
//
// If [retry.Unknown] is true of an error, the value may be set already, or may still be set until
// the session has expired.
func (v *Value[T]) Set(ctx context.Context, x T) error {
	defer v.recent.shown(Version{})
	data, err := v.codec.encode(x)
	for next := []int64{anyVersion, noNode}; err == nil; slices.Reverse(next) {
		if _, err = v.write(ctx, next[0], data); err != ErrChanged {
			break
		}
		err = nil // the node was created or deleted
	}
	return operr.New("set", v.path, err)
}

// CompareAndSwap writes a value if the current one has the given version. With the zero Version it
// creates the node and its parents.
//
// Errors are
//   - [ErrChanged] if the current version differs: nothing is written;
//   - [ErrVersion] if version is -1, which the servers cannot compare: nothing is written;
//   - the error of encoding/json if x cannot be encoded: nothing is written;
//   - [framework.ErrTooLong] if the data exceed the client's limit of a request: nothing is
//     written;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the session expires after the request was sent, or if the
//     client is a view of a lost session: see [framework.Client.In];
//   - the server's errors, such as zk.ErrNoAuth.
//
// If [retry.Unknown] is true of an error, the value may be set already, or may still be set until
// the session has expired.
func (v *Value[T]) CompareAndSwap(ctx context.Context, version Version, x T) error {
	defer v.recent.shown(Version{})
	data, err := v.codec.encode(x)
	if err == nil {
		var now Version
		// A bad value is replaced.
		if _, now, err = v.get(ctx); err == nil || errors.Is(err, ErrBadValue) {
			if err = ErrChanged; now == version {
				if err = version.check(); err == nil {
					_, err = v.write(ctx, version.expected(), data)
				}
			}
		}
	}
	return operr.New("compare and swap", v.path, err)
}

const (
	// optimisticTries is how often an Update may be overtaken before it acquires the mutex.
	optimisticTries = 3

	firstPause = 8 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// Update replaces the current value with the result of f, and returns it. If another client writes
// in between, f is called again, until ctx is done. f must not modify its argument.
//
// A missing node is created, with its parents. Errors are
//   - [framework.ErrBadArgument] if f is nil;
//   - the error of f: nothing is written;
//   - [ErrBadValue] if the data are not a value of this kind: nothing is written;
//   - [ErrVersion] if the node has version -1, which the servers cannot compare: nothing is
//     written;
//   - the error of encoding/json if the result cannot be encoded: nothing is written;
//   - [framework.ErrTooLong] if the data exceed the client's limit of a request: nothing is
//     written;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the session expires after the request was sent, or if the
//     client is a view of a lost session: see [framework.Client.In];
//   - an error of the mutex of [WithMutex], such as lock.ErrSequenceExhausted: nothing is written;
//   - the server's errors, such as zk.ErrNoAuth.
//
// If [retry.Unknown] is true of an error, the result may have been written, at most once.
func (v *Value[T]) Update(ctx context.Context, f func(x T) (T, error)) (T, error) {
	if f == nil {
		return *new(T), operr.New("update", v.path, fmt.Errorf("%w: nil function", framework.ErrBadArgument))
	}
	if last := v.recent.get(); last.usable() {
		x, err := v.codec.decode(last.data)
		if err == nil {
			x, err = v.try(ctx, x, last.version, f)
		}
		if err == nil || retry.Unknown(err) {
			return x, operr.New("update", v.path, err)
		} // else a read is needed
	}
	pauses := wait.Pauses{First: firstPause, Last: lastPause}
	for n := 1; ; n++ {
		x, version, err := v.get(ctx)
		if err == nil {
			x, err = v.try(ctx, x, version, f)
		}
		switch {
		case err != ErrChanged: // an ErrChanged of f is wrapped
			return x, operr.New("update", v.path, err)
		case n == optimisticTries && v.mutex != nil:
			// The mutex only orders the writers. If it is lost, versions still decide which of them
			// writes.
			var hold *lock.Hold
			if hold, err = v.mutex.Acquire(ctx); err == nil {
				// Unlike Release, Leave returns soon even without a server.
				defer locks.Inside.Leave([]*lock.Hold{hold})
			} else if errors.Is(err, lock.ErrHeld) {
				err = nil // the caller has the turn
			}
		default:
			err = engine.Sleep(ctx, engine.Of(v.client), pauses.Next())
		}
		if err != nil {
			var none T
			return none, operr.New("update", v.path, notWritten{operr.Bare(err)})
		}
	}
}

// try is one attempt of an Update, with a value of this version.
func (v *Value[T]) try(ctx context.Context, x T, version Version, f func(x T) (T, error)) (T, error) {
	var none T
	if err := version.check(); err != nil {
		return none, err
	}
	x, err := f(x)
	if err != nil {
		return none, notWritten{err}
	}
	data, err := v.codec.encode(x)
	if err != nil {
		return none, err
	}
	before := v.recent.get()
	now, err := v.write(ctx, version.expected(), data)
	if err != nil {
		return none, err
	}
	v.recent.done(before, data, now)
	return x, nil
}

// Observe yields the current value, at least as new as at the call, and then the newest one after
// each change. It continues through outages.
//
//	for x, err := range v.Observe(ctx) {
//		if errors.Is(err, shared.ErrBadValue) { continue } // the data are not a value
//		if err != nil { return err }                       // ctx is done, or the client is closed
//		...
//	}
//
// Every error but [ErrBadValue] ends the iteration. Errors are
//   - [ErrBadValue] if the data are not a value of this kind;
//   - the error of ctx, wrapped with zk.ErrNoServer if the client is not connected;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - the server's errors that a retry cannot fix, such as zk.ErrNoAuth.
func (v *Value[T]) Observe(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last Version
		first := true
		err := recipe.Reads(ctx, v.client, func(ctx context.Context, in *framework.Client, _ engine.Link) (<-chan struct{}, error) {
			x, version, watch, err := v.watch(ctx, in)
			if watch == nil {
				return nil, err
			}
			if first || version != last {
				first, last = false, version
				if !yield(x, operr.New("observe", v.path, err)) {
					return nil, nil
				}
			}
			return watch.Done(), nil
		})
		if err != nil {
			yield(*new(T), operr.New("observe", v.path, err))
		}
	}
}

// watch reads with a watch. It is nil if there is an error, except ErrBadValue.
func (v *Value[T]) watch(ctx context.Context, client *framework.Client) (x T, version Version, watch *framework.Watch, err error) {
	for {
		data, stat, watch, err := client.GetW(ctx, v.path)
		if errors.Is(err, zk.ErrNoNode) {
			var found bool
			if found, stat, watch, err = client.ExistsW(ctx, v.path); found {
				continue // it was created in between
			}
		}
		if err != nil {
			return x, version, nil, err
		}
		x, version, err := v.read(data, stat)
		return x, version, watch, err
	}
}

// get reads the node. It never moves back in time: a session sees everything that was committed
// before it began.
func (v *Value[T]) get(ctx context.Context) (x T, version Version, err error) {
	data, stat, err := v.client.Get(ctx, v.path)
	if errors.Is(err, zk.ErrNoNode) {
		stat, err = nil, nil
	}
	if err != nil {
		return x, version, notWritten{operr.Bare(err)}
	}
	return v.read(data, stat)
}

// read converts the result of a read; a nil stat stands for a missing node.
func (v *Value[T]) read(data []byte, stat *zk.Stat) (x T, version Version, err error) {
	if stat != nil {
		version = versionOf(stat)
		x, err = v.codec.decode(data)
	}
	v.recent.shown(version)
	return x, version, err
}

func (v *Value[T]) closed() bool { return wait.Closed(engine.Of(v.client).Done()) }
