package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/timeline"
)

const (
	lockPath = "/sim/lock"
	counter  = "/sim/counter" // is written by holders only

	credentials = "sim:secret" // of all clients, in a world with an ACL
)

// result is what became of a scenario.
type result struct {
	counts  map[string]int
	wrong   []string
	history []string
	page    []byte        // the timeline, if the history was recorded
	took    time.Duration // by the clock of the simulation
}

// world is a scenario that runs, in a bubble.
type world struct {
	scenario
	monitor *monitor
	cluster *zktest.Cluster
	clients []*user
	keepers []*keeper
	rivals  *monitor      // of the keepers of the same node
	seconds *monitor      // of the second lock of a multilock
	others  []*monitor    // of other holders than the contenders
	extra   extra         // nil: none
	deaths  *deaths       // of holders with a lock delay
	calm    atomic.Bool   // there will be no more faults
	over    chan struct{} // closed when calm is set
	quiet   atomic.Bool   // the last fault is over
	owners  atomic.Int64

	healing   sync.WaitGroup
	replacing chan struct{} // of capacity 1
}

// user is a client and its users.
type user struct {
	clientPlan
	number int
	client *framework.Client

	mu     sync.Mutex   // guards what follows
	random *rand.Rand   // for callbacks
	mutex  *mutex.Mutex // shared by all goroutines; nil: not created yet
	ended  time.Time    // when a session of it was ended by force last
}

// simulate runs a scenario in a bubble of its own.
func simulate(t *testing.T, s scenario, trace bool) (r result) {
	r.counts = make(map[string]int)
	var m *monitor
	defer func() {
		if p := recover(); p != nil {
			r.wrong = append(r.wrong, fmt.Sprintf("goroutines that do not end: %v\n%s", p, stacks()))
			r.counts["wrong: goroutines that do not end"]++
		}
		if m != nil {
			m.total(r.counts)
			r.wrong = append(m.wrong, r.wrong...)
			r.history, r.page = m.history, m.page
		}
	}()
	over, began := make(chan struct{}), processor()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(over)
	watch.Go(func() {
		for processor()-began < *worldLimit {
			select {
			case <-over:
				return
			case <-time.After(time.Second):
			}
		}
		giveUp(s, m)
	})
	synctest.Test(t, func(*testing.T) {
		began := time.Now()
		m = newMonitor(recipes[s.Recipe].most, trace)
		w := &world{scenario: s, monitor: m, over: make(chan struct{}), replacing: make(chan struct{}, 1)}
		w.seconds = w.another(1)
		w.deaths = w.newDeaths()
		if err := w.run(); err != nil {
			m.fail("simulation", "%v", err)
		}
		r.took = time.Since(began)
	})
	return r
}

// giveUp ends the program: a world in which time stands still, since some goroutine never rests,
// cannot be ended.
func giveUp(s scenario, m *monitor) {
	m.mu.Lock()
	history := m.history[max(0, len(m.history)-300):]
	fmt.Fprintf(os.Stderr, "seed %d (%s): no end after %v of processor time\n%s%s\n%s\n", s.Seed, s.Recipe, *worldLimit, describeScenario(s), strings.Join(history, "\n"), stacks())
	os.Exit(1)
}

