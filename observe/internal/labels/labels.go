// Package labels maps the events of observers to label values. The set of values is small and
// fixed, since every new value creates a series. Packages observe/promobserve and
// observe/otelobserve share it, so that they export the same metrics.
package labels

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
)

// word is the word for an error.
type word struct {
	err  error
	word string
}

// trouble lists the errors of every operation. They are checked first: closing a client cancels
// running operations, and the end of a session deletes nodes.
var trouble = []word{
	{framework.ErrClosed, "closed"},
	{framework.ErrSessionLost, "session_lost"},
	{framework.ErrSuspended, "suspended"},
}

var results = slices.Concat(trouble, []word{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{zk.ErrNoNode, "no_node"},
	{zk.ErrNodeExists, "node_exists"},
	{zk.ErrBadVersion, "bad_version"},
	{zk.ErrNotEmpty, "not_empty"},
	{zk.ErrNoAuth, "no_auth"},
	{zk.ErrAuthFailed, "auth_failed"},
	{zk.ErrNoServer, "no_server"},
})

// Result returns a word for the outcome of an operation: "ok", "no_node", "node_exists",
// "bad_version", "not_empty", "no_auth", "auth_failed", "canceled", "timeout" (of the caller's
// context), "no_server", "connection" (any other loss of it), "session_lost", "suspended", "closed"
// or "other".
func Result(err error) string {
	if err == nil {
		return "ok"
	}
	w := find(results, err)
	if w == "other" && verdict.Retryable(err) {
		return "connection"
	}
	return w
}

var reasons = slices.Concat(trouble, []word{
	{framework.ErrShutdown, "shutdown"},
	{zk.ErrNoServer, "no_server"}, // whether the lock is held is unknown
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{lock.ErrNotAcquired, "held"}, // a wait that was given up wraps that too
	{lock.ErrNodeDeleted, "node_deleted"},
	{lock.ErrSequenceExhausted, "sequence_exhausted"},
})

// Reason returns a word for why a lock was not acquired: "held" (by another client, from
// TryAcquire), "canceled", "timeout" (of the caller's context, while others held), "no_server",
// "session_lost", "suspended", "node_deleted", "sequence_exhausted", "connection" (any other loss
// of it), "closed", "shutdown" or "other".
func Reason(err error) string {
	w := find(reasons, err)
	if w == "other" && verdict.Retryable(err) {
		return "connection"
	}
	return w
}

var causes = slices.Concat(trouble, []word{
	{lock.ErrReleased, "released"},
	{framework.ErrShutdown, "shutdown"},
	{lock.ErrMaxHold, "max_hold"},
	{revocable.ErrRevoked, "revoked"}, // is an ErrNodeDeleted, too
	{lock.ErrNodeDeleted, "node_deleted"},
})

// Cause returns a word for why a hold ended: "released" or "shutdown", which are no losses, or
// "session_lost", "suspended", "node_deleted", "revoked", "max_hold", "closed" or "other".
func Cause(err error) string { return find(causes, err) }

// IsLoss reports whether a hold that ended with this cause was lost: neither released nor ended by
// Shutdown of its client.
func IsLoss(cause error) bool {
	return !errors.Is(cause, lock.ErrReleased) && !errors.Is(cause, framework.ErrShutdown)
}

// Losses lists all words that [Cause] returns for a loss. An observer exports them as zero before
// the first loss, so that the first one is seen as an increase.
func Losses() []string {
	losses := []string{"other"}
	for _, w := range causes {
		if IsLoss(w.err) {
			losses = append(losses, w.word)
		}
	}
	return losses
}

// States lists the states that a [framework.Observer] receives, for the same purpose.
func States() []connstate.State {
	return []connstate.State{0, connstate.Connected, connstate.Suspended, connstate.Reconnected, connstate.Lost}
}

// find returns the word of the first listed error that err wraps.
func find(words []word, err error) string {
	for _, w := range words {
		if errors.Is(err, w.err) {
			return w.word
		}
	}
	return "other"
}

// Condition is [State] without its history: connstate.Reconnected is "connected", too. It is
// for gauges, which would otherwise count no connected client after the first reconnect.
func Condition(s connstate.State) string {
	if s == connstate.Reconnected {
		s = connstate.Connected
	}
	return State(s)
}

// State returns a word for a state: "connected", "suspended", "reconnected", "lost", or "none" for
// the zero State.
func State(s connstate.State) string {
	if s == 0 {
		return "none"
	}
	return s.String()
}

// kinds has the kinds of locks by the names of their nodes.
var kinds = map[string]string{
	"lock-":    "mutex",
	"__READ__": "read",
	"__WRIT__": "write",
	"lease-":   "lease",
	"latch-":   "election",
	"__lock__": "kazoo",
}

// Kind returns a word for the kind of lock whose nodes have this name, such as
// lock.AcquiringEvent.Name: "mutex" (also the queue of a semaphore, at <path>/locks), "read",
// "write", "lease", "election", "kazoo" or "other". A term of leadership is a hold of kind
// "election". With leader.WithSelector it is of kind "mutex": its nodes are a mutex's.
func Kind(name string) string {
	if kind, ok := kinds[name]; ok {
		return kind
	}
	return "other"
}
