//go:build unix

package cli

import (
	"os"
	"syscall"
)

// EndSignals are the signals that end a program, or are passed on to its command.
func EndSignals() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}
}
