//go:build unix

package main

import (
	"os"
	"syscall"
)

// endSignals are those that are meant for us, and end us, or for the command that runs.
func endSignals() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}
}

// wordSignals are those that ask a command to do something, such as to read its configuration, and goes on. If
// it ends instead, we end with it.
func wordSignals() []os.Signal { return []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} }

// jobSignals are those of a shell to a job.
func jobSignals() []os.Signal { return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT} }
