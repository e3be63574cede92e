package docs_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

// TestBugs_NameExistingTests requires that each command in the tables of BUGS.md and of the
// workshop's README names tests of its package.
func TestBugs_NameExistingTests(t *testing.T) {
	t.Chdir("../..")
	document := read(t, "docs/BUGS.md") + read(t, "test/README.md")
	commands := regexp.MustCompile("`go test (\\./\\S+) -run ([^`]+)`").FindAllStringSubmatch(document, -1)
	require.Greater(t, len(commands), 90)
	for _, c := range commands {
		source := readAll(t, c[1]+"/*_test.go", "internal/test/locksuite/cases.go") // the cases that the locks share
		// a table escapes the bar
		for name := range strings.SplitSeq(strings.Trim(c[2], "'"), `\|`) {
			name, subtest, found := strings.Cut(name, "/")
			if found { // a case of a testbed, which without the place would run nothing
				subtest, found = strings.CutPrefix(subtest, "inprocess/")
				assert.True(t, found, "%s: not in process", c[0])
			}
			for _, text := range []string{"\nfunc " + name + "(", strings.ReplaceAll(subtest, "_", " ")} {
				assert.True(t, strings.Contains(source, text), "%s: no test has %q", c[0], text)
			}
		}
	}
}

// TestPages_NameFilesThatExist requires that a page names files of the repository; DESIGN.md names
// them with their folders.
func TestPages_NameFilesThatExist(t *testing.T) {
	t.Chdir("../..")
	var files strings.Builder
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		fmt.Fprintf(&files, "/%s\n", filepath.ToSlash(path))
		return err
	}))
	pages := testbed.Must(filepath.Glob("docs/*.md"))
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		for _, name := range regexp.MustCompile("`([a-z_/0-9]+\\.go)`").FindAllStringSubmatch(read(t, page), -1) {
			assert.Contains(t, files.String(), "/"+name[1]+"\n", "%s names a file", page)
			if page == filepath.Join("docs", "DESIGN.md") {
				assert.FileExists(t, name[1])
			}
		}
	}
}

// TestSymptoms_LeadToCode requires that the files in the table of DESIGN.md exist, and that they
// declare the names in parentheses behind them.
func TestSymptoms_LeadToCode(t *testing.T) {
	t.Chdir("../..")
	_, table, found := strings.Cut(read(t, "docs/DESIGN.md"), "\n## From a symptom to a file\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	files := regexp.MustCompile("`([a-z/]+/\\w+\\.go)`(?: \\(([^)]*)\\))?").FindAllStringSubmatch(table, -1)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		source := read(t, file[1])
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(file[2], -1) {
			assert.Regexp(t, `(?m)^(func (\([^)]*\) )?|type )`+name[1]+`\b`, source, "%s declares no %s", file[1], name[1])
		}
	}
}
