package lint_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

// TestDependencies_OfUsers keeps the claim of the README: an importer of the library gets two
// modules, and an importer of the test server go-zookeeper alone, whose types it shares with the
// library.
func TestDependencies_OfUsers(t *testing.T) {
	t.Chdir("../..")
	library := []string{"./framework", "./retry", "./connstate", "./framework/admin", "./framework/compressed", "./sasl", "./recipes/...", "./zkconn", "./discovery/..."}
	assert.ElementsMatch(t, []string{"github.com/cenkalti/backoff/v4", "github.com/go-zookeeper/zk"}, modules(t, library...))
	assert.Equal(t, []string{"github.com/go-zookeeper/zk"}, modules(t, "./zktest", "./zktest/control"))
}

// TestDependencies_Modules lists all modules in the go.mod of a user beside the above: the tests
// need them. Code that needs more, such as the programs below cmd, is in a module of its own.
func TestDependencies_Modules(t *testing.T) {
	t.Chdir("../..")
	out := testbed.Must(exec.Command("go", "mod", "edit", "-json", "go.mod").Output())
	var file struct{ Require []struct{ Path string } }
	require.NoError(t, json.Unmarshal(out, &file))
	var paths []string
	for _, r := range file.Require {
		paths = append(paths, r.Path)
	}
	assert.ElementsMatch(t, []string{
		"github.com/cenkalti/backoff/v4", "github.com/go-zookeeper/zk",
		"github.com/stretchr/testify", "go.yaml.in/yaml/v3", "go.uber.org/goleak", "pgregory.net/rapid", // tests
	}, paths)
}

// TestDependencies_Imports looks for imports, also in tests, that only go.work makes possible,
// as that of zktest/ensemble: users would inherit its module.
func TestDependencies_Imports(t *testing.T) {
	t.Chdir("../..")
	cmd := exec.Command("go", "list", "-deps", "-test", "./...")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// modules lists the modules that packages need beside this one and the standard library.
func modules(t *testing.T, packages ...string) []string {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"}, packages...)
	out := testbed.Must(exec.Command("go", args...).Output())
	var list []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if path := strings.TrimSpace(line); path != "" && !seen[path] {
			seen[path] = true
			list = append(list, path)
		}
	}
	return list
}

// TestImports_AreInThreeGroups: the standard library, other modules, this repository.
func TestImports_AreInThreeGroups(t *testing.T) {
	t.Chdir("../..")
	files := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		last, line := 0, 0 // the group and the line of the import before
		for _, spec := range f.Imports {
			group, at := importGroup(spec.Path.Value), set.Position(spec.Pos()).Line
			apart := at > line+1 // also by a comment
			assert.True(t, line == 0 || group == last || group > last && apart, "%s:%d: %s", path, at, spec.Path.Value)
			last, line = group, at
		}
		return nil
	}))
	require.Greater(t, files, 500)
}

// importGroup returns the number of the group of an import, which is quoted.
func importGroup(quoted string) int {
	path := strings.Trim(quoted, `"`)
	first, _, _ := strings.Cut(path, "/")
	switch {
	case strings.HasPrefix(path, "github.com/gocurator/"):
		return 3
	case strings.Contains(first, "."):
		return 2
	}
	return 1
}
