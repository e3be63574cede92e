//go:build linux

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/retry"
)

const (
	lockPath  = "/chaos/lock"
	guarded   = "/chaos/guarded"   // a counter that is written with the guard only
	unguarded = "/chaos/unguarded" // and one without
	marks     = "/chaos/marks"     // its version counts writes by holders of shared locks
)

// recipe is a tested recipe.
type recipe struct {
	most int // holders at a time

	// make returns an acquire function, and reports whether the lock is shared.
	make func(*framework.Client, connstate.ErrorPolicy) (acquirer, error)
}

type acquirer func(ctx context.Context, random *rand.Rand) (h held, shared bool, err error)

// held is a held lock or a term of leadership.
type held interface {
	SessionID() int64 // 0 if it was lost before that was known
	Context() context.Context
	Done() <-chan struct{}
	Err() error
	FencingToken(ctx context.Context) (int64, error)
	Guard() *zk.CheckVersionRequest
	Release() error
}

// heldLock is a lock.
type heldLock struct{ *lock.Hold }

func (h heldLock) SessionID() int64 { return h.Session().ID() }

// asHeld is for the results of Acquire.
func asHeld(h *lock.Hold, shared bool, err error) (held, bool, error) {
	if err != nil {
		return nil, false, err
	}
	return heldLock{h}, shared, nil
}

var recipes = map[string]recipe{
	"mutex": {1, func(client *framework.Client, policy connstate.ErrorPolicy) (acquirer, error) {
		m, err := mutex.New(client, lockPath, lock.WithErrorPolicy(policy))
		return func(ctx context.Context, _ *rand.Rand) (held, bool, error) {
			h, err := m.Acquire(ctx)
			return asHeld(h, false, err)
		}, err
	}},
	"read/write lock": {1, func(client *framework.Client, policy connstate.ErrorPolicy) (acquirer, error) {
		l, err := rwlock.New(client, lockPath, lock.WithErrorPolicy(policy))
		return func(ctx context.Context, random *rand.Rand) (held, bool, error) {
			if random.IntN(3) == 0 {
				h, err := l.Write().Acquire(ctx)
				return asHeld(h, false, err)
			}
			h, err := l.Read().Acquire(ctx)
			return asHeld(h, true, err)
		}, err
	}},
	"semaphore": {leases, func(client *framework.Client, policy connstate.ErrorPolicy) (acquirer, error) {
		s, err := semaphore.New(client, lockPath, leases, lock.WithErrorPolicy(policy))
		return func(ctx context.Context, _ *rand.Rand) (held, bool, error) {
			h, err := s.Acquire(ctx)
			return asHeld(h, false, err)
		}, err
	}},
	"leader": {1, newCandidate},
	"shard":  {1, newMember},
	"once":   {1, newFirings},
}

const leases = 3

// sessionTimeout is the timeout of all contenders.
const sessionTimeout = 6 * time.Second

// orders are what a contender needs to know.
type orders struct {
	Recipe      string
	Servers     []string
	Number      int
	Incarnation int
	Seed        uint64
	Timeout     time.Duration // for everything
	Member      string        // the id of a member of TestGrace; empty: a contender
}

// message is a contender's report: the state of a hold, its session, a failed acquire, or a fault.
// A member's is a call.
type message struct {
	Hold    *hold  `json:",omitempty"`
	Session int64  `json:",omitempty"`
	Failed  string `json:",omitempty"`
	Wrong   string `json:",omitempty"`
	Owned   *owned `json:",omitempty"`
}

// contender acquires, holds and releases, and reports.
type contender struct {
	orders
	recipe recipe
	client *framework.Client
	random *rand.Rand
	report func(message) // must not keep the hold
	calm   *atomic.Bool  // there will be no more faults
	serial int
}

// contend returns when there was peace for one whole round.
func (o orders) contend(ctx context.Context, calm *atomic.Bool, report func(message)) error {
	client, err := framework.New(o.Servers,
		framework.WithSessionTimeout(sessionTimeout),
		framework.WithConnectionTimeout(10*time.Second),
		countRepeats(),
		framework.WithRetryPolicy(retry.BoundedExponentialBackoff(20*time.Millisecond, time.Second, 20)))
	if err != nil {
		return err
	}
	defer client.Close()
	c := contender{
		orders: o,
		recipe: recipes[o.Recipe],
		client: client,
		random: rand.New(rand.NewPCG(o.Seed, uint64(o.Number+1)<<32+uint64(o.Incarnation))),
		report: report,
		calm:   calm,
	}
	acquire, err := c.recipe.make(client, connstate.ErrorPolicy(o.Number/2%2))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		last := calm.Load()
		timeout := 30 * time.Second
		if last {
			timeout = 2 * time.Minute
		}
		waiting, cancel := context.WithTimeout(ctx, timeout)
		asked := now()
		h, shared, err := acquire(waiting, c.random)
		from := now()
		cancel()
		if err != nil {
			if last {
				return fmt.Errorf("does not get through after all is well: %w", err)
			}
			c.report(message{Failed: kind(err)})
			continue
		}
		c.serial++
		record := hold{
			Contender: o.Number, Incarnation: o.Incarnation, Serial: c.serial, Session: h.SessionID(),
			Shared: shared, Asked: asked, From: from,
		}
		if c.use(ctx, h, &record); last && record.Loss == "" {
			return nil
		}
	}
	return ctx.Err()
}

