package main

import (
	"context"
	"errors"
	"flag"
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

	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
)

// run runs a command while it holds a lock.
type run struct {
	locking
	onLoss string
	grace  time.Duration // negative until check has chosen the default

	runs atomic.Bool // the command does, and signals are for it
}

// What to do with the command when the lock is lost.
const (
	lossTerm   = "term"
	lossKill   = "kill"
	lossIgnore = "ignore"
)

func (r *run) flags(fs *flag.FlagSet) {
	r.locking.flags(fs)
	fs.StringVar(&r.onLoss, "on-loss", lossTerm, "when the lock is lost: `term` (SIGTERM, then SIGKILL after -grace), kill (at once) or ignore")
	r.graceFlag(fs)
}

func (r *run) graceFlag(fs *flag.FlagSet) {
	r.grace = -1
	fs.Func("grace", "`time` from SIGTERM to SIGKILL; a session that cannot be confirmed is given up that much earlier; the default is a sixth of -session, at most 5s", func(text string) error {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = errors.New("negative")
		}
		r.grace = d
		return err
	})
}

// maxDefaultGrace is the longest grace that nobody has asked for.
const maxDefaultGrace = 5 * time.Second

func (r *run) check() error {
	if r.grace < 0 {
		r.grace = min(r.session/6, maxDefaultGrace)
	}
	switch {
	case !slices.Contains([]string{lossTerm, lossKill, lossIgnore}, r.onLoss):
		return usageError("-on-loss %q is none of term, kill and ignore", r.onLoss)
	case r.session <= 0:
		return usageError("-session %v is not positive", r.session)
	case r.grace > r.session/2:
		return usageError("-grace %v is more than half of -session %v", r.grace, r.session)
	}
	return r.locking.check()
}

// main does one thing after the other; whatever goes wrong, the lock is given back.
func (r *run) main(t *tool, args []string) error {
	if err := r.check(); err != nil {
		return err
	}
	j, err := newJob(args)
	if err != nil {
		return err
	}
	outliveReaders()
	ctx, stop := interrupted()
	defer stop()
	client, err := r.connect(ctx, t, r.percent(), filepath.Base(j.program))
	if err != nil {
		return interruption(ctx, err)
	}
	defer client.Close()
	q, hold, err := r.enter(ctx, t, client, j.path)
	if err != nil {
		return interruption(ctx, err)
	}
	defer hold.Release()
	return r.hold(ctx, t, q, hold, j)
}

// job is a command that is to be run while a lock is held.
type job struct {
	path    string // of the lock
	program string
	words   []string    // of the command line
	signals []os.Signal // that are passed on, or are about our own stopping
}

// newJob takes apart "/path -- command args...", and finds the program before anybody has to wait for us.
func newJob(args []string) (*job, error) {
	path, words, err := splitCommand(args)
	if err != nil {
		return nil, err
	}
	program, err := lookPath(words[0])
	if err != nil {
		return nil, err
	}
	return &job{path, program, words, listened(append(endSignals(), jobSignals()...)...)}, nil
}

// splitCommand takes apart "/path -- command args...".
func splitCommand(args []string) (path string, words []string, err error) {
	if len(args) == 0 {
		return "", nil, usageError("a path is missing")
	}
	path, words = args[0], args[1:]
	switch {
	case len(words) > 0 && words[0] == "--": // the rest is the command, whatever it looks like
		words = words[1:]
	case len(words) > 0 && isFlag(words[0]):
		return "", nil, flagAfterPath(words[0])
	}
	if len(words) == 0 {
		return "", nil, usageError("a command is missing")
	}
	return path, words, checkPath(path)
}

// lookPath finds a program. Codes are those of a shell.
func lookPath(name string) (string, error) {
	program, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &exit{exitNotFound, err}
	case err != nil: // it is there
		return "", &exit{exitCannotRun, err}
	}
	return program, nil
}

// percent is the part of the session timeout after which a session that no server confirms is given
// up, so that the command has its grace before the servers let the next one in.
func (r *run) percent() int {
	if r.onLoss != lossTerm {
		return 100
	}
	return int(100 * (r.session - r.grace) / r.session)
}

// graceIn is the grace in a session of which the servers may have granted less than was asked for.
func (r *run) graceIn(timeout time.Duration) time.Duration {
	return min(r.grace, timeout*time.Duration(100-r.percent())/100)
}

// hold runs the command.
func (r *run) hold(ctx context.Context, t *tool, c *contended, held *revocable.Hold, j *job) error {
	hold := held.Hold
	// From before the last questions to the servers on: ctx may not have ended yet when the answers are here.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, listened(endSignals()...)...)
	defer signal.Stop(signals)
	if r.onLoss != lossIgnore { // a command that goes on would keep others from nothing
		shadow, err := c.shadows.cast(ctx, hold)
		if err != nil {
			return before(ctx, hold, err)
		}
		defer shadow.remove(hold)
	}
	// This asks whether our node is there, after the shadow was made: so whoever holds later sees that.
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
		return signaledBy(s.(syscall.Signal))
	case <-hold.Done():
		return loss(hold)
	default:
	}
	signal.Notify(signals, j.signals...)
	command, err := startChild(j.program, j.words, append(os.Environ(),
		"ZKLOCK_PATH="+c.path, "ZKLOCK_NODE="+hold.Path(), "ZKLOCK_TOKEN="+strconv.FormatInt(token, 10)))
	if err != nil {
		return &exit{exitCannotRun, err}
	}
	a := &attendance{run: r, tool: t, child: command, hold: held, client: c.shadows.client, signals: signals}
	return a.attend()
}

// before is what went wrong before the command was started.
func before(ctx context.Context, hold *lock.Hold, err error) error {
	if hold.Err() != nil || errors.Is(err, lock.ErrNodeDeleted) {
		return loss(hold)
	}
	return interruption(ctx, err)
}
