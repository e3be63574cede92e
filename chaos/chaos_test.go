// Package chaos has contenders use a lock on a real ensemble while servers are killed, paused,
// cut off and frozen, and sessions ended, and then proves from what they recorded that no two
// holds which believed in themselves were in each other's way.
//
//	make chaos DURATION=15m SEED=1
//
// The seed decides the faults and their order. What a run does also depends on time, so the same seed is
// the same weather, not the same run. A run that fails writes its history to a file.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hold is one hold as its holder saw it, on the one clock of this process.
type hold struct {
	Contender int
	Shared    bool          // a reader's
	From      time.Duration // Acquire had returned
	To        time.Duration // about to release, or told of the loss
	Token     int64         // 0: not learned
	Loss      string        // why it ended before its time
}

// killing is the end of a contender's session by force. Its holder gets no warning: it hears of it when its
// connection is cut, and the next one may be in by then.
type killing struct {
	contender int
	at        time.Duration // or a little later
}

// claimed is what holders may be blamed for: a hold whose session was ended by force counts up to that
// moment only. It returns how many holds that shortened.
func claimed(holds []hold, killed []killing) (claims []hold, shortened int) {
	for _, h := range holds {
		for _, k := range killed {
			if h.Loss != "" && k.contender == h.Contender && k.at > h.From && k.at < h.To {
				h.To = k.at
				shortened++
			}
		}
		claims = append(claims, h)
	}
	return claims, shortened
}

// conflict is the checker: it returns two holds that overlapped and may not, or whose tokens are in the
// wrong order.
func conflict(holds []hold) error {
	holds = slices.Clone(holds)
	slices.SortFunc(holds, func(a, b hold) int { return int(a.From - b.From) })
	var open []hold // that may reach into those that come
	var lastToken hold
	for _, h := range holds {
		for _, other := range open {
			if other.To > h.From && !(h.Shared && other.Shared) {
				return fmt.Errorf("overlap: %+v and %+v", other, h)
			}
		}
		open = append(slices.DeleteFunc(open, func(o hold) bool { return o.To <= h.From }), h)
		// Readers that are in together came in any order.
		if h.Token != 0 && !h.Shared {
			if h.Token <= lastToken.Token {
				return fmt.Errorf("tokens do not rise: %+v and %+v", lastToken, h)
			}
			lastToken = h
		}
	}
	return nil
}

func TestCheckerFindsWhatIsWrong(t *testing.T) {
	ms := time.Millisecond
	good := []hold{{From: 0, To: 2 * ms, Token: 1}, {From: 2 * ms, To: 4 * ms, Token: 2}, {From: 5 * ms, To: 9 * ms, Shared: true}, {From: 6 * ms, To: 8 * ms, Shared: true}}
	assert.NoError(t, conflict(good))
	for name, bad := range map[string][]hold{
		"two writers":         {{From: 0, To: 3 * ms}, {From: 2 * ms, To: 4 * ms}},
		"a short inside":      {{From: 0, To: 9 * ms}, {From: 1 * ms, To: 2 * ms, Shared: true}},
		"a long one reaching": {{From: 0, To: 9 * ms, Shared: true}, {From: 1 * ms, To: 2 * ms, Shared: true}, {From: 5 * ms, To: 6 * ms}},
		"stale token":         {{From: 0, To: 1 * ms, Token: 7}, {From: 2 * ms, To: 3 * ms, Token: 7}},
	} {
		assert.Error(t, conflict(bad), name)
	}

	late := []hold{{Contender: 1, From: 0, To: 5 * ms, Loss: "session lost"}, {Contender: 2, From: 3 * ms, To: 9 * ms}}
	for _, c := range []struct {
		killed []killing
		fine   bool
	}{
		{nil, false}, {[]killing{{1, 2 * ms}}, true}, {[]killing{{2, 2 * ms}}, false}, {[]killing{{1, 4 * ms}}, false}, {[]killing{{1, 6 * ms}}, false},
	} {
		claims, _ := claimed(late, c.killed)
		assert.Equal(t, c.fine, conflict(claims) == nil, "%+v", c.killed)
	}
}

func TestMutex(t *testing.T) {
	run(t, func(client *framework.Client, policy connstate.ErrorPolicy) (acquirer, error) {
		m, err := mutex.New(client, lockPath, lock.WithErrorPolicy(policy))
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, _ *rand.Rand) (*lock.Hold, bool, error) {
			h, err := m.Acquire(ctx)
			return h, false, err
		}, nil
	})
}

func TestReadWriteLock(t *testing.T) {
	run(t, func(client *framework.Client, policy connstate.ErrorPolicy) (acquirer, error) {
		l, err := rwlock.New(client, lockPath, lock.WithErrorPolicy(policy))
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, random *rand.Rand) (*lock.Hold, bool, error) {
			if random.IntN(3) == 0 {
				h, err := l.Write().Acquire(ctx)
				return h, false, err
			}
			h, err := l.Read().Acquire(ctx)
			return h, true, err
		}, nil
	})
}

