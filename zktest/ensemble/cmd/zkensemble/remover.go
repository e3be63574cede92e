//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/gocurator/curator/zktest/ensemble"
)

// removerFlag starts this program as a remover, a process that cleans up after another zkensemble
// that was killed. The process id of the other program follows.
const removerFlag = "-remove-after"

// A process writes to its remover, a line each, which process group its command has, and that it
// ends in order.
const (
	commandLine = "command %d\n"
	doneLine    = "done"
)

// remover is the running remover of this process: see removerFlag.
type remover struct {
	process *exec.Cmd
	input   io.WriteCloser // the system closes it when this process ends, in whatever way
}

func startRemover() (*remover, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &remover{process: exec.Command(program, removerFlag, strconv.Itoa(os.Getpid()))}
	r.process.Stderr = os.Stderr
	// A signal to this process's group must not kill the remover.
	r.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if r.input, err = r.process.StdinPipe(); err != nil {
		return nil, err
	}
	return r, r.process.Start()
}

// commandStarted writes to the remover which process group to kill if this process is killed.
func (r *remover) commandStarted(group int) error {
	_, err := fmt.Fprintf(r.input, commandLine, group)
	return err
}

// finish ends the remover, and waits until it has cleaned up.
func (r *remover) finish() error {
	_, err := fmt.Fprintln(r.input, doneLine)
	if err := errors.Join(err, r.input.Close(), r.process.Wait()); err != nil {
		return fmt.Errorf("remover: %w", err)
	}
	return nil
}

// removeAfter waits for the end of input, and then removes the remains of a process: its command,
// its containers and its networks.
func removeAfter(input io.Reader, pid string) error {
	id, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	group, done := 0, false
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text()+"\n", commandLine, &group) // the other line is no error
		done = done || lines.Text() == doneLine
	}
	ctx, cancel := context.WithTimeout(context.Background(), removalTimeout)
	defer cancel()
	if done {
		return errors.Join(lines.Err(), ensemble.Sweep(ctx, id))
	}
	if group > 1 {
		_ = syscall.Kill(-group, syscall.SIGKILL) // an error means that the command has ended
	}
	first := ensemble.Sweep(ctx, id)
	// The engine may still be creating what the process asked for last.
	time.Sleep(2 * time.Second)
	if err := ensemble.Sweep(ctx, id); err != nil {
		return errors.Join(first, err)
	}
	return lines.Err()
}
