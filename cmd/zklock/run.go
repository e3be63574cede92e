//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
)

// run runs a command while it holds a lock.
type run struct {
	connection
	read, write bool
	permits     int
	try         bool
	wait        time.Duration
	onLoss      string
	grace       time.Duration
	session     time.Duration
}

// What to do with the command when the lock is lost.
const (
	lossTerm   = "term"
	lossKill   = "kill"
	lossIgnore = "ignore"
)

func (r *run) flags(fs *flag.FlagSet) {
	r.connection.flags(fs)
	fs.BoolVar(&r.read, "read", false, "share with other readers")
	fs.BoolVar(&r.write, "write", false, "be alone, among readers and writers")
	fs.IntVar(&r.permits, "permits", 0, "be one of at most `N`; all must say the same N")
	fs.BoolVar(&r.try, "try", false, "do not wait for others")
	fs.DurationVar(&r.wait, "wait", 0, "wait no longer than this; 0 is as long as it takes")
	fs.StringVar(&r.onLoss, "on-loss", lossTerm, "when the lock is lost: `term` (SIGTERM, then SIGKILL after -grace), kill (at once) or ignore")
	fs.DurationVar(&r.grace, "grace", 5*time.Second, "from SIGTERM to SIGKILL; a session that cannot be confirmed is given up that much earlier")
	fs.DurationVar(&r.session, "session", 30*time.Second, "session timeout: how long the lock outlives a crash of this machine")
}

func (r *run) check() error {
	kinds := 0
	for _, chosen := range []bool{r.read, r.write, r.permits != 0} {
		if chosen {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return usageError("-read, -write and -permits exclude each other")
	case r.permits < 0:
		return usageError("-permits %d is not positive", r.permits)
	case r.try && r.wait != 0:
		return usageError("-try does not wait: it does not go with -wait")
	case r.wait < 0:
		return usageError("-wait %v is negative", r.wait)
	case !slices.Contains([]string{lossTerm, lossKill, lossIgnore}, r.onLoss):
		return usageError("-on-loss %q is none of term, kill and ignore", r.onLoss)
	case r.grace < 0 || r.grace > r.session/2:
		return usageError("-grace %v is not between 0 and half of -session %v", r.grace, r.session)
	}
	return nil
}

// main does one thing after the other; whatever goes wrong, the lock is given back.
func (r *run) main(t *tool, args []string) error {
	if err := r.check(); err != nil {
		return err
	}
	path, words, err := splitCommand(args)
	if err != nil {
		return err
	}
	program, err := lookPath(words[0])
	if err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	client, err := r.connect(ctx, t,
		framework.WithSessionTimeout(r.session),
		framework.WithExpirationPercent(r.percent()),
		framework.WithDefaultData(append(hostAndPid(), " "+filepath.Base(program)...)))
	if err != nil {
		return interruption(ctx, err)
	}
	defer client.Close()
	q, err := r.queue(client, path)
	if err != nil {
		return &exit{exitUsage, err}
	}
	hold, err := r.acquire(ctx, t, q)
	if err != nil {
		return interruption(ctx, err)
	}
	defer hold.Release()
	return r.hold(ctx, t, q, hold, program, words)
}

// splitCommand takes apart "/path -- command args...".
func splitCommand(args []string) (path string, words []string, err error) {
	if len(args) == 0 {
		return "", nil, usageError("a path is missing")
	}
	path, words = args[0], args[1:]
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return "", nil, usageError("a command is missing")
	}
	return path, words, checkPath(path)
}

