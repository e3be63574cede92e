// Zklock is flock for a cluster: it runs a command while it holds a lock in ZooKeeper, runs a
// service of which one instance is active, shows who holds and who waits, and asks holders to release the lock.
//
//	zklock run [flags] /path -- command args...
//	zklock elect [flags] /path -- command args...
//	zklock hold [flags] /path
//	zklock ls [flags] /path
//	zklock revoke [flags] /path
//	zklock serve [-listen 127.0.0.1:2181]
//	zklock completion bash|zsh|fish
//	zklock man
//	zklock version
//
// The locks are those of the recipes in this module, and so those of Java's Curator: a job that
// zklock runs and a Java service exclude each other. See README.md beside this file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/gocurator/curator/framework"
)

// Exit codes, beside those of the command that run runs. Three are those of sysexits.h.
const (
	exitUsage       = 2
	exitNoLock      = 66 // there is no lock at the path
	exitUnavailable = 69 // no server answered, or it refused
	exitLost        = 70 // the lock was lost while the command ran
	exitNotAcquired = 75 // others hold it; try again later
	exitConflict    = 78 // others use the path for another kind of lock
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the number of the signal
	exitAsked       = 143 // hold was asked to release the lock; as of a command that run has sent SIGTERM
)

func main() {
	// On Linux a child dies with the thread that started it, so this one must not end early.
	runtime.LockOSThread()
	t := &tool{out: os.Stdout, err: newMessages(os.Stderr)}
	code := t.zklock(os.Args[1:])
	endByKey(t.endedBy)
	os.Exit(code)
}

// subcommand is one of zklock's verbs. flags adds its own flags; main gets what is left of the
// command line.
type subcommand struct {
	name, synopsis, does string
	command
}

type command interface {
	flags(*flag.FlagSet)
	main(t *tool, args []string) error
}

func subcommands() []subcommand {
	return []subcommand{
		{"run", "[flags] /path -- command args...", "run a command while holding a lock", &run{}},
		{"elect", "[flags] /path -- command args...", "run a command on one machine at a time: while it leads an election", &elect{}},
		{"hold", "[flags] /path", "hold a lock until a signal comes, or a pipe is closed", &hold{}},
		{"ls", "[flags] /path", "show who holds and who waits", &ls{}},
		{"revoke", "[flags] /path", "ask the holders of a lock, or one node, to release it", &revoke{}},
		{"serve", "[flags]", "a ZooKeeper server in memory, for trying things out", &serve{}},
		{"completion", "bash|zsh|fish", "print what a shell needs to complete command lines", &completion{}},
		{"man", "", "print the manual page", &man{}},
		{"version", "", "print the version", &version{}},
	}
}

// tool is what a command has to do with.
type tool struct {
	out, err io.Writer
	endedBy  syscall.Signal // what has ended us, or the command; 0: no signal
}

// say prints something for the user that is no result.
func (t *tool) say(format string, args ...any) { fmt.Fprintf(t.err, "zklock: "+format+"\n", args...) }

// exit is an error with an exit code. Without an err there is nothing to say.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return fmt.Sprint(e.err) }
func (e *exit) Unwrap() error { return e.err }

// signaled is an exit because of a signal, which has ended us or the command. The exit code is as a shell has it.
type signaled struct {
	by   syscall.Signal
	exit error
}

func signaledBy(s syscall.Signal) error { return &signaled{s, &exit{code: exitSignal + int(s)}} }

func (s *signaled) Error() string { return s.by.String() }
func (s *signaled) Unwrap() error { return s.exit }

func usageError(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// zklock is main with its surroundings. It returns the exit code.
func (t *tool) zklock(args []string) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "-h", "-help", "--help", "help":
		overview(t.out)
		return 0
	case "-version", "--version":
		name = "version"
	}
	for _, c := range subcommands() {
		if c.name == name {
			return t.call(c, args)
		}
	}
	if name == "" {
		t.say("a command is missing; zklock -h lists them")
	} else {
		t.say("unknown command %q; zklock -h lists them", name)
	}
	return exitUsage
}

func overview(w io.Writer) {
	fmt.Fprintln(w, "usage:")
	for _, c := range subcommands() {
		fmt.Fprintf(w, "  zklock %-10s %-34s %s\n", c.name, c.synopsis, c.does)
	}
	fmt.Fprintln(w, "zklock command -h lists the flags. Those of the connection are taken from the environment as well, such as\n-servers from ZKLOCK_SERVERS.")
}

// flagSet has the flags of a subcommand. What it has to say goes nowhere.
func (c subcommand) flagSet() *flag.FlagSet {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	c.flags(fs)
	return fs
}

func (t *tool) call(c subcommand, args []string) int {
	fs := c.flagSet()
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(t.out, "usage: zklock %s %s\n%s\n", c.name, c.synopsis, c.does)
		fs.SetOutput(t.out)
		fs.PrintDefaults()
		return 0
	case err != nil:
		err = &exit{exitUsage, err}
	default:
		err = c.main(t, fs.Args())
	}
	if err == nil {
		return 0
	}
	end, by := &exit{exitUnavailable, err}, (*signaled)(nil)
	errors.As(err, &end)
	if errors.As(err, &by) {
		t.endedBy = by.by
	}
	if end.err != nil && end.code == exitUsage {
		t.say("%v; zklock %s -h lists the flags", err, c.name)
	} else if end.err != nil {
		t.say("%v", err)
	}
	return end.code
}

// pathOf is the only argument.
func pathOf(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", usageError("a path is missing")
	case len(args) > 1 && isFlag(args[1]):
		return "", flagAfterPath(args[1])
	case len(args) > 1:
		return "", usageError("unexpected argument %q: one path is enough", args[1])
	}
	return args[0], checkPath(args[0])
}

func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' && word != "--" }

func flagAfterPath(flag string) error { return usageError("flags go before the path: %s", flag) }

func checkPath(path string) error {
	if err := framework.ValidatePath(path); err != nil {
		return &exit{exitUsage, err}
	}
	if path == "/" {
		return usageError("the root cannot be a lock")
	}
	return nil
}

// interrupted is a context that ends with the signals that end a program. The cause of its end is
// an exit with the signal's code, as a shell has it.
func interrupted() (ctx context.Context, stop func()) {
	return interruptedUnless(func(os.Signal) bool { return false })
}

// interruptedUnless is interrupted for somebody whom some signals do not end.
func interruptedUnless(spared func(os.Signal) bool) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, listened(endSignals()...)...)
	go func() { // ends with ctx
		for ctx.Err() == nil {
			select {
			case s := <-signals:
				if !spared(s) {
					cancel(signaledBy(s.(syscall.Signal)))
				}
			case <-ctx.Done():
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// outliveReaders has us go on when nobody reads what we say: SIGPIPE would end us without a release, and what the command has
// started would run on without the lock. A command inherits what we ignore, but not what we listen to.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// listened leaves out the signals that whoever started us had set to be ignored, as nohup does.
func listened(all ...os.Signal) []os.Signal {
	return slices.DeleteFunc(all, signal.Ignored)
}

// interruption is err, or the signal that was the reason for it.
func interruption(ctx context.Context, err error) error {
	var end *exit
	if cause := context.Cause(ctx); errors.As(cause, &end) {
		return cause
	}
	return err
}
