// Package wait has the parts of which waits are made: a signal, a value whose changes are waited for, pauses, and
// contexts. Nothing in it starts a goroutine.
package wait
