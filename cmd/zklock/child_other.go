//go:build unix && !linux

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endWithUs does nothing: only Linux can kill a child when its parent is killed.
func endWithUs(*syscall.SysProcAttr) {}

// adoptOrphans does nothing: init waits for them.
func adoptOrphans() {}

// stopOurselves stops zklock until SIGCONT.
func stopOurselves() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }

// resetJobSignals is called between two commands: the next one does not inherit the ignored
// SIGTTOU.
func resetJobSignals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTTOU) // signal.Reset would leave it ignored
	signal.Stop(c)
}
