// Package exampletest has what the tests of the example programs share.
package exampletest

import (
	"testing"

	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

// OnServers runs a test on the in-process server with opts, and on an ensemble each night.
func OnServers(t *testing.T, test func(t *testing.T, servers []string), opts ...zktest.Option) {
	t.Run("inprocess", func(t *testing.T) { test(t, zktest.NewServer(t, opts...).Servers()) })
	t.Run("ensemble", func(t *testing.T) {
		testlevel.Need(t, testlevel.Nightly) // the recipes are tested there for each push
		test(t, ensemble.New(t).Servers())
	})
}
