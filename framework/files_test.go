package framework_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// files is the order of the package: a file uses what is in those below it.
var files = strings.Fields(`
	run ensemble
	tree read ops watch watchchildren watches addwatch create createoptions sweep protected delete multi
	attempts connect request
	client unknown link session
	options servers observe path mode errors doc`)

// upward are the uses the other way round. There are five, and should not be more.
var upward = []string{
	"session > client",   // a session belongs to its client
	"link > watches",     // a link owns its watches, and they send requests on it
	"addwatch > watches", // and those that stay know their table, as it knows them
	"client > sweep",     // a client owns its sweeper
	"client > request",   // a client has its session confirmed
}

func TestFilesUseWhatIsBelowThem(t *testing.T) {
	place := make(map[string]int)
	for i, name := range files {
		place[name] = i
	}
	found := make(map[string]string) // with an example
	for use, example := range uses(t) {
		require.Contains(t, files, use.from)
		if place[use.to] < place[use.from] {
			found[use.from+" > "+use.to] = example
		}
	}
	require.ElementsMatch(t, upward, slices.Collect(maps.Keys(found)), "%v", found)
}

type use struct{ from, to string } // names of files

// uses returns which file uses what is declared in which other file, with an example.
func uses(t *testing.T) map[use]string {
	set := token.NewFileSet()
	var parsed []*ast.File
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(set, name, nil, 0)
			require.NoError(t, err)
			parsed = append(parsed, f)
		}
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", compiled(t))}
	pkg, err := config.Check("framework", set, parsed, &info)
	require.NoError(t, err)
	file := func(p token.Pos) string { return strings.TrimSuffix(set.Position(p).Filename, ".go") }
	found := make(map[use]string)
	for id, object := range info.Uses {
		if object.Pkg() != pkg || file(id.Pos()) == file(object.Pos()) {
			continue
		}
		found[use{file(id.Pos()), file(object.Pos())}] = fmt.Sprintf("%s at %s", id.Name, set.Position(id.Pos()))
	}
	return found
}

// compiled finds the packages that framework imports.
func compiled(t *testing.T) importer.Lookup {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	require.NoError(t, err)
	export := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		export[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(export[path]) }
}
