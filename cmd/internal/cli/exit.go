package cli

import (
	"errors"
	"fmt"
	"syscall"
)

// Exit codes of all programs. 69 is EX_UNAVAILABLE of sysexits.h.
const (
	ExitUsage       = 2
	ExitUnavailable = 69 // no server answers, or the server refuses the request
	ExitCannotRun   = 126
	ExitNotFound    = 127
	ExitSignal      = 128 // base code, to which the signal's number is added
)

// Exit is an error with an exit code. If Err is nil, nothing is printed.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string { return fmt.Sprint(e.Err) }
func (e *Exit) Unwrap() error { return e.Err }

// UsageError returns an [Exit] with [ExitUsage] for an invalid command line.
func UsageError(format string, args ...any) error {
	return &Exit{ExitUsage, fmt.Errorf(format, args...)}
}

// signaled is an Exit because of a signal that ended the program or its command. The exit code is
// the shell's.
type signaled struct {
	by   syscall.Signal
	exit error
}

// SignalOf returns the signal of an error from [Signaled], or false for any other error.
func SignalOf(err error) (s syscall.Signal, ok bool) {
	var by *signaled
	if errors.As(err, &by) {
		return by.by, true
	}
	return 0, false
}

// Signaled returns an error with the exit code that a shell reports for a process terminated by a
// signal.
func Signaled(s syscall.Signal) error { return &signaled{s, &Exit{Code: ExitSignal + int(s)}} }

func (s *signaled) Error() string { return s.by.String() }
func (s *signaled) Unwrap() error { return s.exit }
