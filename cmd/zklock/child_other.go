//go:build unix && !linux

package main

import "syscall"

// endWithUs would have the child killed if we are. Only Linux can do that.
func endWithUs(*syscall.SysProcAttr) {}

// adoptOrphans does nothing: init waits for them.
func adoptOrphans() {}

// stopOurselves stops us until we get SIGCONT.
func stopOurselves() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }
