//go:build unix

package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/internal/test/testbed"
)

// Start starts a program, and kills it at the end of the test.
func Start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

// End waits for a program that was started, and returns its exit code as a shell does.
func End(cmd *exec.Cmd) int {
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return cli.ExitSignal + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// Written waits until a command has written a line to a file, and returns it.
func Written(t *testing.T, file string) string {
	t.Helper()
	var text []byte
	testbed.Eventually(t, func() bool {
		text, _ = os.ReadFile(file)
		return strings.HasSuffix(string(text), "\n")
	}, "the command writes "+file)
	return strings.TrimSpace(string(text))
}

// PID waits for the process id that a command writes to a file, and kills the process at the end of
// the test.
func PID(t *testing.T, file string) int {
	t.Helper()
	pid, err := strconv.Atoi(Written(t, file))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// Dead reports whether a process has ended, even if its parent has not waited for it.
func Dead(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux has it
	return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(text), ") Z ")
}
