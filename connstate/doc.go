// Package connstate defines the states of a client's connection, and the policies by which recipes
// react to them. A framework.Client reports its state by State and Listen.
//
// # States
//
// They are the states of Curator's ConnectionState:
//
//	(none) ── connected ── suspended ── reconnected
//	                          │    ╲        │
//	                         lost ──╲───────╯   and back to suspended
//
// A client is Connected once; every later recovery is Reconnected. Suspended means that the
// connection is lost, but the session may still be alive. Lost means that the session has expired,
// or counts as expired. Suspended always precedes Lost.
//
// A client that has never reached a server is Suspended after the connection timeout, and Lost
// after the session timeout, or at once if that is shorter.
package connstate