// acquirer acquires one side of a lock, and says whether it is a shared one.
type acquirer func(ctx context.Context, random *rand.Rand) (h *lock.Hold, shared bool, err error)

const (
	contenders  = 6
	lockPath    = "/chaos/lock"
	counterPath = "/chaos/counter"

	// shortRun is what make test has time for.
	shortRun = 40 * time.Second
)

// trial is one run.
type trial struct {
	t        *testing.T
	ensemble *ensemble.Ensemble
	began    time.Time

	mu      sync.Mutex // guards what follows
	holds   []hold
	losses  map[string]int
	faults  map[string]int
	failed  map[string]int // acquires, by the kind of error
	killed  []killing
	clients []*framework.Client

	written, unknown, refused, stale atomic.Int64 // guarded writes
}

func run(t *testing.T, make func(*framework.Client, connstate.ErrorPolicy) (acquirer, error)) {
	duration, seed := shortRun, uint64(time.Now().UnixNano())
	if s := os.Getenv("CHAOS_DURATION"); s != "" {
		var err error
		duration, err = time.ParseDuration(s)
		require.NoError(t, err)
	}
	if s := os.Getenv("CHAOS_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d, for %v", seed, duration)
	tr := &trial{
		t: t, ensemble: ensemble.Start(t), began: time.Now(),
		losses: map[string]int{}, faults: map[string]int{}, failed: map[string]int{},
	}
	for range contenders {
		client, err := framework.New(tr.ensemble.Servers(),
			framework.WithSessionTimeout(6*time.Second),
			framework.WithConnectionTimeout(10*time.Second),
			framework.WithRetryPolicy(retry.BoundedExponentialBackoff(20*time.Millisecond, time.Second, 20)))
		require.NoError(t, err)
		tr.clients = append(tr.clients, client)
		defer client.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), duration+5*time.Minute)
	defer cancel()
	_, err := tr.clients[0].Create(ctx, counterPath, []byte("0"), framework.Parents())
	require.NoError(t, err)

	// Faults for a while, and contenders until the last of them got through after the last fault.
	var calm atomic.Bool
	var wg sync.WaitGroup
	for n, client := range tr.clients {
		policy := connstate.ErrorPolicy(n % 2)
		acquire, err := make(client, policy)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(seed, uint64(n)+1))
		wg.Go(func() { tr.contend(ctx, n, client, acquire, random, &calm) })
	}
	tr.nemesis(ctx, duration, rand.New(rand.NewPCG(seed, 0)))
	calm.Store(true)
	wg.Wait()
	tr.verdict(ctx, seed)
}

// contend acquires and releases until there was peace for one whole round.
func (tr *trial) contend(ctx context.Context, n int, client *framework.Client, acquire acquirer, random *rand.Rand, calm *atomic.Bool) {
	for ctx.Err() == nil {
		last := calm.Load()
		patience := 30 * time.Second
		if last {
			patience = 2 * time.Minute
		}
		waiting, cancel := context.WithTimeout(ctx, patience)
		h, shared, err := acquire(waiting, random)
		cancel()
		if err != nil {
			tr.mu.Lock()
			tr.failed[kind(err)]++
			tr.mu.Unlock()
			if last {
				tr.t.Errorf("contender %d does not get through after all is well: %v", n, err)
				return
			}
			continue
		}
		ok := tr.use(ctx, n, client, h, shared, random)
		if last && ok {
			return
		}
	}
}

// use is the critical section. It reports whether the hold lasted until it was released.
func (tr *trial) use(ctx context.Context, n int, client *framework.Client, h *lock.Hold, shared bool, random *rand.Rand) bool {
	record := hold{Contender: n, Shared: shared, From: time.Since(tr.began)}
	defer func() {
		if record.To == 0 {
			record.To = time.Since(tr.began)
		}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.holds = append(tr.holds, record)
		if record.Loss != "" {
			tr.losses[record.Loss]++
		}
	}()
	lost := make(chan time.Duration, 1)
	stop := context.AfterFunc(h.Context(), func() { lost <- time.Since(tr.began) })

	if token, err := h.FencingToken(h.Context()); err == nil {
		record.Token = token
	}
	if !shared {
		tr.increment(h.Context(), client, h)
	}
	stay := time.Duration(random.IntN(30)) * time.Millisecond
	if random.IntN(20) == 0 {
		stay = time.Duration(random.IntN(4000)) * time.Millisecond // through a fault or two
	}
	select {
	case <-time.After(stay):
	case <-h.Done():
	}
	if stop() {
		record.To = time.Since(tr.began) // from here on we do not believe in it
	} else {
		record.To, record.Loss = <-lost, kind(h.Err())
	}
	if err := h.Release(); err == nil && !shared {
		tr.lateWrite(ctx, client, h)
	}
	return record.Loss == ""
}