// processor returns the processor time that the program has used. On a busy machine a sound world
// may take many times as long by the clock.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// run returns when everything has ended. The error says why it could not begin.
func (w *world) run() (err error) {
	opts := []zktest.Option{
		zktest.WithInMemory(), zktest.WithSeed(w.Seed), zktest.WithMemberLatency(w.MemberLatency), zktest.WithLag(w.Lag),
		zktest.WithSyncTimeout(w.SyncTimeout), zktest.WithProperties(map[string]string{"znode.container.checkIntervalMs": fmt.Sprint(w.ReapEvery.Milliseconds())}),
	}
	if w.ClickHouse != "" {
		opts = append(opts, zktest.LikeKeeper(w.ClickHouse))
	} else {
		// their events differ
		opts = append(opts, zktest.WithVersion([]string{"3.8.0", "3.9.6"}[w.Seed%2]))
	}
	if w.Latency > 0 {
		opts = append(opts, zktest.WithLatency(w.Latency))
	}
	if w.monitor.trace {
		opts = append(opts, zktest.WithTimeline())
	}
	if w.cluster, err = zktest.StartCluster(w.Members, opts...); err != nil {
		return err
	}
	defer func() {
		if w.monitor.trace {
			var page bytes.Buffer
			err = errors.Join(err, w.cluster.Timeline().WriteHTML(&page))
			w.monitor.page = page.Bytes()
		}
		err = errors.Join(err, w.cluster.Close())
		// callbacks return; a remaining goroutine never ends, which fails the bubble
		time.Sleep(20 * time.Second)
	}()
	if err := w.cluster.Members()[0].Create(counter, []byte("0")); err != nil {
		return err
	}
	w.watchServers()
	defer w.closeClients()
	var wg, hiding sync.WaitGroup
	for i, plan := range w.Clients {
		u, err := w.newUser(i, plan)
		if err != nil {
			return err
		}
		for j := range plan.Goroutines {
			c := &contender{actor: &actor{
				world: w, user: u, name: fmt.Sprintf("%s %d.%d", plan.Kind, i, j),
				random: rand.New(rand.NewPCG(w.Seed, uint64(i+1)<<16+uint64(j))),
			}}
			if plan.Kind == hidden {
				hiding.Go(c.contend)
			} else {
				wg.Go(c.contend)
			}
		}
	}
	watchers, err := w.follow(&wg)
	defer func() {
		for _, x := range watchers {
			x.close()
		}
	}()
	if err != nil {
		return err
	}
	w.makeFaults()
	w.quiet.Store(true)
	// clients reconnect, dead sessions expire: the longest last 30 s, and the rest of a tick
	time.Sleep(40 * time.Second)
	if !within(30*time.Minute, hiding.Wait) {
		w.monitor.fail("stuck", "contenders do not end:\n%s", stacks())
		return nil
	}
	if w.Replacing {
		// a client that knows only the first servers finds none any more
		w.cluster.Members()[0].Stop()
		time.Sleep(30 * time.Second) // virtual time
	}
	w.calm.Store(true)
	close(w.over)
	if !within(30*time.Minute, wg.Wait) {
		w.monitor.fail("stuck", "contenders do not end:\n%s", stacks())
		return nil
	}
	w.conclude(watchers)
	return nil
}

// follow starts the keepers, the caches, and the users of other recipes.
func (w *world) follow(wg *sync.WaitGroup) (watchers []*watcher, err error) {
	w.rivals = newMonitor(1, false)
	w.rivals.base = w.monitor
	for i, plan := range w.Keepers {
		k := w.newKeeper(i, plan)
		w.keepers = append(w.keepers, k)
		wg.Go(k.run)
	}
	w.startWriters(wg)
	if w.Recipe == "delay" {
		wg.Go(w.deaths.watch)
	}
	for i, plan := range w.Watchers {
		x, err := w.newWatcher(i, plan)
		if err != nil {
			return watchers, err
		}
		watchers = append(watchers, x)
		wg.Go(x.watch)
	}
	if w.Extra != "" {
		w.extra = extras[w.Extra](w)
		return watchers, w.extra.start(wg)
	}
	return watchers, nil
}

// within waits for f. It reports false if that takes longer than d.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() { // ends with f
		f()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// stacks shows all goroutines in bubbles but their own.
func stacks() string {
	buf := make([]byte, 1<<20)
	var b strings.Builder
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "bubble") && !strings.Contains(g, "synctest.Run") {
			b.WriteString(g + "\n\n")
		}
	}
	return b.String()
}

func (w *world) newUser(i int, plan clientPlan) (*user, error) {
	u := &user{clientPlan: plan, number: i, random: rand.New(rand.NewPCG(w.Seed, uint64(i+1)<<32))}
	policy := connstate.SuspendedEndsHold
	if plan.Trusting {
		policy = connstate.LostEndsHold
	}
	opts := []framework.Option{
		framework.WithDialer(w.cluster.DialContext),
		framework.WithSessionTimeout(plan.Session),
		framework.WithConnectionTimeout(plan.Connection),
		framework.WithErrorPolicy(policy),
		framework.WithRetryPolicy(retry.BoundedExponentialBackoff(20*time.Millisecond, time.Second, plan.Retries)),
		w.delays(u),
		w.lockDelays(u),
		timeline.Client(w.cluster.Timeline(), fmt.Sprintf("%s %d", plan.Kind, i)),
	}
	if plan.Kind == hidden {
		opts = append(opts, framework.WithAuth("digest", []byte(fmt.Sprintf("user%d:secret", i))))
	}
	if w.Replacing {
		opts = append(opts, framework.WithEnsembleTracking())
	}
	if w.ACL != "" {
		acl := []zk.ACL{{Perms: zk.PermAll, Scheme: w.ACL}}
		if w.ACL == "digest" {
			acl[0].ID = zktest.Digest(credentials)
		}
		opts = append(opts, framework.WithAuth("digest", []byte(credentials)),
			framework.WithACLProvider(func(string) []zk.ACL { return acl }))
	}
	var err error
	u.client, err = framework.New(w.cluster.Servers(), opts...)
	if err == nil {
		w.clients = append(w.clients, u)
	}
	return u, err
}

