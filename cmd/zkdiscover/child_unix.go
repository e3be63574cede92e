//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/internal/wait"
)

// wordSignals returns the signals that request an action of a command, such as to reload its
// configuration. If the command exits instead, zkdiscover exits, too.
func wordSignals() []os.Signal { return []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} }

// signal sends a signal to the command and, on Linux, to the processes that it has started.
func (c *child) signal(s syscall.Signal) {
	if wait.Closed(c.done) {
		return // another process may have its number
	}
	for _, pid := range descendants(c.cmd.Process.Pid) {
		_ = syscall.Kill(pid, s) // it may have ended
	}
	_ = c.cmd.Process.Signal(s)
}

// fromTerminal reports whether a signal was sent by a key while zkdiscover is in the foreground of
// a terminal. The command has then received it, too.
func fromTerminal(s syscall.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func endedBy(failed *exec.ExitError) (s syscall.Signal, signaled bool) {
	status, ok := failed.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, false
	}
	return status.Signal(), true
}
