package shared

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
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

// Value is a value at one path that all processes share. What a Value has shown is never followed by something older. It keeps no
// connection and no copy, and is safe for concurrent use.
type Value[T any] struct {
	client *framework.Client
	path   string
	codec  codec[T]
	mutex  *mutex.Mutex // nil: none
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
	for {
		data, version, watch, err := v.watch(ctx)
		if err == nil && watch == nil {
			continue
		}
		var x T
		if err == nil {
			x, err = v.decode(data, version)
		}
		return x, version, watch, follow.OpError("get", v.path, err)
	}
}

// Set writes a value, whatever there is; a missing node is created, with its parents. Errors are those of [framework.Client.Multi];
// if [retry.Unknown] is true of one, the value may have been set.
func (v *Value[T]) Set(ctx context.Context, x T) error {
	ctx = framework.InSession(ctx, nil)
	data, err := v.codec.encode(x)
	for err == nil {
		if err = v.write(ctx, set, -1, data); !errors.Is(err, zk.ErrNoNode) || retry.Unknown(err) {
			break
		}
		if err = v.write(ctx, create, 0, data); errors.Is(err, zk.ErrNodeExists) && !retry.Unknown(err) {
			err = nil
			continue
		}
		break
	}
	return follow.OpError("set", v.path, err)
}

// Swap writes a value if the present one has the given version. With the zero Version it creates the node if there is none, with
// its parents: that is how a value gets its first content. The error is [ErrChanged] if there is another version; otherwise as for
// [Value.Set].
func (v *Value[T]) Swap(ctx context.Context, version Version, x T) error {
	ctx = framework.InSession(ctx, nil)
	data, err := v.codec.encode(x)
	if err == nil {
		var now Version
		if _, now, err = v.get(ctx); now != version && (err == nil || errors.Is(err, ErrBadValue)) {
			err = ErrChanged
		} else if errors.Is(err, ErrBadValue) {
			err = nil // it is replaced
		}
	}
	if err == nil {
		err = v.change(ctx, version, data)
	}
	return follow.OpError("swap", v.path, err)
}

const (
	// optimisticTries is how often an Update may be overtaken before it acquires the mutex.
	optimisticTries = 3

	firstPause = 2 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// Update writes what f makes of the present value, and returns it. If somebody else writes meanwhile it calls f again, with the newer
// value, as long as ctx: see also [WithMutex]. f must not change what it is given. A missing node is created, with its parents.
//
// The result of exactly one call of f has been written, once, if there is no error. An error of f ends it, and nothing has been written.
// Otherwise errors are [ErrBadValue], those of [framework.Client.Multi] and of [mutex.Mutex.Acquire]; if [retry.Unknown] is true of one,
// the result may have been written, at most once.
func (v *Value[T]) Update(ctx context.Context, f func(x T) (T, error)) (T, error) {
	ctx = framework.InSession(ctx, nil)
	x, overtaken, err := v.tries(ctx, f, optimisticTries)
	if overtaken && v.mutex != nil {
		hold, err := v.mutex.Acquire(ctx)
		if err != nil {
			return *new(T), notWritten{err}
		}
		// The mutex is there to take turns. If it is lost, versions still decide who writes.
		defer func() { _ = hold.Release() }()
	}
	if overtaken {
		x, _, err = v.tries(ctx, f, 0)
	}
	return x, follow.OpError("update", v.path, err)
}

// tries is Update for a number of tries; 0 is any number.
func (v *Value[T]) tries(ctx context.Context, f func(x T) (T, error), most int) (result T, overtaken bool, err error) {
	var none T
	pauses := wait.Pauses{First: firstPause, Last: lastPause}
	for n := 1; ; n++ {
		x, version, err := v.get(ctx)
		if err != nil {
			return none, false, err
		}
		if x, err = f(x); err != nil {
			return none, false, notWritten{err}
		}
		data, err := v.codec.encode(x)
		if err != nil {
			return none, false, err
		}
		if err = v.change(ctx, version, data); err == nil {
			return x, false, nil
		}
		if !errors.Is(err, ErrChanged) || n == most {
			return none, errors.Is(err, ErrChanged), err
		}
		if err := engine.Sleep(ctx, engine.Of(v.client), pauses.Next()); err != nil {
			return none, false, err
		}
	}
}

// Changes is a loop over the values: first the present one, at least as new as it was at the call, then the newest one whenever it has
// changed. A slow loop misses values that have changed again meanwhile. It goes on while no server can be reached.
//
//	for x, err := range v.Changes(ctx) {
//		if err != nil { return err } // ctx is done, or the client is closed
//		...
//	}
//
// A pair whose error is [ErrBadValue] is about data that are not a value, and the loop goes on. With any other error it ends: that of ctx,
// which wraps zk.ErrNoServer if there is no connection, [framework.ErrClosed], and answers such as zk.ErrNoAuth.
func (v *Value[T]) Changes(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last Version
		first := true
		err := follow.Reads(ctx, v.client, func(ctx context.Context, _ *framework.Session) (<-chan struct{}, error) {
			data, version, watch, err := v.watch(ctx)
			if err != nil || watch == nil {
				return follow.Again, err
			}
			if first || version != last {
				first, last = false, version
				x, err := v.decode(data, version)
				if !yield(x, follow.OpError("changes", v.path, err)) {
					return nil, follow.Done
				}
			}
			return watch.Done(), nil
		})
		if err != nil {
			yield(*new(T), follow.OpError("changes", v.path, err))
		}
	}
}

// watch reads with a watch, which is nil if the node was created in between.
func (v *Value[T]) watch(ctx context.Context) ([]byte, Version, *framework.Watch, error) {
	data, stat, watch, err := v.client.GetW(ctx, v.path)
	if errors.Is(err, zk.ErrNoNode) {
		found, _, watch, err := v.client.ExistsW(ctx, v.path)
		if found {
			watch = nil
		}
		return nil, Version{}, watch, err
	}
	if err != nil {
		return nil, Version{}, nil, err
	}
	return data, versionOf(stat), watch, nil
}

func (v *Value[T]) decode(data []byte, version Version) (T, error) {
	if !version.Exists() {
		return *new(T), nil
	}
	return v.codec.decode(data)
}

// get reads the node. It never goes back in time: a session sees all that was committed before it began.
func (v *Value[T]) get(ctx context.Context) (T, Version, error) {
	data, stat, err := v.client.Get(ctx, v.path)
	if errors.Is(err, zk.ErrNoNode) {
		return *new(T), Version{}, nil
	}
	if err != nil {
		return *new(T), Version{}, notWritten{follow.Bare(err)}
	}
	x, err := v.codec.decode(data)
	return x, versionOf(stat), err
}

func (v *Value[T]) closed() bool { return wait.Closed(engine.Of(v.client).Done()) }
