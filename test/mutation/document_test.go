package mutation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("mutation.update", false, "write the tables of README.md")

const (
	document     = "README.md"
	packagesHead = "| broken package | mutations | found by a named test | found by worlds |\n| --- | --- | --- | --- |\n"
	worldsHead   = "| the library is broken like this | worlds | seed |\n| --- | --- | --- |\n"
)

// packagesTable counts the mutations of each package: all, those with a test, those with worlds.
func packagesTable() string {
	type count struct{ all, test, worlds int }
	counts, total := map[string]*count{}, &count{}
	for _, m := range mutations {
		pkg := path.Dir(m.file)
		if counts[pkg] == nil {
			counts[pkg] = &count{}
		}
		for _, c := range []*count{counts[pkg], total} {
			c.all++
			if m.test != "" {
				c.test++
			}
			if m.worlds != "" {
				c.worlds++
			}
		}
	}
	var b strings.Builder
	b.WriteString(packagesHead)
	for _, pkg := range slices.Sorted(maps.Keys(counts)) {
		c := counts[pkg]
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d |\n", pkg, c.all, c.test, c.worlds)
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d |\n", total.all, total.test, total.worlds)
	return b.String()
}

// worldsTable lists the mutations that worlds find.
func worldsTable() string {
	var b strings.Builder
	b.WriteString(worldsHead)
	for _, m := range mutations {
		if m.worlds != "" {
			fmt.Fprintf(&b, "| %s | %s | %d |\n", m.name, m.worlds, m.seed)
		}
	}
	return b.String()
}

// TestTablesInTheDocument requires that the tables of README.md agree with the mutations.
func TestTablesInTheDocument(t *testing.T) {
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	text := replaceTable(t, string(data), packagesHead, packagesTable())
	text = replaceTable(t, text, worldsHead, worldsTable())
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(text), 0o644))
		return
	}
	assert.Equal(t, text, string(data), "go test ./test/mutation -run Document -mutation.update writes it")
}

// replaceTable returns the text with another table in the place of the one that begins with head.
func replaceTable(t *testing.T, text, head, table string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, head)
	require.True(t, found, "no table begins with\n%s", head)
	_, after, found := strings.Cut(rest, "\n\n")
	require.True(t, found, "a blank line ends a table")
	return before + table + "\n" + after
}

// TestReasonsInTheDocument requires that the reasons in test/sim/README.md are about mutations
// without a world.
func TestReasonsInTheDocument(t *testing.T) {
	data, err := os.ReadFile("../sim/README.md")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(data), "| bug | why worlds rarely find it |\n| --- | --- |\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n\n")
	rows := regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(list, -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		assert.True(t, slices.ContainsFunc(mutations, func(m mutation) bool { return m.name == row[1] && m.worlds == "" }), row[1])
	}
}
