package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTrackNamesTestsThatExist: each command of TRACK.md names tests of its package.
func TestTrackNamesTestsThatExist(t *testing.T) {
	document, err := os.ReadFile("TRACK.md")
	require.NoError(t, err)
	commands := regexp.MustCompile("`go test (\\./\\S+) -run ([^`]+)`").FindAllStringSubmatch(string(document), -1)
	require.Greater(t, len(commands), 90)
	for _, c := range commands {
		files, err := filepath.Glob(filepath.Join("..", c[1], "*_test.go"))
		require.NoError(t, err)
		var source strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
		for name := range strings.SplitSeq(strings.Trim(c[2], "'"), `\|`) { // a table escapes the bar
			name, subtest, found := strings.Cut(name, "/")
			if found { // a case of a testbed, which without the place would run nothing
				subtest, found = strings.CutPrefix(subtest, "inprocess/")
				assert.True(t, found, "%s: not in process", c[0])
			}
			for _, text := range []string{"\nfunc " + name + "(", strings.ReplaceAll(subtest, "_", " ")} {
				assert.True(t, strings.Contains(source.String(), text), "%s: no test has %q", c[0], text)
			}
		}
	}
}
