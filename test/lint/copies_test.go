package lint_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestVet_ReportsCopies: go vet reports a copy of each type that has an identity.
func TestVet_ReportsCopies(t *testing.T) {
	out, err := exec.Command("go", "vet", race(), "-copylocks", "./testdata/copies").CombinedOutput()
	require.Error(t, err)
	for _, name := range []string{
		"framework.Client",
		"lock.Hold", "lock.Group", "revocable.Hold", "leader.Term",
		"lock.Queue", "mutex.Mutex", "rwlock.Lock", "rwlock.Side", "semaphore.Semaphore", "multilock.Lock", "revocable.Lock",
		"leader.Election", "barrier.Barrier", "barrier.Double", "shared.Value", "cache.Cache",
	} {
		assert.Contains(t, string(out), "/"+name, "go vet is silent about a copy")
	}
}