// increment is a read-modify-write that the guard makes safe even for a holder that is late.
func (tr *trial) increment(ctx context.Context, client *framework.Client, h *lock.Hold) {
	data, _, err := client.Get(ctx, counterPath)
	if err != nil {
		return
	}
	value, err := strconv.Atoi(string(data))
	if err != nil {
		tr.t.Errorf("counter: %v", err)
		return
	}
	_, err = client.Multi(ctx, h.Guard(), &zk.SetDataRequest{Path: counterPath, Data: []byte(strconv.Itoa(value + 1)), Version: -1})
	switch {
	case retry.Unknown(err):
		tr.unknown.Add(1)
	case err == nil:
		tr.written.Add(1)
	default:
		tr.refused.Add(1)
	}
}

// lateWrite is what a stale holder would do: the guard of a released lock must refuse it.
func (tr *trial) lateWrite(ctx context.Context, client *framework.Client, h *lock.Hold) {
	_, err := client.Multi(ctx, h.Guard(), &zk.CheckVersionRequest{Path: counterPath, Version: -1})
	if err == nil {
		tr.stale.Add(1)
	}
}

// nemesis makes one fault after another, each healed before the next.
func (tr *trial) nemesis(ctx context.Context, duration time.Duration, random *rand.Rand) {
	e := tr.ensemble
	pause := func(least, most time.Duration) {
		select {
		case <-time.After(least + rand.N(most-least)):
		case <-ctx.Done():
		}
	}
	deadline := time.Now().Add(duration)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		server := random.IntN(e.Size())
		if random.IntN(2) == 0 {
			if leader, err := e.Leader(ctx); err == nil {
				server = leader
			}
		}
		var name string
		var errs []error
		switch random.IntN(7) {
		case 0:
			name = "kill server"
			errs = append(errs, e.KillServer(server))
			pause(0, 3*time.Second)
			errs = append(errs, e.StartServer(server))
		case 1:
			name = "stop server"
			errs = append(errs, e.StopServer(server))
			pause(0, 3*time.Second)
			errs = append(errs, e.StartServer(server))
		case 2:
			name = "pause server"
			errs = append(errs, e.PauseServer(server))
			pause(time.Second, 8*time.Second)
			errs = append(errs, e.ResumeServer(server))
		case 3:
			name = "partition server"
			errs = append(errs, e.Partition(server))
			pause(2*time.Second, 8*time.Second)
			errs = append(errs, e.Heal())
		case 4:
			name = "freeze link"
			errs = append(errs, e.Freeze(server))
			pause(2*time.Second, 9*time.Second)
			errs = append(errs, e.Heal())
		default:
			name = "kill session"
			victim := random.IntN(contenders)
			if session, err := tr.clients[victim].Session(ctx); err == nil {
				tr.mu.Lock()
				tr.killed = append(tr.killed, killing{victim, time.Since(tr.began)})
				tr.mu.Unlock()
				errs = append(errs, e.KillSession(ctx, session.ID()))
			}
		}
		if err := errors.Join(errs...); err != nil {
			tr.t.Errorf("%s: %v", name, err)
			return
		}
		tr.mu.Lock()
		tr.faults[name]++
		tr.mu.Unlock()
		if err := e.WaitForQuorum(ctx); err != nil {
			tr.t.Errorf("after %s: %v", name, err)
			return
		}
		pause(0, 2*time.Second)
	}
}

// verdict checks what was recorded, and prints it.
func (tr *trial) verdict(ctx context.Context, seed uint64) {
	t := tr.t
	t.Logf("holds %d, lost %v, acquires that failed %v, faults %v", len(tr.holds), tr.losses, tr.failed, tr.faults)
	t.Logf("guarded writes: %d done, %d unknown, %d refused; stale ones accepted: %d", tr.written.Load(), tr.unknown.Load(), tr.refused.Load(), tr.stale.Load())
	claims, shortened := claimed(tr.holds, tr.killed)
	t.Logf("holds that were cut short by force: %d", shortened)
	if err := conflict(claims); err != nil {
		file := filepath.Join(os.TempDir(), fmt.Sprintf("chaos-%d.json", seed))
		data, jsonErr := json.MarshalIndent(tr.holds, "", "\t")
		t.Errorf("%v (seed %d; history in %s: %v)", err, seed, file, errors.Join(jsonErr, os.WriteFile(file, data, 0o600)))
	}
	assert.Zero(t, tr.stale.Load(), "stale guarded writes")
	data, _, err := tr.clients[0].Get(ctx, counterPath)
	require.NoError(t, err)
	value, err := strconv.ParseInt(string(data), 10, 64)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, value, tr.written.Load(), "a lost update")
	assert.LessOrEqual(t, value, tr.written.Load()+tr.unknown.Load(), "an update too many")
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		children, _, err := tr.clients[0].Children(ctx, lockPath)
		if errors.Is(err, zk.ErrNoNode) {
			return
		}
		assert.NoError(c, err)
		assert.Empty(c, children)
	}, 30*time.Second, 100*time.Millisecond, "nodes are left behind")
}

// kind is the part of an error that is worth counting.
func kind(err error) string {
	for _, known := range []error{
		lock.ErrSuspended, lock.ErrSessionLost, lock.ErrNodeDeleted, lock.ErrMaxHold, context.DeadlineExceeded, retry.ErrExhausted, zk.ErrConnectionClosed, zk.ErrNoServer,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}
