//go:build unix && !linux

package main

import "syscall"

// endWithUs would have the child killed if we are. Only Linux can do that.
func endWithUs(*syscall.SysProcAttr) {}

// adoptOrphans does nothing: init waits for them.
func adoptOrphans() {}

// stopGroup stops our process group.
func stopGroup() (handleAgain func()) {
	_ = syscall.Kill(0, syscall.SIGSTOP)
	return func() {}
}
