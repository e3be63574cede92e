//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal. It is nil without one.
type terminal struct{ file *os.File }

func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{file}
}

func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil
}

func (t *terminal) close() {
	if t != nil {
		t.file.Close()
	}
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// foreground reports whether zklock's process group is in the foreground.
func (t *terminal) foreground() bool {
	if t == nil {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// give moves a process group to the foreground.
func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) // it may have hung up
}

// lend moves the child to the foreground if zklock is in the foreground. It repeats that after a
// shell that starts the rest of a pipeline has reclaimed the terminal.
func (c *child) lend() (lent bool) {
	if c.terminal.foreground() {
		c.foreground = true
		c.terminal.give(c.pid)
		return true
	}
	return false
}

// reclaim moves zklock back to the foreground, for the shell or the script that continues after it.
func (c *child) reclaim() {
	if c.foreground {
		c.foreground = false
		c.terminal.give(unix.Getpgrp())
	}
}

// handBack reclaims the terminal when the command has ended. If a key has ended the command, the
// rest of zklock's process group receives the signal as well, as without zklock: a script does not
// continue after Ctrl-C.
func (c *child) handBack() {
	s := c.status.Signal()
	byKey := c.foreground && c.status.Signaled() && (s == syscall.SIGINT || s == syscall.SIGQUIT) && c.passed != s
	c.reclaim()
	if byKey {
		_ = syscall.Kill(0, s) // zklock receives it too, and is about to end
	}
}

// endByKey lets zklock die of SIGINT if SIGINT has ended it or its command in the foreground of a
// terminal, which is most likely Ctrl-C. Bash continues a script unless the process that it waits
// for has died of the signal.
func endByKey(s syscall.Signal) {
	if s != syscall.SIGINT || signal.Ignored(syscall.SIGINT) {
		return
	}
	terminal := openTerminal()
	defer terminal.close()
	if !terminal.foreground() {
		return
	}
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT)
	time.Sleep(deathTimeout) // another thread may receive the signal
}

// deathTimeout is how long a signal to the own process may take to end it.
const deathTimeout = time.Second

// pauses reports whether zklock is to stop with a command that s has stopped, as a shell expects of
// a job. Otherwise the command continues, or another process has paused it.
func (c *child) pauses(s syscall.Signal) bool {
	c.stopped = true
	switch s {
	case syscall.SIGTTIN, syscall.SIGTTOU: // it needs the terminal
		if c.lend() {
			c.resume()
			return false
		}
		return c.terminal != nil
	case syscall.SIGTSTP:
		return c.terminal != nil
	}
	return c.foreground // the shell would not see that the terminal is free
}

// resume continues a stopped command, in the foreground if zklock is in the foreground.
func (c *child) resume() {
	c.lend()
	c.stopped = false
	_ = syscall.Kill(-c.pid, syscall.SIGCONT)
}

// contTimeout is how long the SIGCONT that continues zklock may take to arrive.
const contTimeout = 200 * time.Millisecond

// stopWithUs stops the command's process group, and then zklock's own, as Ctrl-Z does without
// zklock. It returns when zklock continues. stopped is false if the kernel has not stopped it,
// since its process group is orphaned. signals receives SIGTSTP again afterwards.
func (c *child) stopWithUs(signals chan os.Signal) (stopped bool) {
	_ = syscall.Kill(-c.pid, syscall.SIGSTOP)
	c.reclaim()
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	signal.Ignore(syscall.SIGTSTP)
	defer signal.Notify(signals, syscall.SIGTSTP)
	_ = syscall.Kill(0, syscall.SIGTSTP) // the others
	stopOurselves()
	timer := time.NewTimer(contTimeout)
	defer timer.Stop()
	select {
	case <-woken:
		return true
	case <-timer.C:
		return false
	}
}