// lookPath finds the program before anybody has to wait for us. Codes are those of a shell.
func lookPath(name string) (string, error) {
	program, err := exec.LookPath(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", &exit{exitCannotRun, err}
	case err != nil:
		return "", &exit{exitNotFound, err}
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

func hostAndPid() []byte {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return []byte(host + ":" + strconv.Itoa(os.Getpid()))
}

// contended is a lock, who is in its queue, and the shadows of those who lost it.
type contended struct {
	revocable.Locker
	revocable.Participants
	shadows *shadows
	path    string
}

func (r *run) queue(client *framework.Client, path string) (*contended, error) {
	c := &contended{path: path, shadows: shadowsOf(client, path)}
	switch {
	case r.permits > 0:
		s, err := semaphore.New(client, path, r.permits)
		c.Locker, c.Participants = s, s
		return c, err
	case r.read || r.write:
		l, err := rwlock.New(client, path)
		if err != nil {
			return nil, err
		}
		c.Locker, c.Participants = l.Write(), l
		if r.read {
			c.Locker = l.Read()
		}
		return c, nil
	default:
		m, err := mutex.New(client, path)
		c.Locker, c.Participants = m, m
		return c, err
	}
}

// acquire returns a hold, once no command runs any more whose lock was lost.
func (r *run) acquire(ctx context.Context, t *tool, c *contended) (*lock.Hold, error) {
	patient, within := ctx, ""
	var cancel func()
	switch {
	case r.try:
		patient, cancel = context.WithCancel(ctx)
		cancel()
	case r.wait > 0:
		patient, cancel = context.WithTimeout(ctx, r.wait)
		defer cancel()
		within = fmt.Sprintf(" in %v", r.wait)
	}
	var hold *lock.Hold
	var err error
	if r.try {
		hold, err = c.TryAcquire(ctx)
	} else {
		hold, err = c.Acquire(patient)
	}
	switch {
	case err == nil:
	case errors.Is(err, lock.ErrNotAcquired), patient.Err() != nil && ctx.Err() == nil:
		return nil, &exit{exitNotAcquired, fmt.Errorf("%s not acquired%s: held by %s", c.path, within, c.holders(ctx))}
	default:
		return nil, err
	}
	err = c.shadows.awaitOthers(ctx, patient, hold, t)
	if err == nil {
		return hold, nil
	}
	var runs *stillRuns
	switch {
	case hold.Err() != nil:
		err = r.loss(hold)
	case errors.As(err, &runs):
		err = &exit{exitNotAcquired, fmt.Errorf("%s not acquired%s: %w", c.path, within, err)}
	}
	_ = hold.Release() // why we do not want it is the news
	return nil, err
}

// lookPatience limits the look at who is in the way, for those who have waited long enough.
const lookPatience = 3 * time.Second

// holders names who holds.
func (c *contended) holders(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	all, err := c.Participants.Participants(ctx)
	if err != nil {
		return fmt.Sprintf("somebody (%v)", err)
	}
	all = slices.DeleteFunc(all, func(p lock.Participant) bool { return !p.Holds })
	if len(all) == 0 {
		return "somebody who has let go by now"
	}
	who := fmt.Sprintf("%s (session %#x, for %v)", printable(string(all[0].Data)), uint64(all[0].Session), age(all[0].Since))
	if more := len(all) - 1; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return who
}

// age is how long ago something happened by the server's clock, which may be ahead of ours.
func age(since time.Time) time.Duration {
	return max(0, time.Since(since)).Round(time.Second)
}

// hold runs the command.
func (r *run) hold(ctx context.Context, t *tool, c *contended, hold *lock.Hold, program string, words []string) error {
	if r.onLoss != lossIgnore { // a command that goes on would keep others from nothing
		shadow, err := c.shadows.cast(ctx, hold)
		if err != nil {
			return r.before(ctx, hold, err)
		}
		defer shadow.remove(hold)
	}
	// This asks whether our node is there, after the shadow was made: so whoever holds later sees that.
	token, err := hold.FencingToken(ctx)
	if err != nil {
		return r.before(ctx, hold, err)
	}
	wanted, err := revocable.Watch(hold)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, append(heeded(), jobControl()...)...)
	defer signal.Stop(signals)
	if ctx.Err() != nil { // from here on signals are the command's
		return context.Cause(ctx)
	}
	command, err := startChild(program, words, append(os.Environ(),
		"ZKLOCK_PATH="+c.path, "ZKLOCK_NODE="+hold.Path(), "ZKLOCK_TOKEN="+strconv.FormatInt(token, 10)))
	if err != nil {
		return &exit{exitCannotRun, err}
	}
	a := &attendance{run: r, tool: t, child: command, hold: wanted, client: c.shadows.client, signals: signals}
	return a.attend()
}

func (r *run) loss(hold *lock.Hold) error {
	return &exit{exitLost, fmt.Errorf("lost %s: %w", hold.Path(), cmp.Or(hold.Err(), lock.ErrNodeDeleted))}
}

// before is what went wrong before the command was started.
func (r *run) before(ctx context.Context, hold *lock.Hold, err error) error {
	if hold.Err() != nil || errors.Is(err, lock.ErrNodeDeleted) {
		return r.loss(hold)
	}
	return interruption(ctx, err)
}
