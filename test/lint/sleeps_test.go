package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

// TestSleepsAndSkips_HaveReasons in the code of all modules. A sleep in real time costs that
// time in every run, and a test that sleeps until something is done fails where that takes longer.
// A function that uses synctest, or calls a helper that makes a bubble, is in virtual time. Readers
// of a log look for what was left out.
func TestSleepsAndSkips_HaveReasons(t *testing.T) {
	t.Chdir("../..")
	sleeps, skips := 0, 0
	for _, folder := range declarations(t) {
		makers := []string{"synctest.Test", "testbed.Bubble", "testbed.Virtual", "testbed.RunVirtual", "testbed.RunWorld", "testbed.EachRequest"}
		bubbles := append([]string{"synctest.Wait"}, makers...)
		for _, d := range folder {
			if f, ok := d.Decl.(*ast.FuncDecl); ok && f.Recv == nil && d.callsAny(makers...) {
				bubbles = append(bubbles, f.Name.Name)
			}
		}
		for _, d := range folder {
			virtual := d.callsAny(bubbles...)
			for _, call := range d.calls() {
				at := d.files.Position(call.Pos())
				switch types.ExprString(call.Fun) {
				case "time.Sleep":
					sleeps++
					line, above := d.lines[at.Line-1], strings.TrimSpace(d.lines[at.Line-2])
					assert.True(t, virtual || strings.Contains(line, "//") || strings.HasPrefix(above, "//"),
						"%s: wait for a signal instead (a channel, testbed.Receive, testbed.Eventually), or sleep in a bubble of synctest. "+
							"If neither can be, say why in a comment on this line or the one above.", at)
				case "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "b.Skipf", "b.SkipNow":
					skips++
					text := ""
					if len(call.Args) > 0 {
						text = types.ExprString(call.Args[0])
					}
					assert.True(t, strings.HasPrefix(text, `"LEFT OUT`), `%s: begin the text with "LEFT OUT", and say what the test needs.`, at)
				}
			}
		}
	}
	require.Greater(t, sleeps, 100)
	require.Positive(t, skips)
}

// declaration is a function, or what else a file declares.
type declaration struct {
	ast.Decl
	files *token.FileSet
	lines []string // of its file
}

// declarations lists those of each folder.
func declarations(t *testing.T) map[string][]declaration {
	t.Helper()
	folders := map[string][]declaration{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, files := read(t, path), token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			folder := filepath.Dir(path)
			folders[folder] = append(folders[folder], declaration{d, files, strings.Split(text, "\n")})
		}
		return nil
	}))
	return folders
}

func (d declaration) calls() (all []*ast.CallExpr) {
	for n := range ast.Preorder(d.Decl) {
		if call, ok := n.(*ast.CallExpr); ok {
			all = append(all, call)
		}
	}
	return all
}

func (d declaration) callsAny(names ...string) bool {
	return slices.ContainsFunc(d.calls(), func(c *ast.CallExpr) bool { return slices.Contains(names, types.ExprString(c.Fun)) })
}

func read(t *testing.T, file string) string {
	t.Helper()
	return string(testbed.Must(os.ReadFile(file)))
}
