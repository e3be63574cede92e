// Package model tries the rule of docs/PROTOCOL.md in all executions of a small world: an ensemble
// whose servers lag, clients with several goroutines, reaped parents, expiring sessions, lost
// connections, unreadable nodes, operators that delete nodes, contenders that list, and writers
// that become readers.
//
// It is an explicit-state model. A [World] is explored breadth first: between the arrival of a
// reply and the goroutine that acts on it, anything else may happen. It checks three properties. A
// new holder had its node at the instant at which it looked. If the leader still has that node, no
// node with a lower number is ahead of it. When no step is left, no goroutine waits.
//
// The model leaves out bytes and time, ZooKeeper's own faults, and a create that is repeated with a
// new id. Events and replies of one connection arrive in the order of the transactions, as
// ZooKeeper promises.
package model
