package retry

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	// minPause is the shortest pause of any policy, Curator's unit of time. A loop without a pause
	// would overload a server that already fails.
	minPause = time.Millisecond

	// maxGrowth is the longest pause of an ExponentialBackoff: Curator's bound, the largest int of
	// milliseconds, 24 days and 20 hours.
	maxGrowth = math.MaxInt32 * time.Millisecond
)

// BackOff returns the pauses of one operation. It is used by one goroutine at a time.
//
// The BackOff interfaces of github.com/cenkalti/backoff, v4 and v5, have the same methods, so their
// implementations can be used.
type BackOff interface {
	// NextBackOff returns the pause before the next retry. A negative pause ends the retries.
	NextBackOff() time.Duration

	// Reset restarts the count of retries and the elapsed time. It is called once, before the first
	// NextBackOff.
	Reset()
}

// Policy determines how often and after which pauses an operation is retried. It returns a new
// [BackOff] for each operation, because a BackOff counts its retries. It is Curator's RetryPolicy.
//
// Operations call a policy concurrently. The policies of this package are safe for that. An
// argument out of range is replaced by the nearest valid value. The shortest pause is a
// millisecond, and the smallest number of retries is 0.
//
// Any function that returns a BackOff is a policy. A policy that returns nil allows no retry.
type Policy func() BackOff

// ExponentialBackoff allows maxRetries retries. The pause before retry n is a random whole multiple
// of base, less than base*2^n. The first pause is base.
//
// No pause exceeds 24 days and 20 hours, or base if base is longer.
//
// It is Curator's ExponentialBackoffRetry, without the limit of 29 retries.
func ExponentialBackoff(base time.Duration, maxRetries int) Policy {
	return BoundedExponentialBackoff(base, max(base, maxGrowth), maxRetries)
}

// BoundedExponentialBackoff allows maxRetries retries. The pause before retry n is a random whole
// multiple of base, less than base*2^n, and at most bound. The first pause is base, or bound if
// that is shorter.
//
// It is Curator's BoundedExponentialBackoffRetry.
func BoundedExponentialBackoff(base, bound time.Duration, maxRetries int) Policy {
	bound = max(bound, minPause)
	base = max(base, minPause)
	return func() BackOff {
		return withMaxRetries(&exponential{base: base, bound: bound}, maxRetries)
	}
}

// NTimes allows n retries, each after the same pause. It is Curator's RetryNTimes, or with n = 1
// its RetryOneTime.
func NTimes(n int, pause time.Duration) Policy {
	return func() BackOff {
		return withMaxRetries(constant(pause), n)
	}
}

// UntilElapsed allows retries, each after the same pause, until limit has passed since the
// operation started. The last pause is shortened, so that no retry starts after the limit. A limit
// of 0 or less allows no retry.
//
// It is Curator's RetryUntilElapsed, which may pause past its limit.
func UntilElapsed(limit, pause time.Duration) Policy {
	return func() BackOff {
		// The elapsed time cannot be subtracted from a large negative limit.
		return &elapsing{limit: max(limit, 0), pause: max(pause, minPause), start: time.Now()}
	}
}

// Forever allows any number of retries, each after the same pause. The operation returns only after
// success, after an error that is not retried, or when its context is done. It is Curator's
// RetryForever.
func Forever(pause time.Duration) Policy {
	return func() BackOff { return constant(pause) }
}

// Never returns a policy without retries, for a caller that retries itself. Curator has no
// counterpart.
func Never() Policy {
	return func() BackOff { return &backoff.StopBackOff{} }
}

func constant(pause time.Duration) BackOff {
	return backoff.NewConstantBackOff(max(pause, minPause))
}

func withMaxRetries(b BackOff, n int) BackOff {
	return backoff.WithMaxRetries(b, uint64(max(n, 0)))
}

// exponential draws random pauses from ranges that double. Both durations are positive. If base is
// above bound, every pause is bound.
type exponential struct {
	base, bound time.Duration
	retry       int // pauses drawn, up to 62
}

func (e *exponential) Reset() { e.retry = 0 }

func (e *exponential) NextBackOff() time.Duration {
	// An int64 can be shifted by 62 at most. That exceeds all but the largest bounds.
	e.retry = min(e.retry+1, 62)
	factor := max(1, rand.Int64N(1<<e.retry))
	// The product may overflow a Duration (CURATOR-262), so divide.
	if factor > int64(e.bound/e.base) {
		return e.bound
	}
	return e.base * time.Duration(factor)
}

// elapsing grants one pause until limit has passed since start.
type elapsing struct {
	limit, pause time.Duration
	start        time.Time
}

func (e *elapsing) Reset() { e.start = time.Now() }

func (e *elapsing) NextBackOff() time.Duration {
	left := e.limit - time.Since(e.start)
	if left <= 0 {
		return backoff.Stop
	}
	return min(e.pause, left)
}
