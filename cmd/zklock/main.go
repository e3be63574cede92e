// Zklock is flock for a cluster: it runs a command while it holds a lock in ZooKeeper, runs a
// service with one active instance, shows holders and waiters, and asks holders to release a lock.
//
//	zklock run [flags] /path -- command args...
//	zklock elect [flags] /path -- command args...
//	zklock hold [flags] /path
//	zklock ls [flags] /path
//	zklock revoke [flags] /path
//	zklock once ls [flags] /path
//	zklock once forget [flags] /path key...
//
// The locks are the recipes of Apache Curator, so a job under zklock and a Java service exclude
// each other. See README.md in this directory.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
)

// Exit codes of zklock besides package cli's and the command's.
const (
	exitNoLock      = 66  // no lock at the path
	exitLost        = 70  // the lock was lost while the command ran
	exitUnrecorded  = 71  // run --once: the command has succeeded, and that is not known to be recorded
	exitNotAcquired = 75  // another client holds the lock; try again later
	exitConflict    = 78  // the path is in use for another kind of lock
	exitAsked       = 143 // hold was asked to release the lock: the code of a command that run has sent SIGTERM
)

const exitCodes = `Exit codes:
  the command's  of run and elect; 128 + n if signal n ended it
  2              bad command line
  66             ls, revoke: no lock at the path; once ls, once forget: no record
  69             no server answers, or the server refuses
  70             the lock was lost while the command ran; elect campaigns again instead
  71             run --once: the command has succeeded, and that is not known to be recorded
  75             not acquired in time; --exit-code sets another code
  78             the path is in use for another kind of lock, or for a semaphore with another --permits; revoke: the leader is not zklock
  126, 127       the command cannot be run, or was not found
  143            hold: asked to release the lock`

func main() {
	// On Linux a child dies with the thread that started it, so this one must not end early.
	runtime.LockOSThread()
	a := newApp(os.Stdout, cli.Messages(os.Stderr))
	code := a.Execute(context.Background(), root(a), os.Args[1:])
	endByKey(a.EndedBy)
	os.Exit(code)
}

func newApp(out, err io.Writer) *cli.App { return &cli.App{Name: "zklock", Out: out, Err: err} }

// command is one of zklock's verbs.
type command interface {
	flags(a *cli.App, fs *pflag.FlagSet)
	main(ctx context.Context, a *cli.App, out io.Writer, args []string) error
}

// root returns zklock's commands.
func root(a *cli.App) *cobra.Command {
	top := &cobra.Command{
		Args:  knownCommand,
		Short: "Run a command while holding a lock in ZooKeeper",
		Long: `zklock is flock for a cluster. The locks are those of Apache Curator: a job under zklock and a Java service exclude each other.

` + exitCodes,
	}
	add := func(to *cobra.Command, use, short string, c command) {
		cmd := &cobra.Command{
			Use: use, Short: short,
			DisableFlagsInUseLine: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				return c.main(cmd.Context(), a, cmd.OutOrStdout(), args)
			},
		}
		c.flags(a, cmd.Flags())
		to.AddCommand(cmd)
	}
	add(top, "run [flags] /path -- command args...", "Run a command while holding a lock", &run{})
	add(top, "elect [flags] /path -- command args...", "Run a command on one machine at a time: while it leads an election", &elect{})
	add(top, "hold [flags] /path", "Hold a lock until a signal arrives or a pipe is closed", &hold{})
	add(top, "ls [flags] /path", "List the holders and waiters of a lock, or of all locks below a path", &ls{})
	add(top, "revoke [flags] /path", "Ask the holders of a lock, or one node, to release it", &revoke{})
	records := &cobra.Command{
		Use: "once", Short: "List or remove what run --once has recorded",
		RunE: func(*cobra.Command, []string) error { return cli.UsageError("once requires a command: ls or forget") },
	}
	add(records, "ls [flags] /path", "List the recorded keys of a job, newest first", &onceLs{})
	add(records, "forget [flags] /path key...", "Remove recorded keys: they run again", &onceForget{})
	top.AddCommand(records)
	return a.Prepare(top)
}

// knownCommand returns an error for an unknown command. If a path is in its place, as in flock, the
// error suggests run.
func knownCommand(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case strings.HasPrefix(args[0], "/"):
		return cli.UsageError("a command is missing before the path, as in %s run %s", cmd.CommandPath(), strings.Join(args, " "))
	}
	return cli.UsageError("unknown command %q for %q", args[0], cmd.CommandPath())
}

// pathOf returns the only argument.
func pathOf(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", cli.UsageError("a path is missing")
	case len(args) > 1:
		return "", cli.UsageError("unexpected argument %q after the path", args[1])
	}
	return args[0], checkPath(args[0])
}

func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' && word != "--" }

func checkPath(path string) error {
	if err := framework.ValidatePath(path); err != nil {
		return &cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	if path == "/" {
		return cli.UsageError("the root cannot be a lock")
	}
	return nil
}

// outliveReaders prevents SIGPIPE from ending zklock when the reader of its messages has exited:
// the lock would not be released, and processes that the command has started would run on without
// it. A command inherits ignored signals, but no handlers.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
