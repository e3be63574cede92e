// Package mutation breaks the library on purpose and requires that a test fails: a test that cannot
// fail proves nothing. Each mutation replaces a few words of the source, so that one promise of
// docs/GUARANTEES.md no longer holds. It names the test that must fail. If worlds of package sim
// fail too, it names their kind and the first seed that failed.
//
// A mutation is an edit, because a switch would be in the library of every user. No file is copied:
// the go command compiles the changed files in place of the originals (-overlay). The test of a
// mutation fails if the original text does not occur exactly once in the file, or if the result
// does not compile.
//
// The named tests run on the in-process server, and in virtual time if they wait. So a mutation
// costs little more than a build of one test program: about 2 seconds of a processor. `make
// mutations` builds as many programs at a time as there are processors, and runs eight tests at a
// time. `make mutation-worlds` runs the worlds.
//
// README.md counts the mutations. After a change of a mutation: go test ./test/mutation -run
// Document -mutation.update
package mutation

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
)

// group are the mutations of one file.
type group struct {
	file      string // below the module's root
	pkg       string // of most tests
	mutations []mutation
}

// mutation is one way to break the library. Without a test worlds must fail.
type mutation struct {
	name     string
	file     string // of the group
	old, new string // the edit of that file
	also     []edit
	pkg      string // of the test; "": the group's package
	test     string // that must fail
	worlds   kind   // that must fail, too; "" if none is known to
	seed     int    // of the first world that failed, in the longest of its runs
}

// edit replaces a text that must occur exactly once in the file. It is in the file of the mutation
// unless in names another file.
type edit struct{ old, new, in string }

// mutations are all there are.
var mutations = ungroup(clientBugs, sessionBugs, lockBugs, delayBugs, contextBugs, viewBugs, sharedBugs, cacheBugs, nodeBugs, electionBugs, recipeBugs, jobBugs, programBugs, matrixBugs)

func ungroup(lists ...[]group) (all []mutation) {
	for _, g := range slices.Concat(lists...) {
		for _, m := range g.mutations {
			m.file = g.file
			if m.test != "" {
				m.pkg = cmp.Or(m.pkg, g.pkg)
			}
			all = append(all, m)
		}
	}
	return all
}

// TestEachMutationCanBeMade keeps the table in step with the sources, and requires that each
// mutation is to be caught somewhere.
func TestEachMutationCanBeMade(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	names := make(map[string]bool)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			overlay(t, root, m)
			require.Falsef(t, names[m.name], "there are two")
			names[m.name] = true
			require.True(t, m.test != "" || m.worlds != "", "neither a test nor worlds")
			require.Equal(t, m.test != "", m.pkg != "")
			require.Equal(t, m.worlds != "", m.seed > 0)
		})
	}
}

// TestEachMutationIsCaught requires that the test that a mutation names fails.
func TestEachMutationIsCaught(t *testing.T) {
	root := nightly(t)
	sound := newSound(t, root)
	// to build; who runs a test waits most of the time
	turns := make(chan struct{}, runtime.NumCPU())
	for _, m := range mutations {
		if m.test == "" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			list := overlay(t, root, m)
			turns <- struct{}{}
			began := time.Now()
			_, _, _ = sound.built[m.pkg]()
			program, output, err := build(t, root, m.pkg, list)
			<-turns
			require.NoErrorf(t, err, "the mutation does not compile:\n%s", output)
			built := time.Now()
			sound.check(t, m)
			out, err := runTest(filepath.Join(root, m.pkg), program, m.test)
			var exit *exec.ExitError
			require.Truef(t, errors.As(err, &exit), "not caught by %s in %s (%v):\n%s", m.test, m.pkg, err, out)
			require.Containsf(t, out, "--- FAIL: "+first(m.test), "%s ended otherwise than by failing", m.test)
			require.NotContainsf(t, out, "test timed out", "%s does not end", m.test)
			t.Logf("%s: built in %v, %s failed after %v", m.file, built.Sub(began), m.test, time.Since(built))
		})
	}
}

// nightly returns the module's root. In other runs it leaves the test out.
func nightly(t *testing.T) (root string) {
	testlevel.Need(t, testlevel.Nightly)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	seeSources(t, root)
	return root
}

// seeSources looks at every source file: the go command then knows that the result of this test
// depends on them, and does not take an old one from its cache.
func seeSources(t *testing.T, root string) {
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		return err
	}))
}

// sound are the tests of the library as it is, which must pass.
type sound struct {
	root, dir string
	built     map[string]func() (program, output string, err error) // by package
}

func newSound(t *testing.T, root string) *sound {
	s := &sound{root: root, dir: t.TempDir(), built: make(map[string]func() (string, string, error))}
	for _, m := range mutations {
		if s.built[m.pkg] != nil {
			continue
		}
		type product struct{ program, output string }
		program := filepath.Join(s.dir, strings.ReplaceAll(m.pkg, "/", "-")+".test")
		once := sync.OnceValues(func() (product, error) {
			out, err := compile(root, m.pkg, program)
			return product{program, out}, err
		})
		s.built[m.pkg] = func() (string, string, error) {
			p, err := once()
			return p.program, p.output, err
		}
	}
	return s
}

// check fails unless the mutation's test exists and passes without the mutation.
func (s *sound) check(t *testing.T, m mutation) {
	t.Helper()
	program, out, err := s.built[m.pkg]()
	require.NoErrorf(t, err, "does not compile:\n%s", out)
	out, err = runTest(filepath.Join(s.root, m.pkg), program, m.test)
	require.NoErrorf(t, err, "fails without the mutation:\n%s", out)
	require.Containsf(t, out, "--- PASS: "+first(m.test), "there is no such test in %s", m.pkg)
}

// overlay applies a mutation and returns the file with which the go command uses it.
func overlay(t *testing.T, root string, m mutation) string {
	t.Helper()
	sources := make(map[string]string) // by path
	for _, e := range append([]edit{{old: m.old, new: m.new}}, m.also...) {
		original := filepath.Join(root, cmp.Or(e.in, m.file))
		source, found := sources[original]
		if !found {
			data, err := os.ReadFile(original)
			require.NoError(t, err)
			source = string(data)
		}
		require.Equalf(t, 1, strings.Count(source, e.old), "this mutation is out of date: %s must have %q once", original, e.old)
		sources[original] = strings.Replace(source, e.old, e.new, 1)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for original, source := range sources {
		changed := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		require.NoError(t, os.WriteFile(changed, []byte(source), 0o600))
		replace[original] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, list, 0o600))
	return file
}

// build compiles a package's tests with a mutation. A mutation that does not compile is an error.
func build(t *testing.T, root, pkg, overlay string) (program, output string, err error) {
	program = filepath.Join(t.TempDir(), "mutant.test")
	output, err = compile(root, pkg, program, "-overlay", overlay)
	return program, output, err
}

func compile(root, pkg, program string, flags ...string) (output string, err error) {
	args := slices.Concat([]string{"test", "-c", "-ldflags", "-s -w", "-o", program}, flags, []string{"./" + pkg})
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runTest runs one test of a program, without Docker, in the directory of its package: some compare
// errors with the comments in the sources.
func runTest(dir, program, test string) (output string, err error) {
	cmd := exec.Command(program, "-test.v", "-test.run", pattern(test), "-test.timeout", "90s")
	cmd.Dir = dir
	// Tests on an ensemble are not run, and a broken library may hang.
	cmd.Env = append(os.Environ(), "CURATOR_TEST_ENSEMBLE=", testbed.Patience+"=30s")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// pattern matches a test, or a subtest, by its whole name.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

func first(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}
