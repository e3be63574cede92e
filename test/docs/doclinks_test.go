package docs_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks_InDocuments looks for the files that our documents point to.
func TestLinks_InDocuments(t *testing.T) {
	t.Chdir("../..")
	documents := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		documents++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			target, err := url.Parse(m[1])
			if !assert.NoError(t, err, path) || target.IsAbs() {
				continue
			}
			file := filepath.Join(filepath.Dir(path), target.Path)
			if target.Path == "" {
				file = path
			}
			text, err := os.ReadFile(file)
			if !assert.NoError(t, err, "%s points to %s", path, m[1]) || target.Fragment == "" {
				continue
			}
			assert.Contains(t, anchors(string(text)), target.Fragment, "%s points to %s", path, m[1])
		}
		return nil
	}))
	require.Positive(t, documents)
}

// anchors returns the names of a text's headings on GitHub.
func anchors(text string) (names []string) {
	for line := range strings.Lines(text) {
		if heading, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && strings.HasPrefix(line, "#") {
			name := strings.ToLower(strings.TrimSpace(heading))
			name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}

// TestLinks_InComments looks for names in brackets that go doc shows as they are, since there is
// no such name.
func TestLinks_InComments(t *testing.T) {
	t.Chdir("../..")
	folders, files := map[string][]*ast.File{}, token.NewFileSet()
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], file)
		return err
	}))
	// one letter is a type parameter
	broken, comments := regexp.MustCompile(`\[\*?([a-z]+\.)?[A-Z]\w+(\.\w+)?\]`), 0
	for folder, parsed := range folders {
		var all []*ast.CommentGroup
		for _, file := range parsed {
			all = append(all, file.Comments...)
		}
		p := testbed.Must(doc.NewFromFiles(files, parsed, folder, doc.AllDecls))
		for _, comment := range all {
			comments++
			for line := range strings.Lines(string(p.Text(comment.Text()))) {
				// neither code nor the address of a link
				if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "[") {
					assert.Empty(t, broken.FindString(line), "%s: %s", folder, line)
				}
			}
		}
	}
	require.Greater(t, comments, 1000)
}
