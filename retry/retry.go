// Package retry says which failed requests to ZooKeeper may be sent again, how
// long to pause before, and when to give up.
//
// A [Policy] says how often to retry and how long to pause: it makes a new [backoff.BackOff] for each
// operation. [Do] runs an operation under a policy. [Judge] says what has become of a request that failed: whether
// it may be sent again ([Retryable]), and whether the server may have carried it out ([Unknown]).
//
//	err := retry.Do(ctx, retry.ExponentialBackoff(100*time.Millisecond, 5), func() error {
//		_, err := conn.Set(path, data, version)
//		return err
//	})
//
// # What it promises
//
//   - Pauses are positive and bounded, whatever the arguments of a policy.
//   - Counts are repetitions after the first call, as in Apache Curator: a policy of five retries makes up to
//     six calls.
//   - A Do inside a Do adds its retries; it does not multiply them.
//   - If the outcome of one call was unknown, it stays unknown: see [Unknown].
//
// # What it cannot promise
//
// A request may be carried out twice: once when its answer was lost, and once when it was sent again. Or the
// second one fails with "node already exists" or "version conflict" because the first one succeeded. If a
// request must not be repeated, look at [Unknown].
package retry

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/internal/wait"
)

// ErrExhausted means that an operation was repeated as often, or for as long, as its [Policy] allows, and
// failed each time. The last error is wrapped with it. The server cannot be reached: try again later, or use a
// policy that allows more retries.
var ErrExhausted = errors.New("retries exhausted")

// errArguments is returned instead of a panic. It is not exported, because it means a mistake in the calling
// code, which no code can handle.
var errArguments = errors.New("retry: nil context or operation")

// Do calls op until it succeeds, its error is not [Retryable], the policy allows no more retries, or ctx is
// done. It pauses between calls as p says. A nil policy is [Never].
//
// It is Curator's RetryLoop.callWithRetry.
//
// On failure it returns
//   - op's error, if that is not retryable or p allows no retry at all;
//   - an error that wraps [ErrExhausted] and op's last error, if there were retries and p allows no more;
//   - an error that wraps ctx.Err(), ctx's cause and op's last error, if ctx is done. A pause ends with ctx. If
//     ctx is done at the start, op is not called.
//
// [Unknown] is true of that error if it is true of any of op's errors: after a lost request, a refusal of the
// next one does not make the outcome known.
//
// If op itself fails with ErrExhausted, it has already retried, and Do returns its error without a retry. So
// retries do not multiply if one Do runs inside another (CURATOR-559). A loop that must continue, for instance
// in the background, runs op under Never.
//
// Do is safe for concurrent use. It starts no goroutine.
func Do(ctx context.Context, p Policy, op func() error) error {
	if ctx == nil || op == nil {
		return errArguments
	}
	if ctx.Err() != nil {
		return wait.Err(ctx)
	}
	pauses := p.NewBackOff()
	unknown := false
	for calls := 1; ; calls++ {
		err := op()
		if err == nil {
			return nil
		}
		unknown = unknown || Unknown(err)
		if !Retryable(err) || errors.Is(err, ErrExhausted) {
			return failure(err, unknown)
		}
		if ctx.Err() != nil {
			return failure(fmt.Errorf("%w: %w", wait.Err(ctx), err), unknown)
		}
		length := pauses.NextBackOff()
		if length < 0 { // backoff.Stop
			if calls > 1 {
				err = fmt.Errorf("%w after %d calls: %w", ErrExhausted, calls, err)
			}
			return failure(err, unknown)
		}
		if ended := wait.Sleep(ctx, length); ended != nil {
			return failure(fmt.Errorf("%w: %w", ended, err), unknown)
		}
	}
}

// failure returns err, for which Unknown is also true if it was true for an earlier call.
func failure(err error, unknown bool) error {
	if unknown && !Unknown(err) {
		return &unknownError{err}
	}
	return err
}

// unknownError is an error of the last call after an unanswered earlier one.
type unknownError struct{ error }

func (e *unknownError) Unknown() bool { return true }
func (e *unknownError) Unwrap() error { return e.error }
