//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDraw writes the timeline of a trial.
func TestDraw(t *testing.T) {
	tr := &trial{orders: orders{Recipe: "mutex", Seed: 7}, faults: []fault{{Name: "server killed", Target: 2, span: span{time.Second, 2 * time.Second}}}}
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, tr.draw(file, []hold{{Contender: 1, Asked: 1, From: 2, To: 3, Loss: "session lost"}, {Contender: 2, Asked: 1, From: 4}}))
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, text := range []string{"chaos: mutex, seed 7", "server killed 2", "session lost", "contender 2.0", `"dur":-1`} {
		assert.Contains(t, string(page), text)
	}
}
