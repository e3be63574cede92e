package connstate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/connstate"
)

func TestErrorPolicies(t *testing.T) { // CUR-CST-17
	for s, want := range map[connstate.State]struct{ standard, session, connected bool }{
		0:                     {},
		connstate.Connected:   {connected: true},
		connstate.Suspended:   {standard: true},
		connstate.Reconnected: {connected: true},
		connstate.Lost:        {standard: true, session: true},
	} {
		assert.Equal(t, want.standard, connstate.SuspendedEndsHold.IsError(s), s)
		assert.Equal(t, want.session, connstate.LostEndsHold.IsError(s), s)
		assert.Equal(t, want.connected, s.IsConnected(), s)
	}
}

func TestStatesAndPoliciesHaveNames(t *testing.T) {
	assert.Equal(t, "not connected", connstate.State(0).String())
	assert.Equal(t, "state 9", connstate.State(9).String())
	assert.Equal(t, "suspended ends hold", connstate.SuspendedEndsHold.String())
	assert.Equal(t, "lost ends hold", connstate.LostEndsHold.String())
	assert.Equal(t, "policy 9", connstate.ErrorPolicy(9).String())
}
