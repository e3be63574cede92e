// Package mutation breaks the library on purpose and requires that its tests notice: a test that cannot
// fail proves nothing. Each mutation replaces a few words of one source file, by which one promise
// of docs/RELIABILITY.md is broken, and names the test that must fail for it.
//
// Nothing is copied: the go command compiles the changed file in the place of the original (-overlay).
// A mutation whose words are not in the file any more, or more than once, fails its test, and so does
// one that does not compile. Those tests run on the in-process server, in virtual time where something is
// waited for, so a mutation costs little more than compiling and linking one test program: about 2 seconds
// each, two at a time. All of them took 17 s on 2 cores with a warm build cache.
package mutation

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutation is one way to break the library.
type mutation struct {
	name  string
	file  string // below the module's root
	edits []edit
	pkg   string // of the test
	test  string // that must fail
}

// edit replaces what must be in the file exactly once.
type edit struct{ old, new string }

var mutations = []mutation{
	{
		name: "a node of an old session is accepted",
		file: "framework/create.go",
		edits: []edit{
			{"if maybe && session == l.session {", "if maybe {"},
			{"owner != 0 && owner != l.session.ID()", "false && owner != 0"},
		},
		pkg: "framework", test: "TestNodeOfAnEarlierSessionIsNotTakenForOurs",
	},
	{
		name:  "the context ends after 4/3 of the session timeout",
		file:  "connstate/deadline.go",
		edits: []edit{{"heard.Add((d.timeout - d.timeout/margin) / 100 * d.percent)", "heard.Add(d.timeout * 4 / 3)"}},
		pkg:   "recipes/lock", test: "TestHolderIsToldBeforeTheNextOneCanHold",
	},
	{
		name:  "the guard guards nothing",
		file:  "recipes/lock/hold.go",
		edits: []edit{{"CheckVersionRequest{Path: path, Version: -1}", `CheckVersionRequest{Path: path[:1], Version: -1}`}},
		pkg:   "recipes/lock", test: "TestGuardRefusesAStaleHolder",
	},
	{
		name:  "a follower's word is taken for the leader's",
		file:  "connstate/deadline.go",
		edits: []edit{{"heard = d.proven", "heard = d.last"}},
		pkg:   "connstate", test: "TestStrictDeadlineIsNeverLaterThanTheLeaders",
	},
	{
		name:  "the session is counted from the answer, not from the request",
		file:  "connstate/deadline.go",
		edits: []edit{{"d.last = later(d.last, sent)\n\tif", "d.last = later(d.last, received)\n\tif"}},
		pkg:   "connstate", test: "TestDeadlineCountsFromWhenTheRequestWasSent",
	},
	{
		name:  "a holder does not hear that its session is lost",
		file:  "recipes/lock/hold.go",
		edits: []edit{{"Depend(p.queue.cfg.policy, t.lose)", "Depend(p.queue.cfg.policy, func(error) {})"}},
		pkg:   "recipes/lock", test: "TestHolderLearnsThatItsSessionIsOver",
	},
	{
		name:  "who gives up leaves its node",
		file:  "recipes/lock/queue.go",
		edits: []edit{{"\t\tp.leave()\n\t}\n\tswitch cause", "\t}\n\tswitch cause"}},
		pkg:   "recipes/lock", test: "TestWhoGivesUpIsInNobodysWay",
	},
	{
		name:  "whoever is woken holds, without another look",
		file:  "recipes/lock/place.go",
		edits: []edit{{"return turn.Sure && set.foreign && p.present() && !isClosed(changed), nil", "return true, nil"}},
		pkg:   "recipes/lock", test: "TestWaiterThatGoesProvesNothing/of_another_queue",
	},
	{
		name:  "a neighbour that gave up is taken for one that held",
		file:  "recipes/lock/place.go",
		edits: []edit{{"return p.gone && p.tenure != nil", "return p.gone"}},
		pkg:   "recipes/lock", test: "TestWaiterThatGoesProvesNothing/of_the_same_queue",
	},
	{
		name: "the node goes before the holder is told",
		file: "recipes/lock/hold.go",
		edits: []edit{
			{"\th.cancel(ErrReleased)\n\terr := lost", "\tdefer h.cancel(ErrReleased)\n\terr := lost"},
			{"\t\tt.finish(ErrReleased)\n", "\t\tdefer t.finish(ErrReleased)\n"},
		},
		pkg: "recipes/lock", test: "TestReleaseOutlastsAnOutage",
	},
	{
		name:  "a node is passed on whose token is known",
		file:  "recipes/lock/handoff.go",
		edits: []edit{{" || t.shown || ", " || "}},
		pkg:   "recipes/lock", test: "TestWhatProvesAHoldIsNotPassedOn",
	},
	{
		name:  "a loss deletes a node that was passed on",
		file:  "recipes/lock/hold.go",
		edits: []edit{{" || t.passed {", " {"}},
		pkg:   "recipes/lock", test: "TestLossThatComesTooLate",
	},
	{
		name:  "numbers of two parents are compared",
		file:  "recipes/lock/succession.go",
		edits: []edit{{" && !isClosed(s.parent.Done())", ""}},
		pkg:   "recipes/lock", test: "TestParentThatWasMadeAnew",
	},
	{
		name:  "whoever comes after one that held, holds",
		file:  "recipes/lock/succession.go",
		edits: []edit{{"q.last.number+1 == number && ", ""}},
		pkg:   "recipes/lock", test: "TestNumberThatDoesNotFollow",
	},
	{
		name:  "one holder of several is watched",
		file:  "recipes/lock/driver.go",
		edits: []edit{{"Watch: children[i-maxLeases : i]", "Watch: children[i-maxLeases : i-maxLeases+1]"}},
		pkg:   "recipes/lock", test: "TestStandardDriverNeverOversleeps",
	},
	{
		name:  "one holder too many",
		file:  "recipes/lock/driver.go",
		edits: []edit{{"if i < maxLeases {", "if i <= maxLeases {"}},
		pkg:   "recipes/lock", test: "TestOnlyTheFirstHolds",
	},
	{
		name:  "numbers are believed after their end",
		file:  "recipes/lock/queue.go",
		edits: []edit{{"return n < 0 || n >= math.MaxInt32", "return n > math.MaxInt32"}},
		pkg:   "recipes/lock", test: "TestExhaustedNumbersAreRefused",
	},
	{
		name:  "what a lost reply made is not swept away",
		file:  "framework/create.go",
		edits: []edit{{"if maybe {\n\t\t\t\tc.sweep(session, dir, id)\n\t\t\t}", ""}},
		pkg:   "recipes/lock", test: "TestCreateThatComesLateIsInNobodysWay",
	},
	{
		name:  "nobody watches the holder's node",
		file:  "recipes/lock/hold.go",
		edits: []edit{{"\tp.watch(watchAfter)\n", "\t_ = watchAfter\n"}},
		pkg:   "recipes/lock", test: "TestHolderLearnsThatItsNodeWasDeleted",
	},
	{
		name:  "a server's word that the session has expired is not heard",
		file:  "framework/session.go",
		edits: []edit{{"if a.code == codeExpired {", "if a.code == -codeExpired {"}},
		pkg:   "framework", test: "TestServerThatSaysExpiredEndsTheSession",
	},
	{
		name:  "whoever asks for a lease overtakes those who queue",
		file:  "recipes/lock/queue.go",
		edits: []edit{{"case l.err == nil && len(l.children) > 0:", "case false:"}},
		pkg:   "recipes/semaphore", test: "TestSemaphore/inprocess/a_try_does_not_overtake_those_who_wait",
	},
	{
		name:  "leases that are not enough are kept",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{"		_ = h.Release() // that not all are ours is the news\n", "		_ = h\n"}},
		pkg:   "recipes/semaphore", test: "TestSemaphore/inprocess/several_leases:_all_or_none",
	},
	{
		name:  "writers let each other in",
		file:  "recipes/rwlock/rwlock.go",
		edits: []edit{{"!(isRead(own) && isRead(child))", "isRead(own) != isRead(child)"}},
		pkg:   "recipes/rwlock", test: "TestReadWriteLock/inprocess",
	},
}

