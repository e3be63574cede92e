// Package connstate has the states of a client's connection, calls listeners when the state changes, and
// computes the instant at which a session counts as lost.
//
// # States
//
// They are those of Curator's ConnectionState:
//
//	(none) ── connected ── suspended ── reconnected
//	                          │    ╲        │
//	                         lost ──╲───────╯   and back to suspended
//
// A client is Connected once; every later recovery is Reconnected. Suspended means that there is no connection,
// but the session may still live. Lost means that the session has ended, or counts as ended. Suspended always
// comes before Lost.
//
// # What it promises
//
//   - A listener is called with every state in order, one at a time, and never under a lock.
//   - A listener that is slow, blocks or panics does not affect others. If it is so slow that many states are
//     queued, some in the middle are left out, but never Lost and never the latest. The sequence stays legal.
//   - Close waits until no listener is running, except if a listener calls it.
//   - A [Deadline] is never later than the instant at which the servers may end the session.
//
// # What it cannot promise
//
// A process that is stopped learns of a loss only when it continues. And a [Deadline] assumes that our clock
// runs at most 2 % slower than the servers' clocks, and that the pings of a leader to the follower that we talk
// to are never more than a quarter of the session timeout apart, unless they end.
package connstate
