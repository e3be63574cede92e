//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the one that we and the command were started from. A nil terminal is none.
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

// ours reports whether the terminal's keys are for our process group.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// give makes the terminal a process group's.
func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) // it may have hung up
}

// lend gives the child the terminal if it is ours: also again, if a shell that starts the rest of a pipeline has taken it back.
func (c *child) lend() (lent bool) {
	if c.terminal.ours() {
		c.foreground = true
		c.terminal.give(c.pid)
		return true
	}
	return false
}

// reclaim makes the terminal ours again, for the shell or the script that goes on after us.
func (c *child) reclaim() {
	if c.foreground {
		c.foreground = false
		c.terminal.give(unix.Getpgrp())
	}
}

// handBack makes the terminal ours again when the command has ended. If a key has ended it, then the others of our process group hear of that,
// too, as they do without us between: a script does not go on after Ctrl-C.
func (c *child) handBack() {
	s := c.status.Signal()
	byKey := c.foreground && c.status.Signaled() && (s == syscall.SIGINT || s == syscall.SIGQUIT) && c.passed != s
	c.reclaim()
	if byKey {
		_ = syscall.Kill(0, s) // we hear it too, and are about to end
	}
}

// endByKey ends us by SIGINT if that has ended us or the command, and we are in the foreground of a terminal, so that it was most likely
// Ctrl-C: bash goes on with a script after that unless what it waits for has died of the signal.
func endByKey(s syscall.Signal) {
	if s != syscall.SIGINT || signal.Ignored(syscall.SIGINT) {
		return
	}
	terminal := openTerminal()
	defer terminal.close()
	if !terminal.ours() {
		return
	}
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT)
	time.Sleep(deathTimeout) // another thread of ours may be the one that the signal ends us with
}

// deathTimeout is how long a signal to ourselves may take to end us.
const deathTimeout = time.Second

// pauses reports whether a command that was stopped by s is to be stopped together with us, as a
// shell expects of a job. If not, it goes on by itself or is paused by somebody.
func (c *child) pauses(s syscall.Signal) bool {
	c.stopped = true
	switch s {
	case syscall.SIGTTIN, syscall.SIGTTOU: // it needs the terminal
		if c.lend() {
			c.goOn()
			return false
		}
		return c.terminal != nil
	case syscall.SIGTSTP:
		return c.terminal != nil
	}
	return c.foreground // nobody else would see that the terminal is free
}

// goOn has a command that is stopped go on, with the terminal if that is ours.
func (c *child) goOn() {
	c.lend()
	c.stopped = false
	_ = syscall.Kill(-c.pid, syscall.SIGCONT)
}

// contTimeout is how long it may take until we hear of the SIGCONT that we go on with.
const contTimeout = 200 * time.Millisecond

// stopWithUs stops the command with all that it has started, and then our own process group, as Ctrl-Z does
// without us between. It returns when we go on: with false if nobody has stopped and continued us, since no
// shell looks after our process group. signals gets SIGTSTP, and gets it again.
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
