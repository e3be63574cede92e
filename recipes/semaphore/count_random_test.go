package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/zktest"
)

const (
	longestHold   = time.Second
	untilNotified = 500 * time.Millisecond // by then the hold of one that was cut off has ended
)

// TestASharedCountAtRandom has clients of a cluster acquire leases while the count changes, servers
// lag, requests are late, connections are lost and sessions expire, each for less than half a
// second. So once the holders from before a change have released, the holders never exceed the
// count. Worlds of package sim with a pool have longer faults. A request from before a change may
// then be granted by the old count, so they cannot check that a lower count is observed.
func TestASharedCountAtRandom(t *testing.T) {
	for seed := range uint64(testlevel.Pick(5, 2, 100)) {
		testbed.RunVirtual(t, fmt.Sprint(seed), func(t *testing.T) {
			newSharedWorld(t, seed).run(t)
		})
	}
}

// sharedWorld is a cluster, and users of one semaphore on it.
type sharedWorld struct {
	rand     *rand.Rand
	bed      *testbed.Bed
	cluster  *zktest.Cluster
	sessions []int64

	mu    sync.Mutex // guards what follows
	live  map[*lock.Hold]bool
	count int       // the largest that may be in force
	since time.Time // of count
	last  time.Time // of the last grant
}

func newSharedWorld(t *testing.T, seed uint64) *sharedWorld {
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
	testbed.Leader(t, cluster)
	return &sharedWorld{
		rand: rand.New(rand.NewPCG(seed, 0)), bed: testbed.OnCluster(cluster), cluster: cluster,
		live: make(map[*lock.Hold]bool), count: 3, since: time.Now(), last: time.Now(),
	}
}

func (w *sharedWorld) client(t *testing.T, opts ...framework.Option) *framework.Client {
	return w.bed.Client(t, append(opts, framework.WithDialer(w.cluster.DialContext))...)
}

func (w *sharedWorld) run(t *testing.T) {
	_, setter := sharedOn(t, w.client(t), "/pool", "/max", int32(w.count))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var users sync.WaitGroup
	for range 4 {
		s := w.semaphore(t)
		for range 3 {
			random := rand.New(rand.NewPCG(w.rand.Uint64(), 0))
			users.Go(func() { w.use(ctx, t, s, random) })
		}
	}
	for range 25 {
		w.set(t, setter, 0)
		undo := w.disturb(t)
		time.Sleep(w.between(500, 4500)) // virtual time: the users go on
		for _, f := range undo {
			f()
		}
	}
	testbed.Eventually(t, func() bool { return w.set(t, setter, 1) }, "there are leases")
	time.Sleep(20 * time.Second) // virtual time, in which all is well again
	w.mu.Lock()
	assert.Less(t, time.Since(w.last), 15*time.Second, "nobody gets a lease any more")
	w.mu.Unlock()
	stop()
	users.Wait()
	time.Sleep(2 * time.Second) // virtual time: given-up nodes are deleted in the background
	for _, path := range []string{"/pool/leases", "/pool/locks"} {
		require.Empty(t, testbed.Must(w.cluster.Members()[0].Children(path)), path)
	}
}

// semaphore is one of a new client.
func (w *sharedWorld) semaphore(t *testing.T) *semaphore.Semaphore {
	policies := []connstate.ErrorPolicy{connstate.SuspendedEndsHold, connstate.LostEndsHold}
	client := w.client(t, framework.WithErrorPolicy(policies[w.rand.IntN(len(policies))]))
	w.sessions = append(w.sessions, testbed.Session(t, client).ID())
	return testbed.Must(semaphore.NewShared(client, "/pool", "/max"))
}

// use takes one or two leases again and again.
func (w *sharedWorld) use(ctx context.Context, t *testing.T, s *semaphore.Semaphore, random *rand.Rand) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, time.Duration(10+random.IntN(6000))*time.Millisecond)
		take := s.AcquireN
		if random.IntN(3) == 0 {
			take = s.TryAcquireN
		}
		group, err := take(limited, 1+random.IntN(2))
		cancel()
		if err != nil {
			// virtual time between two tries
			time.Sleep(time.Duration(1+random.IntN(50)) * time.Millisecond)
			continue
		}
		w.granted(t, group)
		time.Sleep(time.Duration(random.Int64N(int64(longestHold)))) // virtual time: the hold
		w.mu.Lock()
		for _, h := range group.Holds() {
			delete(w.live, h)
		}
		w.mu.Unlock()
		_ = group.Release() // it may have been lost
	}
}

// granted notes a group, and counts.
func (w *sharedWorld) granted(t *testing.T, group *lock.Group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	ours := true
	for _, h := range group.Holds() {
		w.live[h] = true
		ours = ours && h.Err() == nil
	}
	holders := 0
	for h := range w.live {
		if h.Err() == nil {
			holders++
		}
	}
	if ours && time.Since(w.since) > longestHold+untilNotified {
		assert.LessOrEqual(t, holders, w.count, "%v after the count was set", time.Since(w.since))
	}
}

// set changes the count to least or more, and reports whether it has. Until Set has returned, the
// larger number may be in force, and after an error either.
func (w *sharedWorld) set(t *testing.T, setter *shared.Value[int32], least int) bool {
	n := least + w.rand.IntN(5-least)
	w.mu.Lock()
	w.count, w.since = max(w.count, n), time.Now()
	w.mu.Unlock()
	if setter.Set(t.Context(), int32(n)) != nil {
		return false
	}
	w.mu.Lock()
	w.count, w.since = n, time.Now()
	w.mu.Unlock()
	return true
}

// disturb lets servers lag, delays answers, and may cut, expire or hold up something.
func (w *sharedWorld) disturb(t *testing.T) (undo []func()) {
	members := w.cluster.Members()
	for _, m := range members {
		require.NoError(t, w.cluster.Lag(m, w.between(0, 300)*time.Duration(w.rand.IntN(2))))
	}
	server := members[w.rand.IntN(len(members))]
	ops := []string{"getData", "delete", "create", "create2", "getChildren2", "multi"}
	for range w.rand.IntN(4) {
		undo = append(undo, server.Delay(w.between(0, 30), zktest.OnOp(ops[w.rand.IntN(len(ops))]), zktest.OnSession(w.session())))
	}
	switch w.rand.IntN(8) {
	case 0:
		server.CutConnections()
	case 1:
		_ = w.cluster.ExpireSession(w.session()) // it may be over
	case 2:
		gate := server.BlockReplies(zktest.OnOp("getData"))
		time.AfterFunc(w.between(0, 400), gate.Open)
	}
	return undo
}

func (w *sharedWorld) session() int64 { return w.sessions[w.rand.IntN(len(w.sessions))] }

// between is a random time of so many milliseconds.
func (w *sharedWorld) between(from, to int) time.Duration {
	return time.Duration(from+w.rand.IntN(to-from)) * time.Millisecond
}
