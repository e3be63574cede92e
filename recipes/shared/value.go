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
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
)

// Version is one state of a value's node. The zero Version is that of no node. Versions are compared with ==.
type Version struct {
	czxid, mzxid int64
	number       int32
}

// Exists reports whether there was a node.
func (v Version) Exists() bool { return v != Version{} }

func versionOf(s *zk.Stat) Version { return Version{s.Czxid, s.Mzxid, s.Version} }

// What a write expects instead of a number. The version of a node may be any of 32 bits.
const (
	anyVersion int64 = -1
	noNode     int64 = math.MaxInt64
)

// expected is what a write to a node of this version expects.
func (v Version) expected() int64 {
	if v.Exists() {
		return int64(v.number)
	}
	return noNode
}

// Value is a value at one path that all processes share. What a Value has shown is never followed by something older. It keeps no
// connection, and is safe for concurrent use.
type Value[T any] struct {
	client *framework.Client
	path   string
	codec  codec[T]
	mutex  *mutex.Mutex // nil: none
	recent recent
}

// Path is the path of the node.
func (v *Value[T]) Path() string { return v.path }

// Get reads the value. The version is for Swap. No node is created. Errors are [ErrBadValue], with the version, and those of
// [framework.Client.Get], but a missing node is none.
func (v *Value[T]) Get(ctx context.Context) (T, Version, error) {
	x, version, err := v.get(framework.InSession(ctx, nil)) // the session of a caller's lock is not ours
	return x, version, follow.OpError("get", v.path, err)
}

// GetW is Get, and sets a watch that fires when the value has changed. With a context of [framework.InSession] it reads in that session: so
// it can be the read of a [framework.Client.Follow].
func (v *Value[T]) GetW(ctx context.Context) (T, Version, *framework.Watch, error) {
	x, version, watch, err := v.watch(ctx)
	return x, version, watch, follow.OpError("get", v.path, err)
}

// Set writes a value, whatever there is; a missing node is created, with its parents. Errors are those of [framework.Client.Multi];
// if [retry.Unknown] is true of one, the value may have been set, or may be set until the servers have ended the session.
func (v *Value[T]) Set(ctx context.Context, x T) error {
	ctx = framework.InSession(ctx, nil)
	defer v.recent.shown(Version{})
	data, err := v.codec.encode(x)
	for next := []int64{anyVersion, noNode}; err == nil; slices.Reverse(next) {
		if _, err = v.write(ctx, next[0], data); err != ErrChanged {
			break
		}
		err = nil // the node was created or deleted
	}
	return follow.OpError("set", v.path, err)
}

// Swap writes a value if the present one has the given version. With the zero Version it creates the node if there is none, with
// its parents: that is how a value gets its first content. The error is [ErrChanged] if there is another version; otherwise as for
// [Value.Set].
func (v *Value[T]) Swap(ctx context.Context, version Version, x T) error {
	ctx = framework.InSession(ctx, nil)
	defer v.recent.shown(Version{})
	data, err := v.codec.encode(x)
	if err == nil {
		var now Version
		if _, now, err = v.get(ctx); err == nil || errors.Is(err, ErrBadValue) { // which is replaced
			if err = ErrChanged; now == version {
				_, err = v.write(ctx, version.expected(), data)
			}
		}
	}
	return follow.OpError("swap", v.path, err)
}

