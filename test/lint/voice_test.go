package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/errlist"
	"github.com/gocurator/curator/internal/test/testbed"
)

// dialect matches words that have a plainer noun or verb: the caller, another client, is deleted,
// returns.
var dialect = regexp.MustCompile(`(?i)\b(nobody|somebody|someone|whoever|that of|those (who|that|of)|of (which|whose)|to whom|` +
	`meanwhile|is there|are there|goes|gone|comes|came|ours|takes? back|gives? back)\b`)

// TestExportedComments_OneVoice requires that exported comments have no word of the dialect, lines
// of at most 100 columns, and a first paragraph of at most three sentences.
func TestExportedComments_OneVoice(t *testing.T) {
	eachExportedComment(t, func(_, name string, comment comment) {
		if comment.member {
			return
		}
		for _, word := range dialect.FindAllString(comment.text, -1) {
			t.Errorf("%s: %s: %q", comment.at, name, word)
		}
		assert.LessOrEqual(t, comment.width, 100, "%s: %s: columns", comment.at, name)
		first, _, _ := strings.Cut(comment.text, "\n\n")
		sentences := len(sentenceEnd.FindAllString(first+" ", -1))
		assert.LessOrEqual(t, sentences, 3, "%s: %s: sentences of the first paragraph", comment.at, name)
	})
}

// eachExportedComment calls f for each exported comment of all modules. dir is the folder below the
// root, to which it changes.
func eachExportedComment(t *testing.T, f func(dir, name string, comment comment)) {
	t.Helper()
	t.Chdir("../..")
	found := 0
	require.NoError(t, filepath.WalkDir(".", func(dir string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return err
		case entry.Name() == "testdata":
			return fs.SkipDir
		}
		for name, comment := range exportedComments(t, dir) {
			found++
			f(filepath.ToSlash(dir), name, comment)
		}
		return nil
	}))
	require.Greater(t, found, 1000)
}

var sentenceEnd = regexp.MustCompile(`[.?!][)"]?\s`)

// TestDialect_IsFound proves that the expression finds what it is there for.
func TestDialect_IsFound(t *testing.T) {
	for _, bad := range []string{"Nobody holds.", "the path is that of the lock", "a lock of which the node is lost", "the node is gone"} {
		assert.Regexp(t, dialect, bad)
	}
	assert.NotRegexp(t, dialect, "No client holds. The node is deleted. Another client acquires.")
}

type comment struct {
	text  string
	at    token.Position
	width int // of the longest line

	member bool // of a field, or of a method of an interface; a word or two beside a line, perhaps
}

// exportedComments returns the doc comments that go doc shows, by name.
func exportedComments(t *testing.T, dir string) map[string]comment {
	t.Helper()
	set, all := token.NewFileSet(), map[string]comment{}
	var lines []string // of the file
	add := func(name string, group *ast.CommentGroup, member bool) {
		if group == nil {
			return
		}
		c := comment{text: group.Text(), at: set.Position(group.Pos()), member: member}
		for n := c.at.Line; n <= set.Position(group.End()).Line; n++ {
			line := strings.ReplaceAll(lines[n-1], "\t", "    ")
			if i := strings.Index(line, "//"); i >= 0 && !strings.Contains(line, "://") {
				c.width = max(c.width, len([]rune(line)))
			}
		}
		all[name] = c
	}
	for _, file := range parse(t, set, dir) {
		lines = strings.Split(read(t, set.Position(file.Pos()).Filename), "\n")
		add("package "+file.Name.Name, file.Doc, false)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name, ok := exportedName(d); ok {
					add(name, d.Doc, false)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							add(s.Name.Name, orDoc(s.Doc, d.Doc), false)
							for _, f := range members(s.Type) {
								if len(f.Names) > 0 && f.Names[0].IsExported() {
									add(s.Name.Name+"."+f.Names[0].Name, orDoc(f.Doc, f.Comment), true)
								}
							}
						}
					case *ast.ValueSpec:
						if s.Names[0].IsExported() {
							add(s.Names[0].Name, orDoc(s.Doc, d.Doc), false)
						}
					}
				}
			}
		}
	}
	return all
}

// exportedName returns the name of an exported function, or of an exported method with its type.
func exportedName(f *ast.FuncDecl) (name string, ok bool) {
	if f.Recv == nil {
		return f.Name.Name, f.Name.IsExported()
	}
	receiver := errlist.Receiver(f.Recv.List[0].Type)
	return receiver + "." + f.Name.Name, f.Name.IsExported() && ast.IsExported(receiver)
}

// parse parses the files of a folder, without tests.
func parse(t *testing.T, set *token.FileSet, dir string) (files []*ast.File) {
	t.Helper()
	for _, path := range testbed.Must(filepath.Glob(filepath.Join(dir, "*.go"))) {
		if !strings.HasSuffix(path, "_test.go") {
			files = append(files, testbed.Must(parser.ParseFile(set, path, nil, parser.ParseComments)))
		}
	}
	return files
}

// members returns the fields of a struct, or the methods of an interface.
func members(of ast.Expr) []*ast.Field {
	switch of := of.(type) {
	case *ast.StructType:
		return of.Fields.List
	case *ast.InterfaceType:
		return of.Methods.List
	}
	return nil
}

func orDoc(own, group *ast.CommentGroup) *ast.CommentGroup {
	if own != nil {
		return own
	}
	return group
}
