package cli

import (
	"os"
	"syscall"
)

// EndSignals are the signals that end a program.
func EndSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }
