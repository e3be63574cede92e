// Package retry provides the policies by which a client retries its operations.
//
//	policy := retry.ExponentialBackoff(100*time.Millisecond, 5)
//	client, err := framework.New(servers, framework.WithRetryPolicy(policy))
//	_, err = client.Set(ctx, "/balance", data)
//	if retry.Unknown(err) { ... } // perhaps written
//
// A [Policy] determines how often an operation is retried, and after which pauses. An operation
// whose retries all fail returns [ErrExhausted]. [Unknown] reports whether the server may have
// carried out an operation that failed.
//
// # What it promises
//
//   - Pauses are positive and bounded, whatever the arguments of a policy.
//   - Counts are retries after the first call, as in Apache Curator: a policy of five retries makes
//     up to six calls.
//   - If the outcome of one call was unknown, the operation's outcome stays unknown.
//
// # What it cannot promise
//
// A request may be carried out twice: once before its reply was lost, and once when it is retried.
// Or the retry fails with "node already exists" or "version conflict" because the first request
// succeeded. If a request must not be repeated, check [Unknown].
package retry

import (
	"errors"

	"github.com/gocurator/curator/internal/verdict"
)

// ErrExhausted means that an operation failed as often, or for as long, as its [Policy] allows. It
// wraps the last error. Call again later, or use a policy with more retries.
var ErrExhausted = errors.New("retries exhausted")

// Unknown reports whether the server may have carried out the operation that failed with err: a
// request was or may have been sent, and its reply is missing.
//
// Unknown returns true if the connection was lost or the server reported a timeout, even if the
// context is done or the client was closed since. It returns false if the server replied, if no
// request was sent (zk.ErrNoServer), and if err is only a context's error.
//
// If an error has a method Unknown() bool, its result applies to the error and to all errors that
// it wraps. Joined errors have an unknown outcome if one of them has.
func Unknown(err error) bool { return verdict.Unknown(err) }
