//go:build unix && !linux

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endWithUs would have the child killed if we are. Only Linux can do that.
func endWithUs(*syscall.SysProcAttr) {}

// adoptOrphans does nothing: init waits for them.
func adoptOrphans() {}

// stopOurselves stops us until we get SIGCONT.
func stopOurselves() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }

// resetJobSignals is called between two commands: the next one does not inherit that we ignore SIGTTOU.
func resetJobSignals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTTOU) // signal.Reset would leave it ignored
	signal.Stop(c)
}
