package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGuarantees_NameExistingTests requires that the tests in the table of GUARANTEES.md are in
// their packages.
func TestGuarantees_NameExistingTests(t *testing.T) {
	t.Chdir("../..")
	rows := regexp.MustCompile("(?m)^\\|[^|]+\\| `([a-z/]+)` \\| `(Test\\w+)` \\|$").FindAllStringSubmatch(read(t, "docs/GUARANTEES.md"), -1)
	require.Greater(t, len(rows), 10)
	for _, row := range rows {
		files, err := filepath.Glob(filepath.Join(row[1], "*_test.go"))
		require.NoError(t, err)
		var source strings.Builder
		for _, file := range files {
			source.WriteString(read(t, file))
		}
		assert.Contains(t, source.String(), "\nfunc "+row[2]+"(", "%s has no such test", row[1])
	}
}
