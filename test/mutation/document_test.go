package mutation

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("mutation.update", false, "write the table of README.md")

const (
	document  = "README.md"
	tableHead = "| the library is broken like this | this test fails | and worlds: kind, seed |\n| --- | --- | --- |\n"
)

// table is the table of README.md.
func table() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, m := range mutations {
		test, worlds := "", ""
		if m.test != "" {
			test = fmt.Sprintf("`%s` in `%s`", first(m.test), m.pkg)
		}
		if m.worlds != "" {
			worlds = fmt.Sprintf("%s, %d", m.worlds, m.seed)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.name, test, worlds)
	}
	return b.String()
}

// TestTableInTheDocument requires that README.md lists all mutations.
func TestTableInTheDocument(t *testing.T) {
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(data), tableHead)
	require.True(t, found)
	_, after, found := strings.Cut(rest, "\n\n")
	require.True(t, found)
	text := before + table() + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(text), 0o644))
		return
	}
	assert.Equal(t, text, string(data), "go test ./test/mutation -run Document -mutation.update writes it")
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
