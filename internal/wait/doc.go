// Package wait provides the building blocks of waits: a signal, an awaitable value, pauses, and
// contexts. It starts no goroutine.
package wait
