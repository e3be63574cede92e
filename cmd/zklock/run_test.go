//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

// TestTheDefaultGraceFitsTheSession: --session alone is enough, however short the session is.
func TestTheDefaultGraceFitsTheSession(t *testing.T) {
	for _, c := range []struct {
		flags []string
		grace time.Duration
	}{
		{nil, 5 * time.Second},
		{[]string{"--session", "2m"}, 5 * time.Second},
		{[]string{"--session", "6s"}, time.Second},
		{[]string{"--session", "6s", "--grace", "3s"}, 3 * time.Second},
		{[]string{"--session", "6s", "--grace", "0"}, 0},
	} {
		for _, command := range []interface {
			command
			check() error
		}{&run{}, &elect{}} {
			require.NoError(t, parse(command, c.flags...), c.flags)
			r, ok := command.(*run)
			if !ok {
				r = &command.(*elect).run
			}
			assert.Equal(t, c.grace, r.grace, c.flags)
		}
	}
	server := zktest.NewServer(t)
	for _, verb := range []string{"run", "elect"} {
		succeeds(t, server, verb, "--session", "6s", "/lock", "true")
	}
}
