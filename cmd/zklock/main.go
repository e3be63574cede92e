//go:build unix

// Zklock is flock for a cluster: it runs a command while it holds a lock in ZooKeeper, shows
// who holds and who waits, and asks holders to let go.
//
//	zklock run [flags] /path -- command args...
//	zklock ls [flags] /path
//	zklock revoke [flags] /path
//	zklock serve [-listen 127.0.0.1:2181]
//
// The locks are those of the recipes in this module, and so those of Java's Curator: a job that
// zklock runs and a Java service exclude each other. See README.md beside this file.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
)

// Exit codes, beside those of the command that run runs. Three are those of sysexits.h.
const (
	exitUsage       = 2
	exitUnavailable = 69 // no server answered, or it refused
	exitLost        = 70 // the lock was lost while the command ran
	exitNotAcquired = 75 // others hold it; try again later
	exitConflict    = 78 // others use the path for another kind of lock
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the number of the signal
)

func main() {
	// On Linux a child dies with the thread that started it, so this one must not end early.
	runtime.LockOSThread()
	os.Exit(zklock(os.Args[1:], os.Stdout, os.Stderr))
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
		{"ls", "[flags] /path", "show who holds and who waits", &ls{}},
		{"revoke", "[flags] /path", "ask the holders of a lock, or one node, to let go", &revoke{}},
		{"serve", "[flags]", "a ZooKeeper server in memory, for trying things out", &serve{}},
	}
}

// tool is what a command has to do with.
type tool struct {
	out, err io.Writer
}

// say tells the user something that is no result.
func (t *tool) say(format string, args ...any) { fmt.Fprintf(t.err, "zklock: "+format+"\n", args...) }

// exit is an error with an exit code. Without an err there is nothing to say.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return fmt.Sprint(e.err) }
func (e *exit) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// zklock is main with its surroundings. It returns the exit code.
func zklock(args []string, out, stderr io.Writer) int {
	t := &tool{out, stderr}
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	for _, c := range subcommands() {
		if c.name == name {
			return t.call(c, args)
		}
	}
	switch name {
	case "-h", "-help", "--help", "help":
		overview(out)
		return 0
	case "":
		t.say("a command is missing")
	default:
		t.say("unknown command %q", name)
	}
	overview(stderr)
	return exitUsage
}

func overview(w io.Writer) {
	fmt.Fprintln(w, "usage:")
	for _, c := range subcommands() {
		fmt.Fprintf(w, "  zklock %-6s %-34s %s\n", c.name, c.synopsis, c.does)
	}
	fmt.Fprintln(w, "zklock command -h lists the flags. Servers and namespace are taken from ZKLOCK_SERVERS and\nZKLOCK_NAMESPACE as well.")
}

func (t *tool) call(c subcommand, args []string) int {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	fs.SetOutput(t.err)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: zklock %s %s\n%s\n", c.name, c.synopsis, c.does)
		fs.PrintDefaults()
	}
	c.flags(fs)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage // Parse has said why
	}
	err = c.main(t, fs.Args())
	if err == nil {
		return 0
	}
	end := &exit{exitUnavailable, err}
	errors.As(err, &end)
	if end.err != nil {
		t.say("%v", err)
	}
	if end.code == exitUsage {
		fs.Usage()
	}
	return end.code
}

// connection is how to reach ZooKeeper: the flags that all commands but serve have.
type connection struct {
	servers, namespace string
	patience           time.Duration
	verbose            bool
}

func (c *connection) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.servers, "servers", cmp.Or(os.Getenv("ZKLOCK_SERVERS"), "127.0.0.1:2181"), "`host:port,...` of the ensemble")
	fs.StringVar(&c.namespace, "namespace", os.Getenv("ZKLOCK_NAMESPACE"), "a `path` without its first slash that all paths are below")
	fs.DurationVar(&c.patience, "connect", 30*time.Second, "look for a server no longer than this")
	fs.BoolVar(&c.verbose, "v", false, "tell of connections and sessions on standard error")
}

// connect makes a client and waits until a server answers.
func (c *connection) connect(ctx context.Context, t *tool, opts ...framework.Option) (*framework.Client, error) {
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelDebug
	}
	client, err := framework.New(strings.Split(c.servers, ","), append([]framework.Option{
		framework.WithNamespace(c.namespace),
		framework.WithLogger(slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: level}))),
		// A lost connection is no lost lock: a command is not stopped because a server is.
		framework.WithErrorPolicy(connstate.Session),
	}, opts...)...)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	patient, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if err := client.WaitConnected(patient); err != nil {
		client.Close()
		if patient.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no server answers at %s", c.servers)
		}
		return nil, err
	}
	return client, nil
}

// pathOf is the only argument.
func pathOf(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", usageError("a path is missing")
	case len(args) > 1:
		return "", usageError("one path is enough: %q", args[1])
	}
	return args[0], checkPath(args[0])
}

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
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, heeded()...)
	go func() { // ends with ctx
		select {
		case s := <-signals:
			cancel(&exit{code: exitSignal + int(s.(syscall.Signal))})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// heeded are the signals that are meant for us or for the command that runs, without those that we were
// told to ignore, as by nohup.
func heeded() (signals []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// jobControl are the signals of a shell to a job.
func jobControl() (signals []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGTSTP, syscall.SIGCONT} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// interruption is err, or the signal that was the reason for it.
func interruption(ctx context.Context, err error) error {
	var end *exit
	if errors.As(context.Cause(ctx), &end) {
		return end
	}
	return err
}
