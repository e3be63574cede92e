package discovery_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// ten is a Watch of ten instances, "0" to "9".
func ten(t *testing.T, d *discovery.Discovery[string]) (*discovery.Watch[string], []*discovery.Registration[string]) {
	t.Helper()
	var all []*discovery.Registration[string]
	for n := range 10 {
		all = append(all, register(t, d, at("orders", fmt.Sprint(n))))
	}
	return watch(t, d, "orders"), all
}

func pick(t *testing.T, w *discovery.Watch[string], strategy discovery.Strategy[string]) string {
	t.Helper()
	i, err := w.Pick(strategy)
	require.NoError(t, err)
	return i.ID
}

// CUR-DSC-11
func TestStrategies(t *testing.T) {
	w, all := ten(t, newDiscovery[string](t, newClient(t, zktest.NewServer(t))))
	for n := range 25 {
		require.Equal(t, fmt.Sprint(n%10), pick(t, w, discovery.RoundRobin))
	}
	seen := map[string]int{}
	for range 10000 {
		seen[pick(t, w, discovery.Random)]++
	}
	for n := range 10 {
		assert.InDelta(t, 1000, seen[fmt.Sprint(n)], 300)
	}
	load := func(i *discovery.Instance[string]) float64 {
		if i.ID == "3" || i.ID == "7" {
			return 1
		}
		return 2
	}
	seen = map[string]int{}
	for range 100 {
		seen[pick(t, w, discovery.LeastLoaded(load))]++
	}
	require.Len(t, seen, 2)
	require.Positive(t, min(seen["3"], seen["7"]))

	sticky := discovery.Sticky[string]()
	stays := pick(t, w, sticky)
	for range 100 {
		require.Equal(t, stays, pick(t, w, sticky))
	}
	for _, r := range all {
		if r.Instance().ID == stays {
			require.NoError(t, r.Close())
		}
	}
	shows(t, w, func(list []discovery.Instance[string]) bool { return len(list) == 9 })
	next := pick(t, w, sticky)
	require.NotEqual(t, stays, next)
	require.Equal(t, next, pick(t, w, sticky))
}

func TestRoundRobinIsEvenAmongGoroutines(t *testing.T) {
	w, _ := ten(t, newDiscovery[string](t, newClient(t, zktest.NewServer(t))))
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				i, err := w.Pick(discovery.RoundRobin)
				assert.NoError(t, err)
				mu.Lock()
				seen[i.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for n := range 10 {
		require.Equal(t, 100, seen[fmt.Sprint(n)])
	}
}

func TestABadStrategyIsAnError(t *testing.T) {
	w, _ := ten(t, newDiscovery[string](t, newClient(t, zktest.NewServer(t))))
	for _, s := range []discovery.Strategy[string]{
		nil,
		func([]*discovery.Instance[string]) int { return -1 },
		func(among []*discovery.Instance[string]) int { return len(among) },
	} {
		require.ErrorIs(t, testbed.Err(w.Pick(s)), framework.ErrBadArgument)
	}
}

// CUR-DSC-10
func TestADisabledInstanceIsNotPicked(t *testing.T) {
	ctx := testbed.Context(t)
	d := newDiscovery[string](t, newClient(t, zktest.NewServer(t)), discovery.WithEnabledField())
	i := at("orders", "1")
	i.Disabled = true
	r := register(t, d, i)
	w := watch(t, d, "orders")
	require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin)), discovery.ErrNoInstance)
	require.Len(t, w.Instances(), 1)
	i.Disabled = false
	require.NoError(t, r.Update(ctx, i))
	shows(t, w, func(list []discovery.Instance[string]) bool { return !list[0].Disabled })
	require.Equal(t, "1", pick(t, w, discovery.RoundRobin))
}

// CUR-DSC-12
func TestAnInstanceThatFailsIsLeftOutForAWhile(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, world *testbed.World) {
		d := newDiscovery[string](t, world.Client())
		one := register(t, d, at("orders", "1"))
		two := register(t, d, at("orders", "2"))
		w := watch(t, d, "orders")
		offered := func() string {
			return pick(t, w, discovery.RoundRobin) + pick(t, w, discovery.RoundRobin)
		}
		failing := w.Instances()[0]
		w.ReportError(failing)
		require.Equal(t, "12", offered())
		time.Sleep(20 * time.Second) // virtual time: part of the 30 s in which errors count
		w.ReportError(failing)
		require.Equal(t, "22", offered())
		require.Len(t, w.Instances(), 2)
		time.Sleep(9 * time.Second) // virtual time: just before the 30 s are over
		require.Equal(t, "22", offered())
		time.Sleep(time.Second) // virtual time: 30 s since the first error
		require.Equal(t, "12", offered())
		w.ReportError(failing)
		require.Equal(t, "12", offered(), "the count begins again")
		w.ReportError(failing)
		require.Equal(t, "22", offered())

		require.NoError(t, one.Close()) // a new node is another instance
		one = register(t, d, at("orders", "1"))
		synctest.Wait() // the watch has the new node
		require.Equal(t, "12", offered())
		for _, i := range w.Instances() {
			w.ReportError(i)
			w.ReportError(i)
		}
		require.ErrorIs(t, testbed.Err(w.Pick(discovery.RoundRobin)), discovery.ErrNoInstance)
		w.ReportError(discovery.Instance[string]{}) // has no effect
		require.NoError(t, one.Close())
		require.NoError(t, two.Close())
	})
}

// A closed Watch has an old list.
func TestPick_OfAClosedWatch(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	d := newDiscovery[string](t, client)
	register(t, d, at("orders", "1"))
	w := watch(t, d, "orders")
	other := watch(t, newDiscovery[string](t, newClient(t, server)), "orders")
	require.Equal(t, "1", pick(t, w, discovery.RoundRobin))
	require.NoError(t, w.Close())
	_, err := w.Pick(discovery.RoundRobin)
	require.ErrorIs(t, err, w.Err())
	testbed.OneOp(t, err, "pick", "/services/orders")
	require.Equal(t, "1", pick(t, other, discovery.RoundRobin))
	again := watch(t, d, "orders")
	require.NoError(t, client.Close())
	testbed.Eventually(t, func() bool { return again.Err() != nil }, "word of the client's end")
	require.ErrorIs(t, testbed.Err(again.Pick(discovery.RoundRobin)), framework.ErrClosed)
}
