package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
)

// run runs a command while it holds a lock.
type run struct {
	locking
	onLoss string
	grace  time.Duration // negative until check has chosen the default
	once   string        // the key of --once; empty: none

	runs atomic.Bool // the command runs, and receives the signals
}

// Values of --on-loss.
const (
	lossTerm   = "term"
	lossKill   = "kill"
	lossIgnore = "ignore"
)

func (r *run) flags(a *cli.App, fs *pflag.FlagSet) {
	r.locking.flags(a, fs)
	fs.SetInterspersed(false) // flags after the path belong to the command
	fs.StringVar(&r.onLoss, "on-loss", lossTerm, "when the lock is lost: `term` (SIGTERM, then SIGKILL after --grace), kill (at once) or ignore")
	fs.StringVar(&r.once, "once", "", "run the command once for this `key`, such as a date: exit with 0 if it has succeeded before, on any machine")
	r.graceFlag(fs)
}

func (r *run) graceFlag(fs *pflag.FlagSet) {
	cli.Duration(fs, &r.grace, "grace", "", cli.Unset, "`time` from SIGTERM to SIGKILL; an unconfirmed session is given up that much earlier; by default a sixth of --session, at most 5s")
}

// maxDefaultGrace limits the default grace.
const maxDefaultGrace = 5 * time.Second

func (r *run) check() error {
	if r.grace < 0 {
		r.grace = min(r.session/6, maxDefaultGrace)
	}
	switch {
	case !slices.Contains([]string{lossTerm, lossKill, lossIgnore}, r.onLoss):
		return cli.UsageError("invalid --on-loss %q: must be term, kill or ignore", r.onLoss)
	case r.once != "" && r.kind() != kindMutex && r.kind() != kindElection:
		return cli.UsageError("--once cannot be combined with --read, --write or --permits")
	case r.session <= 0:
		return cli.UsageError("--session %v is not positive", r.session)
	case r.grace > r.session/2:
		return cli.UsageError("--grace %v exceeds half of --session %v", r.grace, r.session)
	}
	return r.locking.check()
}

// main acquires the lock, runs the command, and releases the lock, even after an error.
func (r *run) main(ctx context.Context, t *cli.App, _ io.Writer, args []string) error {
	if err := r.check(); err != nil {
		return err
	}
	j, err := newJob(args)
	if err != nil {
		return err
	}
	outliveReaders()
	ctx, stop := cli.InterruptedUnless(ctx, func(os.Signal) bool { return false }, r.runs.Load)
	defer stop()
	client, err := r.connect(ctx, t, r.percent(), filepath.Base(j.program))
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer client.Close()
	if r.once != "" {
		return r.runOnce(ctx, t, client, j)
	}
	q, hold, err := r.enter(ctx, t, client, j.path)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer hold.Release()
	return r.hold(ctx, t, q, hold, j)
}

// job is a command to run while a lock is held.
type job struct {
	path    string // the path of the lock
	program string
	words   []string    // the words of the command line
	signals []os.Signal // signals to pass on, and for job control
}

// newJob parses "/path -- command args...", and finds the program before it queues.
func newJob(args []string) (*job, error) {
	path, words, err := splitCommand(args)
	if err != nil {
		return nil, err
	}
	program, err := lookPath(words[0])
	if err != nil {
		return nil, err
	}
	return &job{path, program, words, cli.Listened(append(cli.EndSignals(), jobSignals()...)...)}, nil
}

// splitCommand parses "/path -- command args...".
func splitCommand(args []string) (path string, words []string, err error) {
	if len(args) == 0 {
		return "", nil, cli.UsageError("a path is missing")
	}
	path, words = args[0], args[1:]
	switch {
	case len(words) > 0 && words[0] == "--": // the rest is the command, whatever it looks like
		words = words[1:]
	case len(words) > 0 && isFlag(words[0]):
		return "", nil, cli.UsageError("flags must precede the path: %s", words[0])
	}
	if len(words) == 0 {
		return "", nil, cli.UsageError("a command is missing")
	}
	return path, words, checkPath(path)
}

// lookPath finds a program. Its errors have the exit codes of a shell.
func lookPath(name string) (string, error) {
	program, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &cli.Exit{Code: cli.ExitNotFound, Err: err}
	case err != nil: // it exists
		return "", &cli.Exit{Code: cli.ExitCannotRun, Err: err}
	}
	return program, nil
}

// percent returns the part of the session timeout after which an unconfirmed session is given up,
// so that the command has its grace before another client can acquire.
func (r *run) percent() int {
	if r.onLoss != lossTerm {
		return 100
	}
	return int(100 * (r.session - r.grace) / r.session)
}

// graceIn returns the grace in a session, whose timeout the servers may have shortened.
func (r *run) graceIn(timeout time.Duration) time.Duration {
	return min(r.grace, timeout*time.Duration(100-r.percent())/100)
}

// hold runs the command while the lock is held.
func (r *run) hold(ctx context.Context, t *cli.App, c *contended, held *revocable.Hold, j *job) error {
	hold := held.Hold
	// Registered before the last requests: ctx may not have ended yet when their replies arrive.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, cli.Listened(cli.EndSignals()...)...)
	defer signal.Stop(signals)
	if r.onLoss != lossIgnore { // with ignore the command does not keep other holders waiting
		shadow, err := c.shadows.cast(ctx, hold)
		if err != nil {
			return before(ctx, hold, err)
		}
		defer shadow.remove(hold)
	}
	// This checks the own node after the shadow was created, so each later holder sees the shadow.
	token, err := hold.FencingToken(ctx)
	if err != nil {
		return before(ctx, hold, err)
	}
	r.runs.Store(true)
	defer r.runs.Store(false)
	select { // from here on signals are the command's
	case <-ctx.Done():
		return context.Cause(ctx)
	case s := <-signals:
		return cli.Signaled(s.(syscall.Signal))
	case <-hold.Done():
		return loss(hold)
	default:
	}
	signal.Notify(signals, j.signals...)
	command, err := startChild(j.program, j.words, append(os.Environ(),
		"ZKLOCK_PATH="+c.path, "ZKLOCK_NODE="+hold.Path(), "ZKLOCK_TOKEN="+strconv.FormatInt(token, 10)))
	if err != nil {
		return &cli.Exit{Code: cli.ExitCannotRun, Err: err}
	}
	a := &attendance{run: r, App: t, child: command, hold: held, client: c.shadows.client, signals: signals}
	return a.attend()
}

// before returns the error for a failure before the start of the command.
func before(ctx context.Context, hold *lock.Hold, err error) error {
	if hold.Err() != nil || errors.Is(err, lock.ErrNodeDeleted) {
		return loss(hold)
	}
	return cli.Interruption(ctx, err)
}
