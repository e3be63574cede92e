package zktest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// The cost of a request must not depend on unrelated state. Each benchmark repeats one request
// beside a large number of other objects.

// inMemory returns a client of a server in memory.
func inMemory(b *testing.B, opts ...zktest.Option) *rawClient {
	s := testbed.Must(zktest.Start(append(opts, zktest.WithInMemory())...))
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return resume(b, s, nil, 40*time.Second)
}

func do(b *testing.B, c *rawClient, op int32, body buffer) {
	require.Zero(b, ask(b, c, op, body).code)
}

// BenchmarkSetInACluster is a write through a follower.
func BenchmarkSetInACluster(b *testing.B) {
	for _, size := range []int{1, 3, 5} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			cluster := testbed.Must(zktest.StartCluster(size, zktest.WithInMemory(), zktest.WithLag(0)))
			b.Cleanup(func() { require.NoError(b, cluster.Close()) })
			c := resume(b, cluster.Members()[0], nil, 40*time.Second)
			do(b, c, opCreate, create("/n", 0))
			for b.Loop() {
				do(b, c, opSetData, setBody("/n", ""))
			}
		})
	}
}

// BenchmarkSetWithATimeline is the price of recording each request.
func BenchmarkSetWithATimeline(b *testing.B) {
	for name, opts := range map[string][]zktest.Option{"off": nil, "on": {zktest.WithTimeline()}} {
		b.Run(name, func(b *testing.B) {
			c := inMemory(b, opts...)
			do(b, c, opCreate, create("/n", 0))
			for b.Loop() {
				do(b, c, opSetData, setBody("/n", ""))
			}
		})
	}
}

func BenchmarkListChildren(b *testing.B) {
	c := inMemory(b)
	do(b, c, opCreate, create("/p", 0))
	for range 5_000 {
		do(b, c, opCreate, create("/p/child-", 2))
	}
	for b.Loop() {
		do(b, c, opGetChildren, watched("/p", false))
	}
}

// TestCostDoesNotGrowWithWhatIsNotTouched compares the fastest of several tries, so that a busy
// machine does not matter. Before watches had an index the first took 100 times as long.
func TestCostDoesNotGrowWithWhatIsNotTouched(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithInMemory())
	c, other := raw(t, s, nil), raw(t, s, nil)
	mustCreate(t, c, "/n", 0)
	// A busy machine may delay one run, or twenty.
	fastest := func(f func(), enough time.Duration) time.Duration {
		best := time.Hour
		for n := 0; n < 20 || n < 1000 && best >= enough; n++ {
			began := time.Now()
			f()
			best = min(best, time.Since(began))
		}
		return best
	}
	sets := func() {
		for range 5 {
			set(t, c, "/n", "x")
		}
	}
	session := func() {
		owner := raw(t, s, nil)
		mustCreate(t, owner, "/n/owned", 1)
		ask(t, owner, opClose, nil)
	}
	setsAlone, sessionAlone := fastest(sets, time.Hour), fastest(session, time.Hour)
	mustCreate(t, c, "/many", 0)
	for i := range 20_000 {
		path := mustCreate(t, c, fmt.Sprintf("/many/%d", i), 0)
		ask(t, other, opExists, watched(path, true))
	}
	require.Less(t, fastest(sets, 10*setsAlone), 10*setsAlone)
	require.Less(t, fastest(session, 10*sessionAlone), 10*sessionAlone)
}

// TestListedChildrenAreTheCallers changes the tree after the children were listed.
func TestListedChildrenAreTheCallers(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithInMemory())
	require.NoError(t, s.Create("/p/a", nil))
	require.NoError(t, s.Create("/p/b", nil))
	list := testbed.ServerChildren(t, s, "/p")
	require.NoError(t, s.Delete("/p/a"))
	require.Equal(t, []string{"a", "b"}, list)
	list[0] = "x"
	require.Equal(t, []string{"b"}, testbed.ServerChildren(t, s, "/p"))
}