// use is the critical section.
func (c *contender) use(ctx context.Context, h held, record *hold) {
	defer func() { c.report(message{Hold: record}) }()
	lost := make(chan time.Duration, 1)
	stop := context.AfterFunc(h.Context(), func() { lost <- now() })
	c.report(message{Hold: record, Session: record.Session})

	if token, err := h.FencingToken(h.Context()); err == nil {
		record.Token = token
	}
	c.write(h.Context(), h, record)
	stay := time.Duration(c.random.IntN(30)) * time.Millisecond
	if c.random.IntN(20) == 0 {
		stay = time.Duration(c.random.IntN(4000)) * time.Millisecond // through a fault or two
	}
	select {
	case <-time.After(stay):
	case <-h.Done():
	}
	if stop() {
		record.To = now() // from here on we do not believe in it
	} else {
		record.To, record.Loss = <-lost, kind(h.Err())
		// What a holder does that does not look at its context. The guard decides.
		c.write(ctx, h, record)
	}
	// Before the release: whoever is killed in the middle of it has not held up to then.
	f, fires := h.(*running)
	if fires {
		record.Firing = f.returns()
	}
	c.report(message{Hold: record})
	if err := h.Release(); err == nil {
		_, err := c.client.Multi(ctx, h.Guard(), &zk.CheckVersionRequest{Path: guarded, Version: -1})
		record.Stale = err == nil
	}
	if fires {
		record.Firing = f.firing
	}
}

// write changes a shared node: an exclusive holder reads a counter and writes the next number.
func (c *contender) write(ctx context.Context, h held, record *hold) {
	for _, w := range record.Writes {
		if w.Outcome == unknown {
			return // it may still be under way, and undo the next
		}
	}
	w := write{Guarded: true, Blind: record.Shared || c.recipe.most > 1}
	path, data := marks, []byte{}
	if !w.Blind {
		if path = guarded; c.random.IntN(4) == 0 && record.Loss == "" {
			path, w.Guarded = unguarded, false
		}
		old, _, err := c.client.Get(ctx, path)
		if err != nil {
			return
		}
		value, err := strconv.Atoi(string(old))
		if err != nil {
			c.report(message{Wrong: fmt.Sprintf("%s: %v", path, err)})
			return
		}
		w.Value = value + 1
		data = []byte(strconv.Itoa(w.Value))
	}
	w.Outcome = sent
	record.Writes = append(record.Writes, w)
	// Before the release: a contender that is killed during it has held up to then.
	c.report(message{Hold: record}) // we may be killed meanwhile
	ops := []any{&zk.SetDataRequest{Path: path, Data: data, Version: -1}}
	if w.Guarded {
		ops = append([]any{h.Guard()}, ops...)
	}
	_, err := c.client.Multi(context.WithValue(ctx, repeatsKey{}, &w.Repeats), ops...)
	w.Outcome = refused
	switch {
	case err == nil:
		w.Outcome = done
	case retry.Unknown(err):
		w.Outcome = unknown
	}
	record.Writes[len(record.Writes)-1] = w
}

type repeatsKey struct{}

// countRepeats has the client say how often it sent an operation again.
func countRepeats() framework.Option {
	return framework.WithObserver(framework.Observer{Operation: func(ctx context.Context, e framework.OperationEvent) {
		if n, counting := ctx.Value(repeatsKey{}).(*int); counting {
			*n = e.Attempts - 1
		}
	}})
}

// kind is the part of an error that is worth counting.
func kind(err error) string {
	for _, known := range []error{
		framework.ErrSuspended, framework.ErrSessionLost, lock.ErrNodeDeleted, lock.ErrMaxHold, context.DeadlineExceeded, retry.ErrExhausted, zk.ErrConnectionClosed, zk.ErrNoServer,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// ordersEnv is the variable with the orders, which turns this program into a contender.
const ordersEnv = "CURATOR_CHAOS_CONTENDER"

// beContender is the whole life of a contender's process. It reports to standard output, a line
// each, and its calm begins with the end of standard input: so it also ends if the test does.
func beContender(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	if o.Member != "" {
		return o.beMember(ctx)
	}
	var calm atomic.Bool
	go func() { // ends with the process at the latest
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		calm.Store(true)
	}()
	out := json.NewEncoder(os.Stdout) // one write a line
	return o.contend(ctx, &calm, func(m message) { _ = out.Encode(m) })
}

// process is a contender in a process of its own.
type process struct {
	cmd   *exec.Cmd
	input interface{ Close() error }
	ended chan error // what became of it, once its last word was read
}

// startProcess starts a process. hear receives its reports on one goroutine, which ends with it.
func startProcess(o orders, hear func(message)) (*process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ordersEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	// it may be stopped when we are killed
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, input: input, ended: make(chan error, 1)}
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			// a line that is no message was cut off when the process was killed
			var m message
			if json.Unmarshal(lines.Bytes(), &m) == nil {
				hear(m)
			}
		}
		p.ended <- errors.Join(lines.Err(), cmd.Wait())
	}()
	return p, nil
}

// kill ends it, also if it was stopped, and returns when its last word has been heard.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.input.Close()
}
