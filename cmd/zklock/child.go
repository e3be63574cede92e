//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/internal/wait"
)

// child is a command that runs, in a process group of its own: so whatever it has started can be
// ended with it. One goroutine uses it, apart from the one that waits for the process.
type child struct {
	pid      int
	terminal *terminal
	stops    chan syscall.Signal // has what stopped it, or SIGCONT, if it was stopped or went on lately
	done     chan struct{}       // closed when it has ended
	status   unix.WaitStatus     // how it ended; valid once done is closed

	foreground bool // we have given it the terminal
	stopped    bool // it is, as far as we know

	passed syscall.Signal // the last one that was passed on
}

// startChild starts program with words, of which the first is its name. If all its files are the terminal
// that we are in the foreground of, then from now on the child is.
func startChild(program string, words, env []string) (*child, error) {
	cmd := exec.Command(program, words[1:]...)
	cmd.Args[0] = words[0]
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithUs(cmd.SysProcAttr)
	c := &child{terminal: openTerminal(), stops: make(chan syscall.Signal, 1), done: make(chan struct{})}
	if c.terminal.ours() && isTerminal(os.Stdin) && isTerminal(os.Stdout) {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, c.terminal.fd()
		c.foreground = true
	}
	adoptOrphans()
	err := cmd.Start()
	signal.Ignore(syscall.SIGTTOU) // stops background processes that take the terminal
	if err != nil {
		c.reclaim() // it was given away before the program could not be run
		c.terminal.close()
		return nil, err
	}
	c.pid = cmd.Process.Pid
	go c.wait() // ends with the child
	return c, nil
}

// wait waits for the child, and for what it has started and left to us.
func (c *child) wait() {
	defer close(c.done)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED|unix.WCONTINUED, nil)
		switch {
		case errors.Is(err, unix.EINTR), err == nil && pid != c.pid:
		case err != nil: // somebody else has waited for it
			c.status = unix.WaitStatus(exitCannotRun << 8)
			return
		case status.Stopped(), status.Continued():
			s := syscall.SIGCONT
			if status.Stopped() {
				s = status.StopSignal()
			}
			select {
			case <-c.stops: // of before
			default:
			}
			c.stops <- s
		default:
			c.status = status
			return
		}
	}
}

// signal passes a signal on to the child and whatever it has started. If they are stopped, a signal that
// ends has them go on, as in a shell: they would not hear it.
func (c *child) signal(s syscall.Signal) {
	c.kill(s)
	c.passed = s
	switch s {
	case syscall.SIGTERM, syscall.SIGHUP:
		c.kill(syscall.SIGCONT)
		c.stopped = false
	}
}

// kill sends a signal to the child's process group, and to the child if it has left that.
func (c *child) kill(s syscall.Signal) {
	_ = syscall.Kill(-c.pid, s) // it may have ended
	if c.ended() {
		return // its number may be that of another process
	}
	if group, err := unix.Getpgid(c.pid); err == nil && group != c.pid {
		_ = syscall.Kill(c.pid, s)
	}
}

// end returns when the child has ended: politely, or when grace has passed since it was asked to. What it
// has started and left behind is killed. Signals that come meanwhile do not prolong its life.
func (c *child) end(politely bool, grace time.Duration, signals <-chan os.Signal) {
	if politely {
		c.signal(syscall.SIGTERM)
		c.pass(signals, grace, func() bool { return c.ended() && c.groupGone() })
	}
	c.kill(syscall.SIGKILL)
	<-c.done
}

// ended reports whether the child has.
func (c *child) ended() bool { return wait.Closed(c.done) }

// pass passes signals on until the time is up, the child has ended, or gone says so.
func (c *child) pass(signals <-chan os.Signal, limit time.Duration, gone func() bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	done := c.done
	if wait.Closed(done) {
		done = nil // it is about what is left behind
	}
	for !gone() {
		select {
		case s := <-signals:
			if s != syscall.SIGCONT && s != syscall.SIGTSTP {
				c.signal(s.(syscall.Signal))
			}
		case <-tick.C:
		case <-timer.C:
			return
		case <-done:
			return
		}
	}
}

// tidyTimeout is how long what the command has left behind may take to end by itself.
const tidyTimeout = 200 * time.Millisecond

// killTimeout is how long a process may take to die that was killed.
const killTimeout = 2 * time.Second

// endRest ends what a child that has ended has left behind in its process group, and prints how many there were. When lost is closed there is no more grace.
func (c *child) endRest(grace time.Duration, lost <-chan struct{}, signals <-chan os.Signal, say func(format string, args ...any)) {
	c.pass(signals, tidyTimeout, c.groupGone)
	if c.groupGone() {
		return
	}
	say("the command has left processes behind; they are ended before the lock is released")
	c.signal(syscall.SIGTERM)
	c.pass(signals, grace, func() bool { return wait.Closed(lost) || c.groupGone() })
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	c.pass(nil, killTimeout, c.groupGone)
	if !c.groupGone() {
		say("process group %d cannot be ended", c.pid)
	}
}

// groupGone reports whether there is no process left in the child's group.
func (c *child) groupGone() bool {
	for { // the dead ones that were left to us
		if pid, err := unix.Wait4(-c.pid, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
}

// code is the exit code as a shell has it, once the child has ended.
func (c *child) code() int {
	if c.status.Signaled() {
		return exitSignal + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}
