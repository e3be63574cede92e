// Package session has what a client knows of its connection and session: the [Machine] keeps the state and calls
// listeners when it changes, and the [Deadline] computes the instant at which a session counts as lost.
//
// # What it promises
//
//   - A listener is called with every state in order, one at a time, and never under a lock.
//   - A listener that is slow, blocks or panics does not affect others. If it is so slow that many states are
//     queued, some are left out, but never Lost and never the latest.
//   - Close does not wait for a listener.
//   - A [Deadline] is never later than the instant at which the servers may end the session.
//
// # What it cannot promise
//
// A process that is stopped notices a loss only when it continues. And a [Deadline] assumes that our clock
// runs at most 2 % slower than the servers' clocks, and that the pings of a leader to the follower that we talk
// to are never more than a quarter of the session timeout apart, unless they end.
package session
