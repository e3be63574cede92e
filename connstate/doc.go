// Package connstate says how a client's connection and session are, tells listeners of
// it, and knows when a session must be taken for lost.
//
// # States
//
// They are those of Curator's ConnectionState:
//
//	(none) ── connected ── suspended ── reconnected
//	                          │    ╲        │
//	                         lost ──╲───────╯   and back to suspended
//
// Connected comes once in a client's life; every later recovery is Reconnected. Suspended
// means that there is no connection, but the session may live. Lost means that the
// session is over, or must be taken for over. Lost always comes after Suspended.
//
// # What it promises
//
//   - A listener hears of every state in order, one at a time, and never under a lock.
//   - A listener that is slow, blocks or panics harms nobody else. If it is so slow that
//     states pile up, some in the middle are left out, but never Lost and
//     never the latest, and what it hears is still a legal sequence.
//   - Close waits until nobody is called any more, except from inside a listener.
//   - A [Deadline] is never later than the instant at which the servers may end the session.
//
// # What it cannot promise
//
// That anybody hears of a state in time who does not run: a process that was stopped
// learns of a loss when it goes on, and not before. And a [Deadline] believes that our clock
// runs at most 2 % slower than the servers', and that no quarter of the session timeout
// goes by in which a follower that we talk to hears no ping of its leader, and then does.
package connstate
