package curator_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatUsersInherit keeps the claim of the README: who imports the library gets two modules, and
// who imports the test server none.
func TestWhatUsersInherit(t *testing.T) {
	library := []string{"./framework", "./retry", "./connstate", "./admin", "./compressed", "./sasl", "./recipes/...", "./zkconn", "./discovery/..."}
	assert.ElementsMatch(t, []string{"github.com/cenkalti/backoff/v4", "github.com/go-zookeeper/zk"}, modules(t, library...))
	assert.Empty(t, modules(t, "./zktest"))
}

// TestRequiredModules lists all that is in the go.mod of a user beside the above: what our tests and
// cmd/zklock need. What needs more is a module of its own.
func TestRequiredModules(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", "go.mod").Output()
	require.NoError(t, err)
	var file struct{ Require []struct{ Path string } }
	require.NoError(t, json.Unmarshal(out, &file))
	var paths []string
	for _, r := range file.Require {
		paths = append(paths, r.Path)
	}
	assert.ElementsMatch(t, []string{
		"github.com/cenkalti/backoff/v4", "github.com/go-zookeeper/zk",
		"github.com/stretchr/testify", "go.yaml.in/yaml/v3", "go.uber.org/goleak", "pgregory.net/rapid", // tests
		"golang.org/x/sys", // cmd/zklock
	}, paths)
}

// TestNoImportsOfOtherModules looks for imports, also in tests, that only go.work makes possible, as that of
// zktest/ensemble: users would inherit its module.
func TestNoImportsOfOtherModules(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-test", "./...")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// modules lists the modules that packages need beside this one and the standard library.
func modules(t *testing.T, packages ...string) []string {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"}, packages...)
	out, err := exec.Command("go", args...).Output()
	require.NoError(t, err)
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
