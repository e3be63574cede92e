//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a command that runs, in a process group of its own: so whatever it has started can be
// ended with it.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startChild starts program with words, of which the first is its name. If we are what the terminal is
// about, then from now on the child is.
func startChild(program string, words, env []string) (*child, error) {
	cmd := exec.Command(program, words[1:]...)
	cmd.Args[0] = words[0]
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithUs(cmd.SysProcAttr)
	terminal, foreground := inForeground()
	if foreground {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, terminal
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd, make(chan struct{})}
	go func() { // ends with the child
		defer close(c.done)
		_ = cmd.Wait() // code says how it ended
		if foreground {
			takeForeground(terminal)
		}
	}()
	return c, nil
}

// signal passes a signal on to the child and whatever it has started.
func (c *child) signal(s syscall.Signal) {
	_ = syscall.Kill(-c.cmd.Process.Pid, s) // it may have ended
}

// end returns when the child has ended: politely, or when grace has passed since it was asked to. What it
// has started and left behind is killed. Signals that come meanwhile do not prolong its life.
func (c *child) end(politely bool, grace time.Duration, signals <-chan os.Signal) {
	if politely {
		c.signal(syscall.SIGTERM)
		c.signal(syscall.SIGCONT) // who is stopped hears nothing
		timer := time.NewTimer(grace)
		defer timer.Stop()
		for waiting := true; waiting; {
			select {
			case s := <-signals:
				c.signal(s.(syscall.Signal))
			case <-timer.C:
				waiting = false
			case <-c.done:
				waiting = false
			}
		}
	}
	c.signal(syscall.SIGKILL)
	<-c.done
}

// code is the exit code as a shell has it, once the child has ended.
func (c *child) code() int {
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// inForeground reports whether standard input is a terminal, and its keys are for us.
func inForeground() (terminal int, ours bool) {
	terminal = int(os.Stdin.Fd())
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return terminal, err == nil && group == unix.Getpgrp()
}

// takeForeground makes the terminal ours again, for the script that goes on after us.
func takeForeground(terminal int) {
	signal.Ignore(syscall.SIGTTOU) // which stops background processes that do this
	_ = unix.IoctlSetPointerInt(terminal, unix.TIOCSPGRP, unix.Getpgrp())
}
