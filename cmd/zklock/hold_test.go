//go:build unix

package main

import (
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/transcript"
	"github.com/gocurator/curator/zktest"
)

// script runs the README's script around zklock hold, with these commands while it holds.
func script(t *testing.T, server *zktest.Server, does string) *process {
	t.Helper()
	blocks := transcript.Blocks(t, "README.md", "sh")
	require.Len(t, blocks, 1)
	const part = `echo "the part that needs the lock"`
	require.Contains(t, blocks[0], part)
	p := program(t, server.Servers(), "sh", "-c", strings.Replace(blocks[0], part, does, 1))
	p.Env = append(p.Env, install(t))
	return start(t, p)
}

// TestHoldEndsWithItsScript, also if no process can signal hold.
func TestHoldEndsWithItsScript(t *testing.T) {
	server := zktest.NewServer(t)
	m := newMutex(t, server, "/jobs/nightly")
	file := filepath.Join(t.TempDir(), "pid")
	p := script(t, server, sayPid(file)+works)
	clitest.Written(t, file)
	queued(t, m, 1)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGKILL), p.endBy(t, syscall.SIGKILL))
	queued(t, m, 0)
	assert.Empty(t, p.err.String())

	p = script(t, server, `echo "$path $node $token"`)
	assert.Zero(t, p.end(), p.err.String())
	assert.Regexp(t, `^/jobs/nightly /jobs/nightly/_c_\S+ \d+\n$`, p.out.String())
	queued(t, m, 0)
}

// TestHoldLastsAsLongAsWhatTheScriptHasStarted: a background process may still use the lock.
func TestHoldLastsAsLongAsWhatTheScriptHasStarted(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	m := newMutex(t, server, "/jobs/nightly")
	file := filepath.Join(t.TempDir(), "pid")
	p := script(t, server, "sh -c '"+sayPid(file)+"exec sleep 1000' & wait")
	pid := clitest.PID(t, file)
	p.endBy(t, syscall.SIGKILL)
	refuses(t, server, exitNotAcquired, "", "run", "--try", "/jobs/nightly", "true")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	queued(t, m, 0)
}

// TestHoldStopsWaitingWithItsScript, and reports that to a script that has closed the pipe.
func TestHoldStopsWaitingWithItsScript(t *testing.T) {
	server := zktest.NewServer(t)
	m := newMutex(t, server, "/jobs/nightly")
	held := testbed.Acquire(t, m)
	p := script(t, server, "echo in")
	queued(t, m, 2)
	p.endBy(t, syscall.SIGKILL)
	assert.Empty(t, p.out.String())
	queued(t, m, 1)

	p = prepare(t, server.Servers(), "hold", "--fd", "0", "/jobs/nightly")
	pipe := testbed.Must(p.StdinPipe())
	start(t, p)
	queued(t, m, 2)
	require.NoError(t, testbed.Err(io.WriteString(pipe, "what comes by the pipe says nothing\n")))
	require.NoError(t, pipe.Close())
	assert.Equal(t, exitNotAcquired, p.end())
	assert.Equal(t, "zklock: not acquired: the other end of --fd 0 is closed\n", p.err.String())
	require.NoError(t, held.Release())
}

func TestHoldNeedsAPipe(t *testing.T) {
	server := zktest.NewServer(t)
	for fd, want := range map[string]string{"0": "--fd 0 is not a pipe", "77": "--fd 77 is not a pipe", "-1": "--fd", "stdin": "--fd"} {
		// standard input is /dev/null
		refuses(t, server, cli.ExitUsage, want, "hold", "--fd", fd, "/lock")
	}
}