func (w *world) closeClients() {
	for _, u := range w.clients {
		_ = u.client.Close() // its error is that sessions could not be ended, which is fine
	}
}

// delays is an observer that delays the goroutine that calls it, now and then: between an answer
// and what acts on it anything may happen.
func (w *world) delays(u *user) framework.Option {
	return framework.WithObserver(framework.Observer{
		Operation: func(ctx context.Context, e framework.OperationEvent) {
			if id, ok := ctx.Value(sessionKey{}).(*int64); ok && e.Op == "create" {
				*id = u.session()
			}
			if e.Op != "sync" && ctx.Value(promptKey{}) == nil {
				w.delay(u, e.Op)
			}
		},
	})
}

// lockDelays is delays of the events of locks.
func (w *world) lockDelays(u *user) framework.Option {
	return lock.WithObserver(lock.Observer{
		Acquiring: func(ctx context.Context, _ lock.AcquiringEvent) context.Context {
			w.delay(u, "acquiring")
			return ctx
		},
		Joined: func(context.Context, lock.JoinedEvent) { w.delay(u, "joined") },
		Acquired: func(ctx context.Context, e lock.AcquiredEvent) context.Context {
			if node, ok := ctx.Value(nodeKey{}).(*string); ok {
				*node = e.Node
			}
			w.delay(u, "acquired")
			return ctx
		},
		NotAcquired: func(context.Context, lock.NotAcquiredEvent) { w.delay(u, "not acquired") },
		// Not Ended: it is called inside a sync.Once, and time stands still in a bubble while a
		// goroutine waits for one.
	})
}

func (w *world) delay(u *user, what string) {
	u.mu.Lock()
	var d time.Duration
	if u.DelayOne > 0 && !w.calm.Load() && u.random.IntN(u.DelayOne) == 0 {
		d = upTo(u.random, u.DelayMost)
	}
	u.mu.Unlock()
	if d > 0 {
		w.monitor.count("delays")
		w.monitor.note("client %d: %s is delayed by %v", u.number, what, d)
		time.Sleep(d) // virtual time
	}
}

// nodeKey is for a context that takes the path of a lock's node.
type nodeKey struct{}

// sessionKey is for a context that takes the session in which a create has ended.
type sessionKey struct{}

func withSession(ctx context.Context) (context.Context, *int64) {
	id := new(int64)
	return context.WithValue(ctx, sessionKey{}, id), id
}

// session returns the session of a connected client, or 0.
func (u *user) session() int64 {
	// With a connection it returns at once.
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), promptKey{}, true), time.Millisecond)
	defer cancel()
	s, err := u.client.Session(ctx)
	if err != nil {
		return 0
	}
	return s.ID()
}

// end notes that a session of the client is about to be ended by force.
func (u *user) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = time.Now()
}

// wasEnded reports whether a session of the client was ended by force not longer than d ago.
func (u *user) wasEnded(d time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.ended.IsZero() && time.Since(u.ended) < d
}

// promptKey is for a context whose callbacks are not delayed.
type promptKey struct{}

// watchServers has the history show what clients ask for.
func (w *world) watchServers() {
	for i, member := range w.cluster.Members() {
		w.watchServer(i, member)
	}
}

func (w *world) watchServer(i int, member *zktest.Server) {
	if w.monitor.trace {
		member.Trace(func(e zktest.Event) {
			if e.Request.Op != "sync" {
				w.monitor.note("  member %d: %#x %v", i, e.Session, e)
			}
		})
	}
}

// leader waits for one.
func (w *world) leader() *zktest.Server {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leader, err := w.cluster.WaitLeader(ctx)
	if err != nil {
		w.monitor.fail("simulation", "no leader: %v", err)
		return w.cluster.Members()[0]
	}
	return leader
}

// guardedWrite changes the counter if the guard lets it. It reports the value and whether it was
// confirmed.
func guardedWrite(ctx context.Context, client *framework.Client, guard *zk.CheckVersionRequest, blind bool) (int, error) {
	value := 0
	if !blind {
		data, _, err := client.Get(ctx, counter)
		if err != nil {
			return 0, err
		}
		if value, err = strconv.Atoi(string(data)); err != nil {
			return 0, err
		}
		value++
	}
	_, err := client.Multi(ctx, guard, &zk.SetDataRequest{Path: counter, Data: []byte(strconv.Itoa(value)), Version: -1})
	return value, err
}
