//go:build unix

package main

import (
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

// removerFlag makes this program a remover: the process that removes what another zkensemble has left. The
// process id of the other one follows.
const removerFlag = "-remove-after"

// inOrder is what a process writes to its remover when it ends by itself.
const inOrder = "done\n"

// startRemover starts a remover for this process. finish ends it, and waits until it has looked.
func startRemover() (finish func() error, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	remover := exec.Command(program, removerFlag, strconv.Itoa(os.Getpid()))
	remover.Stderr = os.Stderr
	remover.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what kills our group must not kill it
	ours, err := remover.StdinPipe()                         // the system closes it when this process ends, in whatever way
	if err != nil {
		return nil, err
	}
	if err := remover.Start(); err != nil {
		return nil, err
	}
	return func() error {
		_, err := io.WriteString(ours, inOrder)
		if err := errors.Join(err, ours.Close(), remover.Wait()); err != nil {
			return fmt.Errorf("remover: %w", err)
		}
		return nil
	}, nil
}

// removeAfter waits for the end of input, and then removes what is left of the containers and networks of a
// process.
func removeAfter(input io.Reader, pid string) error {
	id, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(input)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removalTimeout)
	defer cancel()
	if string(said) == inOrder {
		return ensemble.Sweep(ctx, id)
	}
	// The engine may still be creating what the process asked for last.
	first := ensemble.Sweep(ctx, id)
	time.Sleep(2 * time.Second)
	if err := ensemble.Sweep(ctx, id); err != nil {
		return errors.Join(first, err)
	}
	return nil
}
