// Package retry says which failed requests to ZooKeeper may be sent again, how
// long to pause before, and when to give up.
//
// A [Policy] is a recipe for pauses: it makes a fresh [backoff.BackOff] for each
// operation. [Do] runs an operation under a policy. [Retryable] and [Unknown] are
// the two questions that a failure must answer: may the request be sent again,
// and may the server have carried it out already?
//
//	err := retry.Do(ctx, retry.ExponentialBackoff(100*time.Millisecond, 5), func() error {
//		_, err := conn.Set(path, data, version)
//		return err
//	})
//
// # What it promises
//
//   - Pauses are positive and bounded, whatever the arguments of a policy.
//   - Counts are repetitions after the first call, as in Apache Curator: a policy
//     of five retries makes up to six calls.
//   - A Do inside a Do adds its calls; it does not multiply them.
//   - An outcome that was unknown once stays unknown: see [Unknown].
//
// # What it cannot promise
//
// That a request is carried out once. A request that was sent and not answered
// may be carried out, and sent again it may be carried out twice, or meet its own
// first success as "node already exists" or "version conflict". Whoever sends
// a request that must not be repeated has to look at [Unknown].
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/internal/ctxerr"
)

// ErrExhausted means that an operation was repeated as often, or for as long, as
// its [Policy] allows, and failed each time. The last failure is wrapped beside
// it. The server is out of reach: come back later, or use a policy that outlasts
// the outage.
var ErrExhausted = errors.New("retries exhausted")

// errArguments stands in for a panic. It is not exported, because it tells of
// a mistake in the calling code, which no code can handle.
var errArguments = errors.New("retry: nil context, pause or operation")

// Notify hears of each repetition that [Do] is about to make: the failure that
// calls for it, the pause that comes first, and the number of calls made so far
// (1 after the first call).
//
// It is called from Do's goroutine, and the pause begins when it returns.
type Notify func(err error, pause time.Duration, calls int)

// Do calls op until it succeeds, its failure is not [Retryable], the policy
// allows no more repetitions, or ctx is done. It pauses between calls as p says. A
// nil policy is [Never]. Each notify that is not nil is told of each repetition.
//
// It is Curator's RetryLoop.callWithRetry.
//
// On failure it returns
//   - op's error, when that is not retryable or p allows no repetition at all;
//   - an error that wraps [ErrExhausted] and op's last error, when there were
//     repetitions and p allows no more;
//   - an error that wraps ctx.Err(), ctx's cause and op's last error, when ctx is
//     done. A pause ends with ctx. If ctx is done beforehand, op is not called.
//
// [Unknown] is true of that error if it is true of any of op's errors: when one
// call's request was lost, that the next was refused does not undo it.
//
// When op itself fails with ErrExhausted, it has had its repetitions, and Do
// returns the error without any of its own. So retries do not multiply where one
// Do runs inside another (CURATOR-559). A loop that shall go on in spite of that,
// say for ever in the background, has to run op under Never.
//
// Do may be called from any number of goroutines. It starts none.
func Do(ctx context.Context, p Policy, op func() error, notify ...Notify) error {
	return DoPausing(ctx, p, ctxerr.Sleep, op, notify...)
}

// Pause waits for d, or until ctx is done: then its error wraps ctx.Err() and ctx's cause. It may
// return early, with nil, if it knows that waiting is of no more use.
type Pause func(ctx context.Context, d time.Duration) error

// DoPausing is [Do] with pauses that can be cut short: because a connection is back, say.
func DoPausing(ctx context.Context, p Policy, pause Pause, op func() error, notify ...Notify) error {
	if ctx == nil || op == nil || pause == nil {
		return errArguments
	}
	if ctx.Err() != nil {
		return ctxerr.Of(ctx)
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
			return failure(fmt.Errorf("%w: %w", ctxerr.Of(ctx), err), unknown)
		}
		length := pauses.NextBackOff()
		if length < 0 { // backoff.Stop
			if calls > 1 {
				err = fmt.Errorf("%w after %d calls: %w", ErrExhausted, calls, err)
			}
			return failure(err, unknown)
		}
		for _, tell := range notify {
			if tell != nil {
				tell(err, length, calls)
			}
		}
		if ended := pause(ctx, length); ended != nil {
			return failure(fmt.Errorf("%w: %w", ended, err), unknown)
		}
	}
}

// failure is err, made to answer to Unknown also for the calls before the last.
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
