package mutation

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestListInTheDocument: each mutation that docs/TRACK.md lists is made, and caught by the test named there; and each
// that is made is listed.
func TestListInTheDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/TRACK.md")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(text), "| the library is broken like this |")
	require.True(t, found)
	rows := regexp.MustCompile("(?m)^\\| (.*) \\| `(\\w+)` \\|$").FindAllStringSubmatch(list, -1)
	require.Greater(t, len(rows), 40)
	for _, row := range rows {
		assert.True(t, slices.ContainsFunc(mutations, func(m mutation) bool {
			return m.name == row[1] && first(m.test) == row[2]
		}), row[0])
	}
	for _, m := range mutations {
		assert.True(t, slices.ContainsFunc(rows, func(row []string) bool { return row[1] == m.name }), "not listed: %s", m.name)
	}
}
