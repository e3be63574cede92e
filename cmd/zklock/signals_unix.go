//go:build unix

package main

import (
	"os"
	"syscall"
)

// wordSignals returns the signals that request an action of a command, such as to reload its
// configuration. If the command exits instead, zklock exits, too.
func wordSignals() []os.Signal { return []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} }

// jobSignals returns the signals of job control.
func jobSignals() []os.Signal { return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT} }