const (
	// optimisticTries is how often an Update may be overtaken before it acquires the mutex.
	optimisticTries = 3

	firstPause = 8 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// Update writes what f makes of the present value, and returns it. If somebody else writes meanwhile it calls f again, with the newer
// value, as long as ctx: see also [WithMutex]. f must not change what it is given. A missing node is created, with its parents.
//
// The result of exactly one call of f has been written, once, if there is no error. An error of f ends it, and nothing has been written;
// if f was given what was not read, it is called once more with what is.
// Otherwise errors are [ErrBadValue], those of [framework.Client.Multi] and of [mutex.Mutex.Acquire]; if [retry.Unknown] is true of one,
// the result may have been written, at most once.
//
// While nobody else writes, Updates that follow each other at once skip the read: the first call of f gets what the last one has written.
func (v *Value[T]) Update(ctx context.Context, f func(x T) (T, error)) (T, error) {
	if f == nil {
		return *new(T), follow.OpError("update", v.path, fmt.Errorf("%w: nil function", framework.ErrBadArgument))
	}
	ctx = framework.InSession(ctx, nil)
	if last := v.recent.get(); last.usable() {
		x, err := v.codec.decode(last.data)
		if err == nil {
			x, err = v.try(ctx, x, last.version, f)
		}
		if err == nil || retry.Unknown(err) {
			return x, follow.OpError("update", v.path, err)
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
			return x, follow.OpError("update", v.path, err)
		case n == optimisticTries && v.mutex != nil:
			var hold *lock.Hold
			if hold, err = v.mutex.Acquire(ctx); err == nil {
				// The mutex is there to take turns. If it is lost, versions still decide who writes.
				defer queue.Leave([]*queue.Hold{(*queue.Hold)(hold)}) // unlike Release, soon also without a server
			}
		default:
			err = engine.Sleep(ctx, engine.Of(v.client), pauses.Next())
		}
		if err != nil {
			var none T
			return none, follow.OpError("update", v.path, notWritten{follow.Bare(err)})
		}
	}
}

// try is one try of an Update, with a value of this version.
func (v *Value[T]) try(ctx context.Context, x T, version Version, f func(x T) (T, error)) (T, error) {
	var none T
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

// Changes is a loop over the values: first the present one, at least as new as it was at the call, then the newest one whenever it has
// changed. A slow loop misses values that have changed again meanwhile. It goes on while no server can be reached.
//
//	for x, err := range v.Changes(ctx) {
//		if errors.Is(err, shared.ErrBadValue) { continue } // somebody has written something else
//		if err != nil { return err }                       // ctx is done, or the client is closed
//		...
//	}
//
// A pair whose error is [ErrBadValue] is about data that are not a value, and the loop goes on. With any other error it ends: that of ctx,
// which wraps zk.ErrNoServer if there is no connection, [framework.ErrClosed], and answers such as zk.ErrNoAuth.
func (v *Value[T]) Changes(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last Version
		first := true
		err := follow.Reads(ctx, v.client, func(ctx context.Context, _ engine.Link) (<-chan struct{}, error) {
			x, version, watch, err := v.watch(ctx)
			if watch == nil {
				return nil, err
			}
			if first || version != last {
				first, last = false, version
				if !yield(x, follow.OpError("changes", v.path, err)) {
					return nil, nil
				}
			}
			return watch.Done(), nil
		})
		if err != nil {
			yield(*new(T), follow.OpError("changes", v.path, err))
		}
	}
}

// watch reads with a watch. It is nil if there is an error, except ErrBadValue.
func (v *Value[T]) watch(ctx context.Context) (x T, version Version, watch *framework.Watch, err error) {
	for {
		data, stat, watch, err := v.client.GetW(ctx, v.path)
		if errors.Is(err, zk.ErrNoNode) {
			var found bool
			if found, stat, watch, err = v.client.ExistsW(ctx, v.path); found {
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

// get reads the node. It never goes back in time: a session sees all that was committed before it began.
func (v *Value[T]) get(ctx context.Context) (x T, version Version, err error) {
	data, stat, err := v.client.Get(ctx, v.path)
	if errors.Is(err, zk.ErrNoNode) {
		stat, err = nil, nil
	}
	if err != nil {
		return x, version, notWritten{follow.Bare(err)}
	}
	return v.read(data, stat)
}

// read makes a value of what was read; no stat is no node.
func (v *Value[T]) read(data []byte, stat *zk.Stat) (x T, version Version, err error) {
	if stat != nil {
		version = versionOf(stat)
		x, err = v.codec.decode(data)
	}
	v.recent.shown(version)
	return x, version, err
}

func (v *Value[T]) closed() bool { return wait.Closed(engine.Of(v.client).Done()) }
