//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/zktest"
)

// TestRunOnce is a short cron job on three machines.
func TestRunOnce(t *testing.T) {
	server := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "runs")
	command := fmt.Sprintf(`echo "$ZKLOCK_PATH $ZKLOCK_TOKEN" >> %s`, file)
	var fleet sync.WaitGroup
	for range 3 {
		fleet.Go(func() {
			code, _, stderr := call(t, server, "run", "--once", "2026-11-28", "/jobs/nightly", "sh", "-c", command)
			assert.Zero(t, code, stderr)
		})
	}
	fleet.Wait()
	for _, flags := range [][]string{{}, {"--try"}, {"-w", "10s"}, {"--on-loss", "ignore"}} {
		code, out, stderr := call(t, server, with("run", flags, "--once", "2026-11-28", "/jobs/nightly", "false")...)
		require.Zero(t, code)
		require.Empty(t, out)
		require.Regexp(t, `^zklock: 2026-11-28 of /jobs/nightly was done by \S+:\d+ sh at 20\d\d-\S+Z\n$`, stderr)
	}
	text := testbed.Must(os.ReadFile(file))
	require.Regexp(t, `^/jobs/nightly \d+\n$`, string(text), "one run")

	succeeds(t, server, "run", "--once", "2026-11-29", "/jobs/nightly", "sh", "-c", command)
	text = testbed.Must(os.ReadFile(file))
	require.Len(t, strings.Split(string(text), "\n"), 3, "another key runs")
	require.Equal(t, []string{"once"}, testbed.ServerChildren(t, server, "/jobs/nightly"))
}

func TestRunOnce_Failures(t *testing.T) {
	server := zktest.NewServer(t)
	run := func(args ...string) (int, string) {
		code, _, stderr := call(t, server, append([]string{"run", "--once", "a"}, args...)...)
		return code, stderr
	}
	code, _ := run("/job", "sh", "-c", "exit 7")
	require.Equal(t, 7, code, "the command's")
	code, _ = run("/job", "sh", "-c", "kill -9 $$")
	require.Equal(t, 137, code)
	refuses(t, server, exitNoLock, "/job has no records", "once", "ls", "/job")

	m := newMutex(t, server, "/job")
	hold := testbed.Acquire(t, m)
	for _, flags := range [][]string{{"--try"}, {"-w", "100ms"}} {
		code, stderr := run(append(flags, "/job", "true")...)
		require.Equal(t, exitNotAcquired, code)
		require.Contains(t, stderr, "/job not acquired")
		require.Contains(t, stderr, "held by ")
	}
	code, _ = run("--try", "-E", "3", "/job", "true")
	require.Equal(t, 3, code)
	require.NoError(t, hold.Release())
	code, stderr := run("-w", "10s", "/job", "sh", "-c", "sleep 0.1")
	require.Zero(t, code, stderr)

	for _, args := range [][]string{{"--read", "/job", "true"}, {"--permits", "2", "/job", "true"}, {"--once", "", "/job", "true"}, {"--once", "a\nb", "/other", "true"}, {"--once", strings.Repeat("x", 300), "/other", "true"}} {
		code, stderr = run(args...)
		require.Equal(t, 2, code, "%v: %s", args, stderr)
	}
	require.NoError(t, server.Create("/foreign/once", []byte("x")))
	code, stderr = run("/foreign", "true")
	require.Equal(t, 69, code)
	require.Contains(t, stderr, once.ErrBadValue.Error())
}

// TestRunOnce_ALimitOfTheWaitIsNoneOfTheCommand has a command that runs for longer than --wait.
func TestRunOnce_ALimitOfTheWaitIsNoneOfTheCommand(t *testing.T) {
	server := zktest.NewServer(t)
	code, stderr := exitNotAcquired, ""
	for wait := 200 * time.Millisecond; code == exitNotAcquired; wait *= 2 { // a slow machine needs longer to acquire
		require.Less(t, wait, time.Hour, stderr)
		code, _, stderr = call(t, server, "run", "--wait", wait.String(), "--once", "a", "/job", "sh", "-c", fmt.Sprint("sleep ", 2*wait.Seconds()))
	}
	require.Zero(t, code, stderr)
	require.Contains(t, succeeds(t, server, "once", "ls", "/job"), "\na  ")
}

// TestRunOnce_TheLockIsLost deletes the lock's node during the command: nothing is recorded.
func TestRunOnce_TheLockIsLost(t *testing.T) {
	server := zktest.NewServer(t)
	for _, onLoss := range []string{lossTerm, lossKill, lossIgnore} {
		file := filepath.Join(t.TempDir(), "begun")
		p := spawn(t, server, "run", "--on-loss", onLoss, "--once", "a", "/job", "sh", "-c", "echo > "+file+"; sleep 1")
		clitest.Written(t, file)
		for _, child := range testbed.ServerChildren(t, server, "/job") {
			if child != "once" {
				require.NoError(t, server.Delete("/job/"+child))
			}
		}
		require.Equal(t, exitLost, p.end(), "%s: %s", onLoss, p.err.String())
	}
	refuses(t, server, exitNoLock, "/job has no records", "once", "ls", "/job")
}

func TestOnceRecords(t *testing.T) {
	server := zktest.NewServer(t)
	o := testbed.Must(once.New(newClient(t, server), "/job"))
	for _, key := range []string{"a", "b/c", "d"} {
		_, _, stderr := call(t, server, "run", "--once", key, "/job", "true")
		require.Empty(t, stderr)
	}
	out := succeeds(t, server, "once", "ls", "/job")
	require.Regexp(t, `^KEY +AT +BY\nd +20\S+ +\S+ true\nb/c +20\S+ +\S+ true\na +20\S+ +\S+ true\n$`, out)
	var lines []recordLine
	require.NoError(t, json.Unmarshal([]byte(succeeds(t, server, "once", "ls", "--json", "/job")), &lines))
	require.Len(t, lines, 3)
	require.Equal(t, "d", lines[0].Key)
	require.WithinDuration(t, time.Now(), lines[0].At, time.Hour)

	succeeds(t, server, "once", "forget", "/job", "a", "d")
	all := testbed.Must(o.Records(testbed.Context(t)))
	require.Len(t, all, 1)
	refuses(t, server, exitNoLock, "a of /job is not recorded", "once", "forget", "/job", "a")
	for _, args := range [][]string{{"once"}, {"once", "ls"}, {"once", "ls", "/"}, {"once", "forget", "/job"}, {"once", "forget", "job", "a"}, {"once", "x"}} {
		refuses(t, server, cli.ExitUsage, "", args...)
	}
}
