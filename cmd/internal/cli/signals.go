package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Interrupted returns a context that the first of [EndSignals] cancels. The context's cause is an
// error with the exit code that a shell reports. A second signal terminates the program
// immediately.
func Interrupted(ctx context.Context) (_ context.Context, stop func()) {
	return InterruptedUnless(ctx, func(os.Signal) bool { return false }, func() bool { return false })
}

// InterruptedUnless is like [Interrupted], for a program that runs a command. A signal for which
// spared returns true does not cancel the context. The second signal that arrives while busy
// returns false terminates the program.
func InterruptedUnless(ctx context.Context, spared func(os.Signal) bool, busy func() bool) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, Listened(EndSignals()...)...)
	stopped := make(chan struct{})
	go func() { // ends with stop
		for idle := 0; ; {
			select {
			case s := <-signals:
				if spared(s) {
					continue
				}
				// A signal that ended the command may be read here after the command has ended. It
				// does not end the program either, which has yet to release or unregister.
				if !busy() {
					idle++
				}
				if idle > 1 {
					os.Exit(ExitSignal + int(s.(syscall.Signal)))
				}
				cancel(Signaled(s.(syscall.Signal))) // the first signal is the cause
			case <-stopped:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		cancel(nil)
	}
}

// Listened returns the signals that this process does not ignore. A process inherits the ignored
// signals of its parent, such as SIGHUP of nohup.
func Listened(all ...os.Signal) []os.Signal {
	return slices.DeleteFunc(all, signal.Ignored)
}

// Interruption returns the cause of ctx if a signal canceled it, and otherwise err.
func Interruption(ctx context.Context, err error) error {
	var end *Exit
	if cause := context.Cause(ctx); errors.As(cause, &end) {
		return cause
	}
	return err
}
