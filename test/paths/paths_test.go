package paths

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/test/paths/count"
)

// counting is set in the program that counts.
const counting = "CURATOR_COUNTING"

// The most mutexes that an uncontended cycle may lock: 27 and 17 on a socket. In memory a connection
// has no buffer, so a goroutine writes the request, and locks two more.
const (
	mostInAcquire = 27 + 2
	mostInRelease = 17 + 2
)

// TestLocks counts the mutexes that an uncontended acquire and release lock.
func TestLocks(t *testing.T) {
	testlevel.Need(t, testlevel.Test) // it compiles the client anew
	if os.Getenv(counting) != "" {
		testbed.Virtual(t, measure)
		return
	}
	out := t.TempDir()
	list, _, err := counted.Write(out, clientDirs(t))
	require.NoError(t, err)
	program := filepath.Join(out, "counting.test")
	output, err := exec.Command("go", "test", "-c", "-vet=off", "-o", program, "-overlay", list, ".").CombinedOutput()
	require.NoErrorf(t, err, "%s", output)
	cmd := exec.Command(program, "-test.v", "-test.run", "^TestLocks$")
	cmd.Env = append(os.Environ(), counting+"=1")
	output, err = cmd.CombinedOutput()
	t.Logf("%s", output)
	require.NoError(t, err)
}

// clientDirs returns the directories of the packages under a lock, which the server of the test
// does not use.
func clientDirs(t *testing.T) []string {
	deps := func(pkg string) []string {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{end}}", pkg).Output()
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	server := deps("github.com/gocurator/curator/zktest")
	var dirs []string
	for _, dep := range deps("github.com/gocurator/curator/recipes/lock") {
		path, dir, _ := strings.Cut(dep, " ")
		if strings.HasPrefix(path, "github.com/gocurator/curator/") && !slices.Contains(server, dep) {
			dirs = append(dirs, dir)
		}
	}
	require.NotEmpty(t, dirs)
	return dirs
}

// measure counts. A cycle with a view sends a create and a deletion; the first one of a Queue also
// lists.
func measure(t *testing.T, w *testbed.World) {
	client := testbed.ClientOf(t, w.Server) // without an observer of the testbed
	require.NoError(t, client.WaitConnected(t.Context()))
	queue := func(path string) *lock.Queue {
		q := testbed.Must(lock.New(client, path, "lock-", nil))
		return q
	}
	var acquires, releases []map[string]int
	cycle := func(q *lock.Queue) {
		synctest.Wait() // the goroutines of the client have done what follows
		count.Take()
		hold := testbed.Must(q.Acquire(t.Context()))
		synctest.Wait()
		acquires = append(acquires, count.Take())
		require.NoError(t, hold.Release())
		synctest.Wait()
		releases = append(releases, count.Take())
	}
	viewed := queue("/viewed")
	for range 41 {
		cycle(viewed)
	}
	// The first cycles of the Queue have no view.
	assert.LessOrEqual(t, report(t, "acquire, with a view", acquires[10:]), mostInAcquire)
	assert.LessOrEqual(t, report(t, "release, with a view", releases[10:]), mostInRelease)
	acquires, releases = nil, nil
	for range 31 {
		cycle(queue("/listed"))
	}
	assert.LessOrEqual(t, report(t, "acquire, with a list", acquires), mostInAcquire)
	assert.LessOrEqual(t, report(t, "release, with a list", releases), mostInRelease)
}

// report returns the median of the sums, and logs the places of that run.
func report(t *testing.T, what string, runs []map[string]int) int {
	slices.SortFunc(runs, func(a, b map[string]int) int { return sum(a) - sum(b) })
	run := runs[len(runs)/2]
	var places []string
	for place := range run {
		places = append(places, place)
	}
	slices.Sort(places)
	t.Logf("%s: %d mutexes, %d to %d", what, sum(run), sum(runs[0]), sum(runs[len(runs)-1]))
	for _, place := range places {
		t.Logf("%5d  %s", run[place], place)
	}
	return sum(run)
}

func sum(places map[string]int) (n int) {
	for _, times := range places {
		n += times
	}
	return n
}
