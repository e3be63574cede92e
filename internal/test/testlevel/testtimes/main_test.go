package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	graph, file := filepath.Join(dir, "graph"), filepath.Join(dir, "times")
	require.NoError(t, os.WriteFile(graph, []byte(`[
{"Mode":"build","TimeStart":"2026-11-28T10:00:00Z","TimeDone":"2026-11-28T10:00:03Z","CmdReal":2000000000,"CmdUser":1000000000,"CmdSys":500000000},
{"Mode":"build","TimeStart":"2026-11-28T10:00:00Z","TimeDone":"2026-11-28T10:00:03Z"},
{"Mode":"link","TimeStart":"2026-11-28T10:00:03Z","TimeDone":"2026-11-28T10:00:05Z","CmdReal":2000000000,"CmdUser":1000000000},
{"Mode":"test run","TimeStart":"2026-11-28T10:00:05Z","TimeDone":"2026-11-28T10:00:10Z"}]`), 0o666))
	require.NoError(t, execute(file, []string{"true"}))
	var exit *exec.ExitError
	require.ErrorAs(t, execute(file, []string{"false"}), &exit, "the exit code of a test is kept")
	var out strings.Builder
	require.NoError(t, table(&out, graph, file))
	assert.Contains(t, out.String(), "10.0 s in all\n")
	assert.Contains(t, out.String(), "| compile | 1 | 2.0 s | 1.5 s |\n")
	assert.Contains(t, out.String(), "| link | 1 | 2.0 s | 1.0 s |\n")
	assert.Contains(t, out.String(), "| run | 2 |")
}
