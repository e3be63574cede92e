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

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/internal/wait"
)

// child is a running command, in a separate process group, so that the processes that it starts end
// with it. One goroutine uses it, beside the one that waits for the process.
type child struct {
	pid      int
	terminal *terminal
	stops    chan syscall.Signal // the signal that has stopped it, or SIGCONT after it has continued
	done     chan struct{}       // closed when it has ended
	status   unix.WaitStatus     // how it ended; valid once done is closed

	foreground bool // it has the terminal
	stopped    bool // it is stopped, as far as is known

	passed syscall.Signal // the last signal that was passed on
}

// startChild starts program with words, whose first is its name. If its files are the terminal and
// zklock is in the foreground, the child moves there.
func startChild(program string, words, env []string) (*child, error) {
	cmd := exec.Command(program, words[1:]...)
	cmd.Args[0] = words[0]
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithUs(cmd.SysProcAttr)
	c := &child{terminal: openTerminal(), stops: make(chan syscall.Signal, 1), done: make(chan struct{})}
	if c.terminal.foreground() && isTerminal(os.Stdin) && isTerminal(os.Stdout) {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, c.terminal.fd()
		c.foreground = true
	}
	adoptOrphans()
	err := cmd.Start()
	signal.Ignore(syscall.SIGTTOU) // stops background processes that take the terminal
	if err != nil {
		c.reclaim() // it was given to the child before the program could not be run
		c.terminal.close()
		return nil, err
	}
	c.pid = cmd.Process.Pid
	go c.wait() // ends with the child
	return c, nil
}

// wait waits for the child, and reaps the orphans that zklock has adopted.
func (c *child) wait() {
	defer close(c.done)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED|unix.WCONTINUED, nil)
		switch {
		case errors.Is(err, unix.EINTR), err == nil && pid != c.pid:
		case err != nil: // another caller has waited for it
			c.status = unix.WaitStatus(cli.ExitCannotRun << 8)
			return
		case status.Stopped(), status.Continued():
			s := syscall.SIGCONT
			if status.Stopped() {
				s = status.StopSignal()
			}
			select {
			case <-c.stops: // it was left by an earlier stop
			default:
			}
			c.stops <- s
		default:
			c.status = status
			return
		}
	}
}

// signal passes a signal on to the child and its process group. If they are stopped, a signal that
// ends continues them, as in a shell: they would not receive it otherwise.
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
		return // another process may have its number
	}
	if group, err := unix.Getpgid(c.pid); err == nil && group != c.pid {
		_ = syscall.Kill(c.pid, s)
	}
}

// end ends the child with SIGTERM, and with SIGKILL after grace, and kills the rest of its process
// group. Signals that arrive in the meantime are passed on and do not extend the grace.
func (c *child) end(politely bool, grace time.Duration, signals <-chan os.Signal) {
	if politely {
		c.signal(syscall.SIGTERM)
		c.pass(signals, grace, func() bool { return c.ended() && c.groupGone() })
	}
	c.kill(syscall.SIGKILL)
	<-c.done
}

// ended reports whether the child has exited.
func (c *child) ended() bool { return wait.Closed(c.done) }

// pass passes signals on until the limit, until the child exits, or until over returns true.
func (c *child) pass(signals <-chan os.Signal, limit time.Duration, over func() bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	done := c.done
	if wait.Closed(done) {
		done = nil // wait for the rest of the group
	}
	for !over() {
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

// tidyTimeout is how long the rest of the process group may take to end by itself. It is a variable
// for tests: on a busy machine a killed process may need longer.
var tidyTimeout = 200 * time.Millisecond

// killTimeout is how long a killed process may take to die.
const killTimeout = 2 * time.Second

// endRest ends the rest of the process group of a child that has ended, and prints a message if
// there is one. The grace ends when lost is closed.
func (c *child) endRest(grace time.Duration, lost <-chan struct{}, signals <-chan os.Signal, say func(format string, args ...any)) {
	c.pass(signals, tidyTimeout, c.groupGone)
	if c.groupGone() {
		return
	}
	say("the command has left processes behind; terminating them before the lock is released")
	c.signal(syscall.SIGTERM)
	c.pass(signals, grace, func() bool { return wait.Closed(lost) || c.groupGone() })
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	c.pass(nil, killTimeout, c.groupGone)
	if !c.groupGone() {
		say("cannot terminate process group %d", c.pid)
	}
}

// groupGone reports whether the child's process group is empty.
func (c *child) groupGone() bool {
	for { // reap adopted orphans
		if pid, err := unix.Wait4(-c.pid, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
}

// code returns the exit code that a shell reports, once the child has ended.
func (c *child) code() int {
	if c.status.Signaled() {
		return cli.ExitSignal + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}
