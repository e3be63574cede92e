package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
)

// locking selects a lock, and how to acquire it.
type locking struct {
	cli.Connection
	read, write bool
	permits     int    // 0: no semaphore
	election    bool   // the lock is a LeaderLatch of Curator
	id          string // the id for other clients; "" is the default
	try         bool
	wait        time.Duration // cli.Unset: without limit
	session     time.Duration
	refused     int // exit code when the lock is not acquired
}

func (l *locking) flags(a *cli.App, fs *pflag.FlagSet) {
	l.Connection.Flags(a, fs)
	fs.BoolVar(&l.read, "read", false, "share the lock with other readers")
	fs.BoolVar(&l.write, "write", false, "exclude readers and writers")
	cli.Number(fs, &l.permits, "permits", "", 0, 1, math.MaxInt32, "be one of at most `N` holders; all must use the same N")
	fs.BoolVarP(&l.try, "try", "n", false, "do not wait for other holders")
	cli.Duration(fs, &l.wait, "wait", "w", cli.Unset, "wait for other holders no longer than this; 0s is --try; without limit by default")
	cli.Number(fs, &l.refused, "exit-code", "E", exitNotAcquired, 0, 255, "exit with this `code` when the lock is not acquired")
	l.sessionFlag(fs)
	l.ACLFlag(a, fs)
}

func (l *locking) sessionFlag(fs *pflag.FlagSet) {
	cli.Duration(fs, &l.session, "session", "", 30*time.Second, "session timeout: how long the lock outlives a crash of this machine")
}

func (l *locking) check() error {
	kinds := 0
	for _, chosen := range []bool{l.read, l.write, l.permits != 0} {
		if chosen {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return cli.UsageError("--read, --write and --permits cannot be combined")
	case l.try && l.wait > 0:
		return cli.UsageError("--try and --wait cannot be combined")
	}
	l.try = l.try || l.wait == 0 // as in flock
	return nil
}

// connect returns a client for holding locks as what, which gives a session up after percent of its
// timeout.
func (l *locking) connect(ctx context.Context, t *cli.App, percent int, what string) (*framework.Client, error) {
	data := cmp.Or(l.id, string(hostAndPid())+" "+what)
	if l.permits != 0 {
		data += permitsMark + strconv.Itoa(l.permits)
	}
	return l.Connection.Connect(ctx, t,
		// A lost connection is no lost lock: a command survives the restart of a server.
		framework.WithErrorPolicy(connstate.LostEndsHold),
		framework.WithSessionTimeout(l.session),
		framework.WithExpirationPercent(percent),
		framework.WithDefaultData([]byte(data)))
}

func hostAndPid() []byte {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return []byte(host + ":" + strconv.Itoa(os.Getpid()))
}

// contended is a lock with its queue and its shadows.
type contended struct {
	lock.Locker
	revocable.Participants
	shadows *shadows
	path    string
}

func (l *locking) queue(client *framework.Client, path string) (*contended, error) {
	c := &contended{path: path, shadows: shadowsOf(client, path)}
	switch l.kind() {
	case kindSemaphore:
		s, err := semaphore.New(client, path, l.permits)
		c.Locker, c.Participants = s, s
		return c, err
	case kindReadWrite:
		rw, err := rwlock.New(client, path)
		if err != nil {
			return nil, err
		}
		c.Locker, c.Participants = rw.Write(), rw
		if l.read {
			c.Locker = rw.Read()
		}
		return c, nil
	case kindElection:
		e, err := lock.New(client, path, latchName, lock.Standard{})
		c.Locker, c.Participants = e, e
		return c, err
	default:
		m, err := mutex.New(client, path)
		c.Locker, c.Participants = m, m
		return c, err
	}
}

// enter acquires the lock at a path, unless there are holders that it does not exclude. Other
// clients can ask for the hold.
func (l *locking) enter(ctx context.Context, t *cli.App, client *framework.Client, path string) (*contended, *revocable.Hold, error) {
	q, err := l.queue(client, path)
	if err != nil {
		return nil, nil, &cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	if err := l.checkKinds(ctx, t, client, path, true); err != nil {
		return nil, nil, err
	}
	hold, err := l.acquire(ctx, t, q)
	if err != nil {
		return nil, nil, err
	}
	if err := l.checkKinds(ctx, t, client, path, false); err != nil {
		_ = hold.Release() // the reason is the news
		return nil, nil, err
	}
	held, err := revocable.Watch(hold)
	if err != nil {
		_ = hold.Release()
		return nil, nil, err
	}
	return q, held, nil
}

// acquire returns a hold once the commands of lost locks have ended.
func (l *locking) acquire(ctx context.Context, t *cli.App, c *contended) (*lock.Hold, error) {
	patient, cancel := l.patience(ctx, time.Now())
	defer cancel()
	within := ""
	if l.wait > 0 {
		within = fmt.Sprintf(" in %v", l.wait)
	}
	var hold *lock.Hold
	var err error
	if l.try {
		hold, err = c.TryAcquire(ctx)
	} else {
		stop := func() {}
		if l.Verbose {
			stop = c.reportAhead(patient, t)
		}
		hold, err = c.Acquire(patient)
		stop()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, err
	case errors.Is(err, lock.ErrNotAcquired), patient.Err() != nil:
		return nil, l.notAcquired(ctx, c, within)
	default:
		return nil, err
	}
	if err := l.awaitOthers(ctx, patient, t, c, hold, within); err != nil {
		_ = hold.Release() // the reason is the news
		return nil, err
	}
	return hold, nil
}

// notAcquired returns the error of an acquire that would have to wait for longer, with the holders.
func (l *locking) notAcquired(ctx context.Context, c *contended, within string) error {
	who, err := c.holders(ctx)
	if err != nil { // it is unknown whether the lock is held
		return fmt.Errorf("%s not acquired%s: cannot read its holders: %w", c.path, within, err)
	}
	return &cli.Exit{Code: l.refused, Err: fmt.Errorf("%s not acquired%s: held by %s", c.path, within, who)}
}

// awaitOthers waits until the commands of lost locks have ended.
func (l *locking) awaitOthers(ctx, patient context.Context, t *cli.App, c *contended, hold *lock.Hold, within string) error {
	err := c.shadows.awaitOthers(ctx, patient, hold, t)
	var runs *stillRuns
	switch {
	case err == nil:
		return nil
	case hold.Err() != nil:
		return loss(hold)
	case errors.As(err, &runs):
		return &cli.Exit{Code: l.refused, Err: fmt.Errorf("%s not acquired%s: %w", c.path, within, err)}
	}
	return err
}

// lookTimeout limits the request for the holders after an acquire has timed out.
const lookTimeout = 3 * time.Second

// holders names the holders.
func (c *contended) holders(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all, err := c.Participants.Participants(ctx)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(p lock.Participant) bool { return !p.Holds })
	if len(all) == 0 {
		return "a client that has since released it", nil
	}
	who := fmt.Sprintf("%s (session %#x, for %v)", cli.Printable(string(all[0].Data)), uint64(all[0].SessionID), age(all[0].Since))
	if more := len(all) - 1; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return who, nil
}

// age returns the time since an instant of the server's clock, which may be ahead of this
// machine's.
func age(since time.Time) time.Duration {
	return max(0, time.Since(since)).Round(time.Second)
}

func loss(hold *lock.Hold) error {
	return &cli.Exit{Code: exitLost, Err: fmt.Errorf("lost %s: %w", hold.Path(), cmp.Or(hold.Err(), lock.ErrNodeDeleted))}
}
