package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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

// locking is which lock to acquire, and how.
type locking struct {
	connection
	read, write bool
	permits     int    // 0: no semaphore
	election    bool   // of Curator's LeaderLatch
	id          string // what others see; "" is the default
	try         bool
	wait        time.Duration
	session     time.Duration
	refused     int // exit code when the lock is not acquired
}

func (l *locking) flags(fs *flag.FlagSet) {
	l.connection.flags(fs)
	fs.BoolVar(&l.read, "read", false, "share with other readers")
	fs.BoolVar(&l.write, "write", false, "be alone, among readers and writers")
	fs.Func("permits", "be one of at most `N`; all must say the same N", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return errors.New("not a positive number")
		}
		l.permits = n
		return nil
	})
	fs.BoolVar(&l.try, "try", false, "do not wait for others")
	fs.DurationVar(&l.wait, "wait", 0, "wait no longer than this; 0 is as long as it takes")
	l.refused = exitNotAcquired
	for _, name := range []string{"E", "exit-code"} {
		fs.Func(name, "exit with `code` when the lock is not acquired, instead of "+strconv.Itoa(exitNotAcquired), func(text string) error {
			code, err := strconv.ParseUint(text, 10, 8)
			l.refused = int(code)
			return err
		})
	}
	l.sessionFlag(fs)
	l.aclFlag(fs)
}

func (l *locking) sessionFlag(fs *flag.FlagSet) {
	fs.DurationVar(&l.session, "session", 30*time.Second, "session timeout: how long the lock outlives a crash of this machine")
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
		return usageError("-read, -write and -permits exclude each other")
	case l.try && l.wait != 0:
		return usageError("-try does not wait: it does not go with -wait")
	case l.wait < 0:
		return usageError("-wait %v is negative", l.wait)
	}
	return nil
}

// connect makes a client for holding locks as what, which gives a session up after percent of its timeout.
func (l *locking) connect(ctx context.Context, t *tool, percent int, what string) (*framework.Client, error) {
	data := cmp.Or(l.id, string(hostAndPid())+" "+what)
	if l.permits != 0 {
		data += permitsMark + strconv.Itoa(l.permits)
	}
	return l.connection.connect(ctx, t,
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

// contended is a lock, who is in its queue, and the shadows of those who lost it.
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

// enter acquires the lock at a path, unless there are holders that it does not exclude. The hold can be asked for.
func (l *locking) enter(ctx context.Context, t *tool, client *framework.Client, path string) (*contended, *revocable.Hold, error) {
	q, err := l.queue(client, path)
	if err != nil {
		return nil, nil, &exit{exitUsage, err}
	}
	if err := l.checkKinds(ctx, t, client, path, true); err != nil {
		return nil, nil, err
	}
	hold, err := l.acquire(ctx, t, q)
	if err != nil {
		return nil, nil, err
	}
	if err := l.checkKinds(ctx, t, client, path, false); err != nil {
		_ = hold.Release() // why we do not want it is the news
		return nil, nil, err
	}
	held, err := revocable.Watch(hold)
	if err != nil {
		_ = hold.Release()
		return nil, nil, err
	}
	return q, held, nil
}

// acquire returns a hold, once no command runs any more whose lock was lost.
func (l *locking) acquire(ctx context.Context, t *tool, c *contended) (*lock.Hold, error) {
	patient, within := ctx, ""
	var cancel func()
	switch {
	case l.try:
		patient, cancel = context.WithCancel(ctx)
		cancel()
	case l.wait > 0:
		patient, cancel = context.WithTimeout(ctx, l.wait)
		defer cancel()
		within = fmt.Sprintf(" in %v", l.wait)
	}
	var hold *lock.Hold
	var err error
	if l.try {
		hold, err = c.TryAcquire(ctx)
	} else {
		stop := func() {}
		if l.verbose {
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
		who, err := c.holders(ctx)
		if err != nil { // nobody may hold it, for all we know
			return nil, fmt.Errorf("%s not acquired%s, and no server says why: %w", c.path, within, err)
		}
		return nil, &exit{l.refused, fmt.Errorf("%s not acquired%s: held by %s", c.path, within, who)}
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
		err = loss(hold)
	case errors.As(err, &runs):
		err = &exit{l.refused, fmt.Errorf("%s not acquired%s: %w", c.path, within, err)}
	}
	_ = hold.Release() // why we do not want it is the news
	return nil, err
}

// lookTimeout limits the look at who is in the way, for those who have waited long enough.
const lookTimeout = 3 * time.Second

// holders names who holds.
func (c *contended) holders(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all, err := c.Participants.Participants(ctx)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(p lock.Participant) bool { return !p.Holds })
	if len(all) == 0 {
		return "somebody who has released it by now", nil
	}
	who := fmt.Sprintf("%s (session %#x, for %v)", printable(string(all[0].Data)), uint64(all[0].Session), age(all[0].Since))
	if more := len(all) - 1; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return who, nil
}

// age is how long ago something happened by the server's clock, which may be ahead of ours.
func age(since time.Time) time.Duration {
	return max(0, time.Since(since)).Round(time.Second)
}

func loss(hold *lock.Hold) error {
	return &exit{exitLost, fmt.Errorf("lost %s: %w", hold.Path(), cmp.Or(hold.Err(), lock.ErrNodeDeleted))}
}
