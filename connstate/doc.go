// Package connstate has the states of a client's connection, and the policies by which recipes react to them.
// Package framework has the client that is in such a state: see its Client.State and Client.Listen.
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
// A client that has never reached a server is Suspended after the connection timeout, and Lost after the
// session timeout, or at once if that is shorter.
package connstate
