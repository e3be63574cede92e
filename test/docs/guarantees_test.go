package docs_test

import (
	"regexp"
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
		assert.Contains(t, readAll(t, row[1]+"/*_test.go"), "\nfunc "+row[2]+"(", "%s has no such test", row[1])
	}
}
