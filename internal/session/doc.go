// Package session tracks a client's connection state and session. The [Machine] holds the state and
// calls listeners when it changes. The [Deadline] computes the instant at which a session counts as
// lost.
//
// # What it promises
//
//   - A listener is called with every state in order, one at a time, and never under a lock.
//   - A listener that is slow, blocks or panics does not affect others. If too many states are
//     queued for it, some are skipped, but never Lost and never the latest.
//   - Close does not wait for a listener.
//   - A [Deadline] is never later than the instant at which the servers may expire the session.
//
// # What it cannot promise
//
// A suspended process notices a loss only when it resumes. A [Deadline] assumes that this machine's
// clock runs at most 2 % slower than the servers', and that a leader's pings to the follower of
// this client are never more than a quarter of the session timeout apart, unless they stop.
package session
