package labels_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/observe/internal/labels"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
)

func TestWordsForErrors(t *testing.T) {
	unheardOf := errors.New("the disk is full, again: 4711")
	for err, want := range map[error][3]string{ // result, reason, cause
		context.Canceled:          {"canceled", "canceled", "other"},
		context.DeadlineExceeded:  {"timeout", "timeout", "other"},
		zk.ErrNoNode:              {"no_node", "other", "other"},
		zk.ErrNodeExists:          {"node_exists", "other", "other"},
		zk.ErrBadVersion:          {"bad_version", "other", "other"},
		zk.ErrNotEmpty:            {"not_empty", "other", "other"},
		zk.ErrNoAuth:              {"no_auth", "other", "other"},
		zk.ErrAuthFailed:          {"auth_failed", "other", "other"},
		zk.ErrNoServer:            {"no_server", "no_server", "other"},
		zk.ErrConnectionClosed:    {"connection", "connection", "other"},
		framework.ErrClosed:       {"closed", "closed", "closed"},
		framework.ErrShutdown:     {"shutdown", "shutdown", "shutdown"},
		framework.ErrSessionLost:  {"session_lost", "session_lost", "session_lost"},
		framework.ErrSuspended:    {"suspended", "suspended", "suspended"},
		lock.ErrNotAcquired:       {"other", "held", "other"},
		lock.ErrNodeDeleted:       {"other", "node_deleted", "node_deleted"},
		lock.ErrSequenceExhausted: {"other", "sequence_exhausted", "other"},
		lock.ErrReleased:          {"other", "other", "released"},
		lock.ErrMaxHold:           {"other", "other", "max_hold"},
		revocable.ErrRevoked:      {"other", "node_deleted", "revoked"},
		unheardOf:                 {"other", "other", "other"},
	} {
		for _, err := range []error{err, fmt.Errorf("acquire /lock: %w", err)} {
			assert.Equal(t, want, [3]string{labels.Result(err), labels.Reason(err), labels.Cause(err)}, err.Error())
		}
	}
	assert.Equal(t, "ok", labels.Result(nil))
}

// TestWordsForJoinedErrors: Close ends what runs by cancelling it, and both are in the error. The
// error of a wait says that others held, or that no server was reached: it was not refused.
func TestWordsForJoinedErrors(t *testing.T) {
	for want, errs := range map[string][2]error{
		"closed":    {framework.ErrClosed, context.Canceled},
		"timeout":   {lock.ErrNotAcquired, context.DeadlineExceeded},
		"canceled":  {lock.ErrNotAcquired, context.Canceled},
		"no_server": {context.DeadlineExceeded, zk.ErrNoServer},
	} {
		assert.Equal(t, want, labels.Reason(errors.Join(errs[0], errs[1])))
	}
	assert.Equal(t, "closed", labels.Result(errors.Join(framework.ErrClosed, context.Canceled)))
}

func TestLossesAreAllCausesButOne(t *testing.T) {
	assert.ElementsMatch(t, []string{"closed", "session_lost", "suspended", "max_hold", "revoked", "node_deleted", "other"}, labels.Losses())
	assert.NotContains(t, labels.Losses(), labels.Cause(lock.ErrReleased))
}

func TestWordsForStates(t *testing.T) {
	for state, want := range map[connstate.State]string{
		0: "none", connstate.Connected: "connected", connstate.Suspended: "suspended",
		connstate.Reconnected: "reconnected", connstate.Lost: "lost",
	} {
		assert.Equal(t, want, labels.State(state))
		assert.Contains(t, labels.States(), state)
	}
	assert.Equal(t, "connected", labels.Condition(connstate.Reconnected), "a gauge counts it with the others")
	assert.Equal(t, "lost", labels.Condition(connstate.Lost))
}

func TestWordsForKinds(t *testing.T) {
	for name, want := range map[string]string{
		"lock-": "mutex", "__READ__": "read", "__WRIT__": "write", "lease-": "lease", "latch-": "election", "__lock__": "kazoo",
		"": "other", "vm-4711-": "other",
	} {
		assert.Equal(t, want, labels.Kind(name), name)
	}
}
