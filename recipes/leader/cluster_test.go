package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// referee checks an election from the inside.
type referee struct {
	t *testing.T

	clients map[string]*framework.Client // by id

	mu      sync.Mutex // guards what follows
	newest  *leader.Term
	led     map[string]int // terms of each candidate
	changes int
}

// begins is called by each leader at the beginning of its term.
func (r *referee) begins(term *leader.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest != nil {
		assert.Error(r.t, r.newest.Err(), "%s leads, and %s does already", r.newest.ID(), term.ID())
	}
	r.newest = term
	r.led[term.ID()]++
	r.changes++
}

// work leads for a while, now and then for a long one.
func (r *referee) work(random *rand.Rand) func(context.Context, *leader.Term) error {
	return func(ctx context.Context, term *leader.Term) error {
		r.begins(term)
		length := time.Duration(random.IntN(4000)) * time.Millisecond
		if random.IntN(3) == 0 {
			length = 20 * time.Second // through a fault or two
		}
		select {
		case <-ctx.Done():
		case <-time.After(length):
		}
		return nil
	}
}

// observe looks on until ctx is done, and returns how often it was told of a leader.
func (r *referee) observe(ctx context.Context, e *leader.Election) (told int) {
	last := int64(0)
	for state, err := range e.Observe(ctx) {
		if err != nil {
			assert.ErrorIs(r.t, err, context.Canceled)
		} else if state.Elected {
			assert.GreaterOrEqual(r.t, state.Leader.Token, last, "the observer went back")
			last = state.Leader.Token
			told++
		}
	}
	return told
}

// leads reports whether somebody leads now.
func (r *referee) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest != nil && r.newest.Err() == nil
}

// TestElectionOnAClusterThatFails has candidates lead in turns on three servers that fail in many ways, among them the
// loss of the servers' own leader: never are there two leaders, everybody leads, and an observer never goes back.
func TestElectionOnAClusterThatFails(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { failingCluster(t, seed) })
		})
	}
}

func failingCluster(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithSeed(seed), zktest.WithLag(100*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	r := &referee{t: t, led: make(map[string]int), clients: make(map[string]*framework.Client)}
	join := func(id string, policy connstate.ErrorPolicy) *leader.Election {
		client, err := framework.New(cluster.Servers(),
			framework.WithDialer(cluster.DialContext),
			framework.WithSessionTimeout(6*time.Second),
			framework.WithErrorPolicy(policy),
			framework.WithRetryPolicy(retry.NTimes(3, 50*time.Millisecond)))
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		r.clients[id] = client
		return electionOn(t, client, "/election", leader.WithID(id))
	}
	const candidates = 5
	for i := range candidates {
		e := join(fmt.Sprint(i), []connstate.ErrorPolicy{connstate.Standard, connstate.Session}[i%2])
		stay := rand.New(rand.NewPCG(seed, uint64(i)+2))
		wg.Go(func() {
			err := e.Run(ctx, r.work(stay))
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	observed := 0
	watcher := join("observer", connstate.Session)
	wg.Go(func() { observed = r.observe(ctx, watcher) })
	longest := time.Duration(0)
	for range 25 {
		heal := r.breakSomething(cluster, random)
		time.Sleep(time.Duration(random.IntN(12000)) * time.Millisecond) // virtual time
		heal()
		healed := time.Now()
		for !r.leads() {
			time.Sleep(10 * time.Millisecond) // virtual time
			require.Less(t, time.Since(healed), time.Minute, "nobody leads")
		}
		longest = max(longest, time.Since(healed))
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // virtual time
	}
	time.Sleep(time.Minute) // peace
	cancel()
	wg.Wait()
	require.Len(t, r.led, candidates, "everybody leads: %v", r.led)
	require.Positive(t, observed)
	time.Sleep(time.Second) // the slowest follower
	for _, member := range cluster.Members() {
		names, err := member.Children("/election")
		if !errors.Is(err, zktest.ErrNoNode) { // the servers delete it when it is empty
			require.NoError(t, err)
			require.Empty(t, names)
		}
	}
	t.Logf("%d terms, %d seen; without a leader after healing for %v at most", r.changes, observed, longest)
}

// breakSomething makes servers or the way to them fail, and returns what ends that.
func (r *referee) breakSomething(cluster *zktest.Cluster, random *rand.Rand) (heal func()) {
	members := cluster.Members()
	one := members[random.IntN(len(members))]
	switch random.IntN(8) {
	case 0: // the servers' leader
		lost, err := cluster.StopLeader()
		if err != nil {
			return func() {}
		}
		return func() { require.NoError(r.t, lost.Restart()) }
	case 1:
		one.Stop()
		return func() { require.NoError(r.t, one.Restart()) }
	case 2:
		require.NoError(r.t, cluster.Partition(one))
		return cluster.Heal
	case 3:
		one.Pause()
		return one.Resume
	case 4:
		for _, member := range members {
			member.CutConnections()
		}
		return func() {}
	case 5: // the observer, which comes back to servers of which one is behind
		require.NoError(r.t, cluster.Lag(one, 2*time.Second))
		thaw := freeze(members, r.session("observer"))
		return func() {
			thaw()
			time.AfterFunc(time.Second, func() { _ = cluster.Lag(one, 50*time.Millisecond) })
		}
	default: // whoever leads
		return freeze(members, r.session(""))
	}
}

// freeze cuts one session off from all servers.
func freeze(members []*zktest.Server, session int64) (thaw func()) {
	for _, member := range members {
		member.Freeze(session)
	}
	return func() {
		for _, member := range members {
			member.Thaw(session)
		}
	}
}

// session is that of a candidate, or of the newest leader.
func (r *referee) session(id string) int64 {
	r.mu.Lock()
	if id == "" && r.newest != nil {
		id = r.newest.ID()
	}
	r.mu.Unlock()
	client := r.clients[id]
	if client == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
	defer cancel()
	session, err := client.Session(ctx)
	if err != nil {
		return 0 // it has none now
	}
	return session.ID()
}
