package exampletest

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Process is the test program in a process of its own, which a test can stop and kill.
type Process struct {
	*exec.Cmd
	Ended chan struct{} // closed when it has ended, and its last line was heard
}

// Start starts the test program with a variable in its environment, by which it knows its role. It
// calls hear with each line that the program prints. The process ends with the test at the latest.
func Start(t *testing.T, variable string, hear func(line string)) *Process {
	t.Helper()
	p := &Process{exec.Command(os.Args[0]), make(chan struct{})}
	p.Env = append(os.Environ(), variable)
	// it may be stopped when we are killed
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	go func() { // ends with the process
		defer close(p.Ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			hear(lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // works on a stopped process, too
		<-p.Ended
		_ = p.Wait()
	})
	return p
}
