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
// running operations, and the end of a session deletes nodes. An error precedes those that it
// wraps.
var trouble = []word{
	{framework.ErrShutdown, "shutdown"}, // is an ErrClosed, too
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

// Result returns the label value for the result of an operation: "ok", "no_node", "node_exists",
// "bad_version", "not_empty", "no_auth", "auth_failed", "canceled", "timeout" (of the caller's
// context), "no_server", "connection" (lost for another reason), "session_lost", "suspended",
// "shutdown", "closed" or "other".
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
	{zk.ErrNoServer, "no_server"}, // whether the lock is held is unknown
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{lock.ErrNotAcquired, "held"}, // a wait that was given up wraps that too
	{lock.ErrNodeDeleted, "node_deleted"},
	{lock.ErrSequenceExhausted, "sequence_exhausted"},
})

// Reason returns the label value for the reason why a lock was not acquired: "held" (by another
// client, from TryAcquire), "canceled", "timeout" (of the caller's context, while others held),
// "no_server", "session_lost", "suspended", "node_deleted", "sequence_exhausted", "connection"
// (lost for another reason), "closed", "shutdown" or "other".
func Reason(err error) string {
	w := find(reasons, err)
	if w == "other" && verdict.Retryable(err) {
		return "connection"
	}
	return w
}

var causes = slices.Concat(trouble, []word{
	{lock.ErrReleased, "released"},
	{lock.ErrMaxHold, "max_hold"},
	{revocable.ErrRevoked, "revoked"}, // is an ErrNodeDeleted, too
	{lock.ErrNodeDeleted, "node_deleted"},
})

// Cause returns the label value for the cause of a hold: "released" or "shutdown" without a loss,
// and otherwise "session_lost", "suspended", "node_deleted", "revoked", "max_hold", "closed" or
// "other".
func Cause(err error) string { return find(causes, err) }

// IsLoss reports whether a hold with this cause was lost. A hold is not lost if the caller released
// it, or if the client was shut down.
func IsLoss(cause error) bool {
	return !errors.Is(cause, lock.ErrReleased) && !errors.Is(cause, framework.ErrShutdown)
}

// Losses returns all label values that [Cause] returns for a loss. An observer exports them as zero
// before the first loss, so that monitoring sees that loss as an increase.
func Losses() []string {
	losses := []string{"other"}
	for _, w := range causes {
		if IsLoss(w.err) {
			losses = append(losses, w.word)
		}
	}
	return losses
}

// States returns the states that a [framework.Observer] receives. An observer exports them as zero
// at its start, as it does for [Losses].
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

// Condition returns the label of a state, which is "connected" for connstate.Reconnected too.
// Gauges use it, so that a client counts as connected after a reconnect.
func Condition(s connstate.State) string {
	if s == connstate.Reconnected {
		s = connstate.Connected
	}
	return State(s)
}

// State returns the label value for a state: "connected", "suspended", "reconnected", "lost", or
// "none" for the zero State.
func State(s connstate.State) string {
	if s == 0 {
		return "none"
	}
	return s.String()
}

// kinds maps the names of nodes to the kinds of locks.
var kinds = map[string]string{
	"lock-":    "mutex",
	"__READ__": "read",
	"__WRIT__": "write",
	"lease-":   "lease",
	"latch-":   "election",
	"__lock__": "kazoo",
}

// Kind returns the label value for the kind of lock with this node name, such as
// lock.AcquiringEvent.Name: "mutex" (also for the queue of a semaphore, at <path>/locks), "read",
// "write", "lease", "election", "kazoo" or "other". A term of leadership is a hold of kind
// "election", or "mutex" with leader.WithSelector.
func Kind(name string) string {
	if kind, ok := kinds[name]; ok {
		return kind
	}
	return "other"
}
