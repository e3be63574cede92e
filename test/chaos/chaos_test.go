//go:build linux

package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/internal/timeline"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(ordersEnv); text != "" {
		if err := beContender(text); err != nil {
			fmt.Fprintln(os.Stderr, "contender:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestMutex(t *testing.T)         { run(t, "mutex") }
func TestReadWriteLock(t *testing.T) { run(t, "read/write lock") }
func TestSemaphore(t *testing.T)     { run(t, "semaphore") }
func TestLeader(t *testing.T)        { run(t, "leader") }

const (
	inProcess  = 3
	processes  = 3
	contenders = inProcess + processes
)

// trial is one run.
type trial struct {
	t        *testing.T
	orders   orders
	ensemble *ensemble.Ensemble
	calm     atomic.Bool

	// What follows is the test's own goroutine's.
	running    map[int]*process // by number of the contender
	follower   *follower        // of an election
	faults     []fault
	exceptions exceptions

	mu       sync.Mutex       // guards what follows
	holds    map[holdKey]hold // as last heard
	sessions map[int]int64    // of contenders
	failed   map[string]int   // acquires, by the kind of error
}

type holdKey struct{ contender, incarnation, serial int }

// fault is what the nemesis did.
type fault struct {
	Name   string
	Target int // a server or a contender
	span
}

func run(t *testing.T, recipe string) {
	testlevel.Need(t, testlevel.Nightly)
	duration, seed := 2*time.Minute, uint64(time.Now().UnixNano())
	if s := os.Getenv("CHAOS_DURATION"); s != "" {
		duration = testbed.Must(time.ParseDuration(s))
	}
	if s := os.Getenv("CHAOS_SEED"); s != "" {
		seed = testbed.Must(strconv.ParseUint(s, 10, 64))
	}
	t.Logf("seed %d, for %v", seed, duration)
	timeout := duration + 5*time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	// as in ZooKeeper's image: followers give a leader up after 4 s
	e := ensemble.New(t, ensemble.WithEnv("ZOO_SYNC_LIMIT", "2"))
	tr := &trial{
		t: t, ensemble: e,
		orders:     orders{Recipe: recipe, Servers: e.Servers(), Seed: seed, Timeout: timeout},
		holds:      make(map[holdKey]hold),
		sessions:   make(map[int]int64),
		failed:     make(map[string]int),
		exceptions: exceptions{Ended: make(map[int64][]span), Stopped: make(map[int][]span)},
		running:    make(map[int]*process),
	}
	client := testbed.Must(framework.New(e.Servers()))
	defer client.Close()
	for _, path := range []string{guarded, unguarded, marks, successes, tally} {
		testbed.Create(t, client, path, []byte("0"), framework.ContainerParents())
	}

	// Faults for a while, and contenders until each of them got through after the last fault.
	var wg sync.WaitGroup
	for n := range inProcess {
		o := tr.orders
		o.Number = n
		wg.Go(func() {
			if err := o.contend(ctx, &tr.calm, func(m message) { tr.hear(n, m) }); err != nil {
				t.Errorf("contender %d: %v", n, err)
			}
		})
	}
	defer tr.killAll() // if the test has failed by then
	if recipe == "leader" {
		tr.follower = follow(t, ctx, client)
		defer tr.follower.stop()
	}
	for n := inProcess; n < contenders; n++ {
		require.NoError(t, tr.start(n, 0))
	}
	tr.nemesis(ctx, duration, rand.New(rand.NewPCG(seed, 0)))
	tr.calm.Store(true)
	wg.Wait()
	tr.endProcesses()
	tr.verdict(ctx, client, duration)
}

// hear notes what a contender reports.
func (tr *trial) hear(n int, m message) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if h := m.Hold; h != nil {
		note := *h
		note.Writes = slices.Clone(h.Writes)
		tr.holds[holdKey{h.Contender, h.Incarnation, h.Serial}] = note
	}
	if m.Session != 0 {
		tr.sessions[n] = m.Session
	}
	if m.Failed != "" {
		tr.failed[m.Failed]++
	}
	if m.Wrong != "" {
		tr.t.Errorf("contender %d: %s", n, m.Wrong)
	}
}

// start starts a contender's process.
func (tr *trial) start(n, incarnation int) error {
	o := tr.orders
	o.Number, o.Incarnation = n, incarnation
	p, err := startProcess(o, func(m message) { tr.hear(n, m) })
	if err == nil {
		tr.running[n] = p
	}
	return err
}

// kill ends a contender's process, and its holds.
func (tr *trial) kill(n int) {
	tr.running[n].kill()
	delete(tr.running, n)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for key, h := range tr.holds {
		if key.contender == n && h.To == 0 {
			h.To, h.Loss = now(), "process killed"
			tr.holds[key] = h
		}
	}
}

// endProcesses has all processes end in peace, and waits for them.
func (tr *trial) endProcesses() {
	for n, p := range tr.running {
		_ = p.input.Close()
		if err := <-p.ended; err != nil {
			tr.t.Errorf("contender %d: %v", n, err)
		}
		delete(tr.running, n)
	}
}

func (tr *trial) killAll() {
	for _, p := range tr.running {
		p.kill()
	}
}

// nemesis injects one fault after another, each healed before the next.
func (tr *trial) nemesis(ctx context.Context, duration time.Duration, random *rand.Rand) {
	e := tr.ensemble
	pause := func(least, most time.Duration) {
		wait := least + time.Duration(random.Int64N(int64(most-least)))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	incarnation := 0
	end := now() + duration
	for now() < end && ctx.Err() == nil {
		server := random.IntN(e.Size())
		if random.IntN(2) == 0 {
			if leader, err := e.Leader(ctx); err == nil {
				server = leader
			}
		}
		victim := inProcess + random.IntN(processes)
		f := fault{Target: server}
		f.From = now()
		var errs []error
		switch random.IntN(10) {
		case 0:
			f.Name = "server killed"
			errs = append(errs, e.KillServer(server))
			pause(0, 3*time.Second)
			errs = append(errs, e.StartServer(server))
		case 1:
			f.Name = "server stopped in order"
			errs = append(errs, e.StopServer(server))
			pause(0, 3*time.Second)
			errs = append(errs, e.StartServer(server))
		case 2:
			f.Name = "server paused"
			errs = append(errs, e.PauseServer(server))
			pause(time.Second, 8*time.Second)
			errs = append(errs, e.ResumeServer(server))
		case 3:
			f.Name = "server cut off"
			errs = append(errs, e.Partition(server))
			pause(2*time.Second, 8*time.Second)
			errs = append(errs, e.Heal())
		case 4:
			f.Name = "link frozen"
			errs = append(errs, e.Freeze(server))
			pause(2*time.Second, 9*time.Second)
			errs = append(errs, e.Heal())
		case 5:
			f.Name, f.Target = "process stopped", victim
			p := tr.running[victim].cmd.Process
			errs = append(errs, p.Signal(syscall.SIGSTOP))
			pause(time.Second, 11*time.Second)
			errs = append(errs, p.Signal(syscall.SIGCONT))
			tr.exceptions.Stopped[victim] = append(tr.exceptions.Stopped[victim], span{f.From, now()})
		case 6:
			f.Name, f.Target = "process killed", victim
			tr.kill(victim)
			pause(0, 3*time.Second)
			incarnation++
			errs = append(errs, tr.start(victim, incarnation))
		case 7:
			f.Name = "leader replaced, then its clients cut"
			leader, err := e.Leader(ctx)
			f.Target = leader
			errs = append(errs, err, e.Partition(leader))
			for i := range e.Size() {
				if i != leader {
					errs = append(errs, e.RefuseConnections(i))
				}
			}
			// it serves for a while, as it looks for its followers once per tick
			pause(4*time.Second, 6*time.Second)
			errs = append(errs, e.CutConnections(leader))
			pause(sessionTimeout, sessionTimeout+2*time.Second)
			errs = append(errs, e.Heal())
		default:
			f.Name, f.Target = "session ended", random.IntN(contenders)
			tr.mu.Lock()
			session := tr.sessions[f.Target]
			tr.mu.Unlock()
			if session == 0 {
				continue // it has not held yet
			}
			errs = append(errs, e.ExpireSession(ctx, session))
			tr.exceptions.Ended[session] = append(tr.exceptions.Ended[session], span{f.From, now()})
		}
		f.To = now()
		if err := errors.Join(errs...); err != nil {
			tr.t.Errorf("%s: %v", f.Name, err)
			return
		}
		tr.faults = append(tr.faults, f)
		if err := e.WaitForQuorum(ctx); err != nil {
			tr.t.Errorf("after %s: %v", f.Name, err)
			return
		}
		pause(0, 2*time.Second)
	}
}

// draw writes a timeline of waits, holds and faults.
func (tr *trial) draw(file string, holds []hold) (err error) {
	r := timeline.New(timeline.DefaultSize)
	lasting := func(kind timeline.Kind, lane, what string, from, to time.Duration, result string, bad bool) {
		dur := timeline.Open
		if to >= from {
			dur = to - from
		}
		r.Put(timeline.Entry{At: from, Dur: dur, Kind: kind, Lane: lane, What: what, Result: result, Bad: bad})
	}
	for _, h := range holds {
		lane := fmt.Sprintf("contender %d.%d", h.Contender, h.Incarnation)
		lasting(timeline.Wait, lane, lockPath, h.Asked, h.From, "acquired", false)
		lasting(timeline.Hold, lane, lockPath, h.From, h.To, h.Loss, h.Loss != "")
	}
	for _, f := range tr.faults {
		lasting(timeline.Fault, "ensemble", fmt.Sprintf("%s %d", f.Name, f.Target), f.From, f.To, "", false)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.WriteHTML(f, fmt.Sprintf("chaos: %s, seed %d", tr.orders.Recipe, tr.orders.Seed))
}

// verdict checks the records, and prints the result.
func (tr *trial) verdict(ctx context.Context, client *framework.Client, duration time.Duration) {
	t := tr.t
	holds := slices.SortedFunc(maps.Values(tr.holds), func(a, b hold) int { return cmp.Compare(a.From, b.From) })
	defer func() {
		if t.Failed() {
			file := filepath.Join(os.TempDir(), fmt.Sprintf("chaos-%d.json", tr.orders.Seed))
			data, err := json.MarshalIndent(map[string]any{"holds": holds, "faults": tr.faults, "exceptions": tr.exceptions}, "", "\t")
			page := strings.TrimSuffix(file, ".json") + ".html"
			err = errors.Join(err, os.WriteFile(file, data, 0o600), tr.draw(page, holds))
			t.Errorf("seed %d; history in %s, timeline in %s: %v", tr.orders.Seed, file, page, err)
		}
	}()
	claims, byForce, byStop := tr.exceptions.claims(holds)
	overlaps := conflicts(claims, recipes[tr.orders.Recipe].most)
	stale, twice := outOfOrder(holds)

	losses, faults := map[string]int{}, map[string]int{}
	ofProcesses := 0
	type key struct {
		guarded, blind bool
		outcome
	}
	writes := map[key]int{}
	repeats := 0
	for _, h := range holds {
		assert.NotZero(t, h.To, "a hold without an end: %+v", h)
		if h.Loss != "" {
			losses[h.Loss]++
		}
		if h.Contender >= inProcess {
			ofProcesses++
		}
		if h.Stale {
			stale = append(stale, fmt.Errorf("a guard let a write through after its release: %+v", h))
		}
		for _, w := range h.Writes {
			if w.Outcome == sent {
				w.Outcome = unknown // who sent it was killed
			}
			writes[key{w.Guarded, w.Blind, w.Outcome}]++
			if w.Blind {
				repeats += w.Repeats
			}
		}
	}
	for _, f := range tr.faults {
		faults[f.Name]++
	}

	// What the nodes say. A server may lag, but not behind our own write. A write whose answer was
	// lost may or may not have been done.
	_, err := client.Create(ctx, "/chaos/over", nil)
	require.NoError(t, err)
	number := func(path string) int {
		data, _, err := client.Get(ctx, path)
		require.NoError(t, err)
		value, err := strconv.Atoi(string(data))
		require.NoError(t, err)
		return value
	}
	found, marked, err := client.Exists(ctx, marks)
	require.NoError(t, err)
	require.True(t, found, "a node that was created is not there; what each server has: %v", tr.onEachServer(ctx, marks))
	lost := len(twice)
	for _, c := range []struct {
		value int
		key   key
	}{
		{number(guarded), key{guarded: true}}, {int(marked.Version), key{guarded: true, blind: true}},
	} {
		c.key.outcome = done
		least := writes[c.key]
		c.key.outcome = unknown
		most := least + writes[c.key]
		if c.key.blind {
			// to write the same number again changes nothing, but a blind write adds one
			most += repeats
		}
		lost += max(0, least-c.value)
		assert.LessOrEqual(t, c.value, most, "an update too many")
	}
	lostUnguarded := max(0, writes[key{false, false, done}]-number(unguarded))
	orphans, err := tr.orphans(ctx, client)
	require.NoError(t, err)

	both := func(o outcome) int { return writes[key{true, false, o}] + writes[key{true, true, o}] }
	var table strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&table, "| %s | "+format+" |\n", append([]any{name}, args...)...)
	}
	row("", "%s, seed %d, %v", tr.orders.Recipe, tr.orders.Seed, duration)
	table.WriteString("| --- | --- |\n")
	row("holds", "%d, %d of them by processes that may be stopped and killed", len(holds), ofProcesses)
	row("faults", "%d: %s", len(tr.faults), counts(faults))
	row("holds lost", "%d: %s", sum(losses), counts(losses))
	row("failed acquires", "%d: %s", sum(tr.failed), counts(tr.failed))
	row("overlaps", "%d", len(overlaps))
	row("holds counted only until a forced expiry, until a SIGSTOP", "%d, %d", byForce, byStop)
	row("guarded writes done, unknown, refused", "%d, %d, %d", both(done), both(unknown), both(refused))
	row("stale guarded writes accepted", "%d", len(stale))
	row("lost updates", "%d", lost)
	row("orphans", "%d", len(orphans))
	row("writes without a guard, and lost updates among them (nothing is promised)", "%d, %d", writes[key{false, false, done}], lostUnguarded)
	if f := tr.follower; f != nil {
		f.stop()
		longest, healed := vacancies(claims, tr.faults)
		row("longest time without a leader: in all, and after the last fault in it was healed", "%.1f s, %.1f s", longest.Seconds(), healed.Seconds())
		row("what an observer was given: states, nobody, a lost connection; went back in time", "%d, %d, %d; %d", f.states, f.nobody, f.stale, f.backwards)
		assert.Positive(t, f.states, "the observer heard nothing")
		assert.Zero(t, f.backwards, "the observer went back in time")
	}
	if tr.orders.Recipe == "once" {
		var r recorded
		require.NoError(t, r.read(ctx, client))
		results := map[string]int{}
		for _, h := range holds {
			results[cmp.Or(string(h.Firing.Result), "failed")]++
		}
		wrong := firings(r, holds, claims)
		row("functions, by the result of their calls", "%s", counts(results))
		row("keys recorded; records, operations and keys that are wrong", "%d; %d", r.N, len(wrong))
		assert.NoError(t, errors.Join(wrong[:min(3, len(wrong))]...), "firings")
	}
	t.Logf("for README.md:\n\n%s", table.String())

	assert.NoError(t, errors.Join(overlaps[:min(3, len(overlaps))]...), "overlaps")
	assert.NoError(t, errors.Join(stale[:min(3, len(stale))]...), "stale guarded writes")
	assert.NoError(t, errors.Join(twice[:min(3, len(twice))]...), "lost updates")
	assert.Zero(t, lost, "lost updates")
	assert.Empty(t, orphans, "nodes are left behind")
}

// onEachServer says of each server whether it has a node: a real ensemble may have lost it, or one
// of its servers.
func (tr *trial) onEachServer(ctx context.Context, path string) []string {
	var said []string
	for _, server := range tr.orders.Servers {
		client, err := framework.New([]string{server})
		require.NoError(tr.t, err)
		_, stat, err := client.Exists(ctx, path)
		client.Close()
		said = append(said, fmt.Sprintf("%s: %+v, %v", server, stat, err))
	}
	return said
}

// orphans waits until no ephemeral node is left, which may take the servers some time, and returns
// the remaining ones.
func (tr *trial) orphans(ctx context.Context, client *framework.Client) (left []string, err error) {
	// real servers do not say when they have ended all sessions
	for end := now() + 30*time.Second; now() < end; time.Sleep(100 * time.Millisecond) {
		left, err = ephemerals(ctx, client, lockPath)
		if err == nil && len(left) == 0 {
			return nil, nil
		}
	}
	return left, err
}

// ephemerals lists the ephemeral nodes below a path.
func ephemerals(ctx context.Context, client *framework.Client, path string) (found []string, err error) {
	children, stat, err := client.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// containers have an owner of their own
	if stat.EphemeralOwner != 0 && stat.EphemeralOwner>>56 != -128 {
		found = append(found, path)
	}
	for _, child := range children {
		more, err := ephemerals(ctx, client, framework.Join(path, child))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// counts prints the largest first.
func counts(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(m[b]-m[a], cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", m[name], name)
	}
	return strings.Join(names, ", ")
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
