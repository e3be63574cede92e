package cli

import (
	"os"
	"syscall"
)

// EndSignals returns the signals that terminate a program.
func EndSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }
