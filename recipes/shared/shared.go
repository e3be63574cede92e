package shared

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/recipe"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
)

var (
	// ErrChanged means that the node was written, deleted or created since the value was read.
	ErrChanged = errors.New("value has changed")

	// ErrBadValue means that the node's data are not a value of this kind. [Value.Set] replaces
	// them. It equals [framework.ErrBadValue].
	ErrBadValue = framework.ErrBadValue

	// ErrVersion means that the node has version -1, which the servers do not compare: a
	// conditional write would be unconditional. [Value.Set] gives the node the next version.
	ErrVersion = errors.New("version -1 cannot be compared")
)

// Option configures a [Value].
type Option func(*config) error

type config struct{ mutexPath string }

// WithMutex makes an Update that was overtaken three times acquire a mutex at path, so that
// processes with this option take turns. The next Update starts without the mutex. It is Curator's
// PromotedToLock.
//
// All processes must use the same path. The value's path and paths below it are refused with
// [framework.ErrBadArgument]: the mutex would create the value's node as a container.
func WithMutex(path string) Option {
	return func(c *config) error {
		c.mutexPath = path
		return framework.ValidatePath(path)
	}
}

// codec encodes and decodes a value.
type codec[T any] struct {
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error) // decodes the data of an existing node
}

// Bytes returns a value whose content is the node's data. It is empty if the node does not exist.
//
// Errors are
//   - [framework.ErrBadPath] if path, or the path of [WithMutex], is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, or the path of WithMutex is path or lies below
//     it.
func Bytes(client *framework.Client, path string, opts ...Option) (*Value[[]byte], error) {
	return newValue(client, path, opts, codec[[]byte]{
		// The data are never nil, which Java cannot read.
		encode: func(b []byte) ([]byte, error) { return append([]byte{}, b...), nil },
		decode: func(b []byte) ([]byte, error) { return b, nil },
	})
}

// Int32 returns a value whose node contains a number of four bytes, the most significant first. It
// is 0 if the node does not exist or is empty. Methods return [ErrBadValue] if the data have
// another length.
//
// Int32 is Curator's SharedCount. A new node of kazoo's Counter is empty. Errors are
//   - [framework.ErrBadPath] if path, or the path of [WithMutex], is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, or the path of WithMutex is path or lies below
//     it.
func Int32(client *framework.Client, path string, opts ...Option) (*Value[int32], error) {
	return newValue(client, path, opts, codec[int32]{
		encode: func(n int32) ([]byte, error) { return binary.BigEndian.AppendUint32(nil, uint32(n)), nil },
		decode: func(b []byte) (int32, error) {
			switch len(b) {
			case 0:
				return 0, nil
			case 4:
				return int32(binary.BigEndian.Uint32(b)), nil
			}
			return 0, fmt.Errorf("%w: %d bytes instead of 4", ErrBadValue, len(b))
		},
	})
}

// Int64 returns a value whose node contains a number of eight bytes, the most significant first. It
// is 0 if the node does not exist or is empty. Methods return [ErrBadValue] if the data have
// another length.
//
// Int64 is Curator's DistributedAtomicLong. Errors are
//   - [framework.ErrBadPath] if path, or the path of [WithMutex], is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, or the path of WithMutex is path or lies below
//     it.
func Int64(client *framework.Client, path string, opts ...Option) (*Value[int64], error) {
	return newValue(client, path, opts, codec[int64]{
		encode: func(n int64) ([]byte, error) { return binary.BigEndian.AppendUint64(nil, uint64(n)), nil },
		decode: func(b []byte) (int64, error) {
			switch len(b) {
			case 0:
				return 0, nil
			case 8:
				return int64(binary.BigEndian.Uint64(b)), nil
			}
			return 0, fmt.Errorf("%w: %d bytes instead of 8", ErrBadValue, len(b))
		},
	})
}

// JSON returns a value of any type, which the node contains as JSON. It is the zero T if the node
// does not exist. Methods return [ErrBadValue] if the data are not the JSON of a T.
//
// Errors are
//   - [framework.ErrBadPath] if path, or the path of [WithMutex], is invalid or the root;
//   - [framework.ErrBadArgument] if client is nil, or the path of WithMutex is path or lies below
//     it.
func JSON[T any](client *framework.Client, path string, opts ...Option) (*Value[T], error) {
	return newValue(client, path, opts, codec[T]{
		encode: func(x T) ([]byte, error) { return json.Marshal(x) },
		decode: func(b []byte) (T, error) {
			var x T
			if err := json.Unmarshal(b, &x); err != nil {
				var none T
				return none, fmt.Errorf("%w: %w", ErrBadValue, err)
			}
			return x, nil
		},
	})
}

func newValue[T any](client *framework.Client, path string, opts []Option, c codec[T]) (*Value[T], error) {
	var cfg config
	err := opt.Apply(&cfg, opts)
	if err == nil {
		err = recipe.Check(client, path)
	}
	v := &Value[T]{client: client, path: path, codec: c}
	if err == nil && (cfg.mutexPath == path || strings.HasPrefix(cfg.mutexPath, path+"/")) {
		err = fmt.Errorf("%w: the mutex at %s is not outside the value", framework.ErrBadArgument, cfg.mutexPath)
	}
	if err == nil && cfg.mutexPath != "" {
		v.mutex, err = mutex.New(client, cfg.mutexPath)
	}
	if err != nil {
		return nil, operr.New("shared value", path, err)
	}
	return v, nil
}

// Reserve reserves the next n numbers of a value, first to first+n-1, with one write. n must be at
// least 1. No number is reserved twice, even after a crash; some may be skipped.
//
// Errors are
//   - [framework.ErrBadArgument] if n is less than 1;
//   - [ErrBadValue] if the data are not a number, or the value would not fit into 64 bits;
//   - [ErrVersion] if the node has version -1;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - an error of the mutex of [WithMutex], such as lock.ErrSequenceExhausted;
//   - the server's errors, such as zk.ErrNoAuth.
func Reserve(ctx context.Context, v *Value[int64], n int64) (first int64, err error) {
	if n < 1 {
		return 0, operr.New("reserve", v.path, fmt.Errorf("%w: %d numbers, must be at least 1", framework.ErrBadArgument, n))
	}
	for {
		next, err := v.Update(ctx, func(next int64) (int64, error) {
			if next > math.MaxInt64-n {
				return 0, fmt.Errorf("%w: fewer than %d numbers left after %d", ErrBadValue, n, next)
			}
			return next + n, nil
		})
		switch {
		case err == nil:
			return next - n, nil
		case !retry.Unknown(err) || ctx.Err() != nil || v.closed():
			return 0, err
		}
	}
}
