package shared

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
)

var (
	// ErrChanged means that the value is not the one that was read: somebody has written, deleted or created the node.
	ErrChanged = errors.New("value has changed")

	// ErrBadValue means that the node's data are not a value of this kind. [Value.Set] repairs it.
	ErrBadValue = errors.New("bad value")
)

// Option is an option of a value.
type Option func(*config) error

type config struct{ mutexPath string }

// WithMutex has an Update that was overtaken three times acquire a mutex at path before it goes on, so that processes with this option
// take turns. The next Update begins without it. Everybody must give the same path, which is not below that of the value. It is
// Curator's PromotedToLock.
func WithMutex(path string) Option {
	return func(c *config) error {
		c.mutexPath = path
		return framework.ValidatePath(path)
	}
}

// codec is how a value is written.
type codec[T any] struct {
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error) // of a node that exists
}

// Bytes makes a value that is the data of the node at path as they are; no data if there is no node. Nothing is sent.
// Errors are [framework.ErrBadPath] and [framework.ErrBadArgument].
func Bytes(client *framework.Client, path string, opts ...Option) (*Value[[]byte], error) {
	return newValue(client, path, opts, codec[[]byte]{
		encode: func(b []byte) ([]byte, error) { return append([]byte{}, b...), nil }, // never nil, which Java cannot read
		decode: func(b []byte) ([]byte, error) { return b, nil },
	})
}

// Int32 makes a number of four bytes, Curator's SharedCount; 0 if there is no node. Otherwise it is like [Bytes]. Other data than four
// bytes are [ErrBadValue].
func Int32(client *framework.Client, path string, opts ...Option) (*Value[int32], error) {
	return newValue(client, path, opts, codec[int32]{
		encode: func(n int32) ([]byte, error) { return binary.BigEndian.AppendUint32(nil, uint32(n)), nil },
		decode: func(b []byte) (int32, error) {
			if len(b) != 4 {
				return 0, fmt.Errorf("%w: %d bytes instead of 4", ErrBadValue, len(b))
			}
			return int32(binary.BigEndian.Uint32(b)), nil
		},
	})
}

// Int64 makes a number of eight bytes, Curator's DistributedAtomicLong; 0 if there is no node, or it has no data. Otherwise it is like
// [Bytes]. Other data are [ErrBadValue].
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

// JSON makes a value of any type, written as JSON; the zero T if there is no node. Otherwise it is like [Bytes]. Data that
// are not a T in JSON are [ErrBadValue].
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
		err = follow.Check(client, path)
	}
	v := &Value[T]{client: client, path: path, codec: c}
	if err == nil && cfg.mutexPath != "" {
		v.mutex, err = mutex.New(client, cfg.mutexPath)
	}
	if err != nil {
		return nil, follow.OpError("shared value", path, err)
	}
	return v, nil
}

// Reserve takes the next n numbers, at least 1, from a value: first, first+1 and so on. It costs one write, whatever n is. No number is
// given out twice, also after a crash. If it is not known whether a write was done, its numbers are left out and Reserve tries
// again, as long as ctx. A value that would not fit into 64 bits is [ErrBadValue]. Other errors are those of [Value.Update].
func Reserve(ctx context.Context, v *Value[int64], n int64) (first int64, err error) {
	if n < 1 {
		return 0, follow.OpError("reserve", v.path, fmt.Errorf("%w: %d numbers, must be at least 1", framework.ErrBadArgument, n))
	}
	for {
		next, err := v.Update(ctx, func(next int64) (int64, error) {
			if next > math.MaxInt64-n {
				return 0, fmt.Errorf("%w: there are no %d numbers after %d", ErrBadValue, n, next)
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
