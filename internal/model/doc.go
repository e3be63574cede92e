// Package model tries the rule of docs/PROTOCOL.md in all executions of a small world: an ensemble whose servers lag,
// clients with several goroutines, parents that are reaped, sessions that end, lost connections, nodes that nobody
// may read, operators that delete nodes, contenders that list, and writers that become readers.
//
// It is an explicit-state model. A [World] is explored breadth first: between the arrival of an answer and the goroutine
// that acts on it, anything else may happen. Three things are checked. Whoever begins to hold had its node at the instant
// at which it looked. If the leader still has that node, no node with a lower number is ahead of it. And when nothing can
// happen any more, nobody waits.
//
// Bytes and time are not in it, nor ZooKeeper's own faults, nor a create that is repeated with a new id. Events and answers
// of one connection come in the order of the transactions, as ZooKeeper promises.
package model
