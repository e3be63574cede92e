package main

import (
	"os"
	"os/exec"
	"syscall"
)

// wordSignals is empty: Windows has no such signals.
func wordSignals() []os.Signal { return nil }

func endWithUs(*exec.Cmd) {}

// signal kills the command: Windows has no signals.
func (c *child) signal(syscall.Signal) { _ = c.cmd.Process.Kill() }

func fromTerminal(syscall.Signal) bool { return false }

func endedBy(*exec.ExitError) (s syscall.Signal, signaled bool) { return 0, false }
