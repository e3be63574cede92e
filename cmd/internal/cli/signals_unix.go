//go:build unix

package cli

import (
	"os"
	"syscall"
)

// EndSignals returns the signals that terminate a program, or that it passes on to its command.
func EndSignals() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}
}
