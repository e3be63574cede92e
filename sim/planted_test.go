package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gocurator/curator/internal/testlevel"
	"github.com/stretchr/testify/require"
)

var (
	mutationName = flag.String("sim.mutation", "", "only those whose name has this expression")
	mutationTime = flag.Duration("sim.mutation-time", 5*time.Minute, "give up a bug after this time")
)

// planted is a bug that is put back.
type planted struct {
	name  string
	edits []edit
}

// only says which worlds can find the bug, for -sim.only.
func (b planted) only() string {
	return map[string]string{
		"recipes/node": "keepers", "recipes/cache": "caches", "recipes/revocable": "revocable", "recipes/leader": "election",
		"recipes/shared": "numbers", "recipes/barrier": "barrier", "recipes/internal/follow": "barrier", "recipes/semaphore": "pool",
		"recipes/multilock": "multilock", "discovery": "services",
	}[path.Dir(b.edits[0].file)]
}

// edit replaces what must be in the file exactly once.
type edit struct{ file, old, new string }

// TestPlantedBugs builds this package with each bug in turn, and runs worlds until one fails. It fails for a bug that
// cannot be planted any more, not for one that is not found: docs/SIMULATION.md has the table.
func TestPlantedBugs(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, b := range slices.Concat(bugs, extraBugs) {
		if !regexp.MustCompile(*mutationName).MatchString(b.name) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "sim.test")
			build := exec.Command("go", "test", "-c", "-o", program, "-overlay", b.overlay(t, root), "./sim")
			build.Dir = root
			out, err := build.CombinedOutput()
			require.NoErrorf(t, err, "%s", out)
			worlds, what := find(t, program, b.only())
			fmt.Printf("| %s | %s | %s |\n", b.name, worlds, what)
		})
	}
}

var (
	worldsRun = regexp.MustCompile(`(\d+) worlds in`)
	lastWorld = regexp.MustCompile(`: (\d+) worlds, next`)
	whatFails = regexp.MustCompile(`(?m)wrong: ([^|]*) \|`)
)

// find runs worlds until one fails, and says after how many, and what was wrong.
func find(t *testing.T, program, only string) (worlds, what string) {
	run := exec.Command(program, "-test.v", "-test.run", "^TestWorlds$", "-test.timeout", "0", "-sim.failures", "1", "-sim.cut=false", "-sim.progress", "1",
		"-sim.seeds", strconv.Itoa(1<<30), "-sim.time", mutationTime.String(), "-sim.timeout", "30s", "-sim.only", only, "-sim.first", strconv.FormatUint(*first, 10))
	run.Dir = t.TempDir()
	out, _ := run.CombinedOutput() // that it fails is what is wanted
	text := string(out)
	if m := worldsRun.FindStringSubmatch(text); m != nil {
		worlds = m[1]
		var kinds []string
		for _, m := range whatFails.FindAllStringSubmatch(text, -1) {
			kinds = append(kinds, m[1])
		}
		if what = strings.Join(kinds, ", "); what == "" {
			worlds, what = "none of "+worlds, "not found"
		}
		return worlds, what
	}
	if all := lastWorld.FindAllStringSubmatch(text, -1); len(all) > 0 {
		worlds = all[len(all)-1][1]
	}
	if strings.Contains(text, "no end after") {
		return worlds, "a goroutine that never rests"
	}
	return worlds, "ended otherwise: " + text[max(0, len(text)-300):]
}

// overlay applies the bug and returns the file that tells the go command of it.
func (b planted) overlay(t *testing.T, root string) string {
	dir, replace, changed := t.TempDir(), make(map[string]string), make(map[string]string)
	for _, e := range b.edits {
		path := filepath.Join(root, e.file)
		if changed[path] == "" {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			changed[path] = string(data)
		}
		require.Equalf(t, 1, strings.Count(changed[path], e.old), "this bug is out of date: %s must have %q once", e.file, e.old)
		changed[path] = strings.Replace(changed[path], e.old, e.new, 1)
	}
	for path, source := range changed {
		file := filepath.Join(dir, filepath.Base(path))
		require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
		replace[path] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// TestBugsCanBePlanted keeps the list in step with the sources.
func TestBugsCanBePlanted(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, b := range slices.Concat(bugs, extraBugs) {
		t.Run(b.name, func(t *testing.T) { b.overlay(t, root) })
	}
}