func TestEachMutationIsCaught(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("LEFT OUT: no go command to build with")
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	seeSources(t, root)
	sound := newSound(t, root)
	turns := make(chan struct{}, 2)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			began := time.Now()
			sound.check(t, m)
			program := build(t, root, m.pkg, overlay(t, root, m))
			built := time.Now()
			out, err := runTest(t, program, m.test)
			var exit *exec.ExitError
			require.Truef(t, errors.As(err, &exit), "not caught by %s in %s (%v):\n%s", m.test, m.pkg, err, out)
			require.Containsf(t, out, "--- FAIL: "+first(m.test), "%s ended otherwise than by failing", m.test)
			require.NotContainsf(t, out, "test timed out", "%s does not end", m.test)
			t.Logf("%s: built in %v, %s failed after %v", m.file, built.Sub(began), m.test, time.Since(built))
		})
	}
}

// seeSources looks at every source file: the go command then knows that the result of this test depends on
// them, and does not take an old one from its cache.
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
	out, err = runTest(t, program, m.test)
	require.NoErrorf(t, err, "fails without the mutation:\n%s", out)
	require.Containsf(t, out, "--- PASS: "+first(m.test), "there is no such test in %s", m.pkg)
}

// overlay applies a mutation and returns the file that tells the go command of it.
func overlay(t *testing.T, root string, m mutation) string {
	t.Helper()
	original := filepath.Join(root, m.file)
	data, err := os.ReadFile(original)
	require.NoError(t, err)
	source := string(data)
	for _, e := range m.edits {
		require.Equalf(t, 1, strings.Count(source, e.old), "this mutation is out of date: %s must have %q once", m.file, e.old)
		source = strings.Replace(source, e.old, e.new, 1)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(m.file))
	require.NoError(t, os.WriteFile(changed, []byte(source), 0o600))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, replace, 0o600))
	return file
}

// build compiles a package's tests with a mutation. A mutation that does not compile proves nothing.
func build(t *testing.T, root, pkg, overlay string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "mutant.test")
	out, err := compile(root, pkg, program, "-overlay", overlay)
	require.NoErrorf(t, err, "the mutation does not compile:\n%s", out)
	return program
}

func compile(root, pkg, program string, flags ...string) (output string, err error) {
	args := slices.Concat([]string{"test", "-c", "-o", program}, flags, []string{"./" + pkg})
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runTest runs one test of a program, without Docker, where it can leave behind what it likes.
func runTest(t *testing.T, program, test string) (output string, err error) {
	cmd := exec.Command(program, "-test.v", "-test.run", pattern(test), "-test.timeout", "90s")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CURATOR_TEST_ENSEMBLE=") // what would run on an ensemble is not what is asked for
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
