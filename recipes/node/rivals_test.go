package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/internal/testlevel"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestRivalsOnAClusterNeverBothHaveTheNode is the same on three servers, of which some lag behind, are cut off from
// the others, or end. Each replaces the others' nodes. In the worlds of package sim those who want one path wait for each other: its
// monitor counts a term of one from when the other's has ended.
func TestRivalsOnAClusterNeverBothHaveTheNode(t *testing.T) {
	for seed := range uint64(testlevel.Pick(7, 7, 20)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rivalsOnCluster(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func rivalsOnCluster(t *testing.T, random *rand.Rand) {
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
	bed := testbed.OnCluster(cluster)
	client := func(r *rival) *framework.Client {
		return bed.Client(t, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if r.away.Load() {
				return nil, errors.New("no route to host")
			}
			return cluster.DialContext(ctx, network, address)
		}))
	}
	var all []*rival
	for i := range 3 {
		r := &rival{last: fmt.Sprint(i)}
		r.client = client(r)
		r.node = keep(t, r.client, "/group/a", r.last, node.WithIfTaken(node.Replace))
		all = append(all, r)
	}
	time.Sleep(time.Minute) // virtual time
	for range 30 {
		disturbCluster(t, cluster, random, all)
		for range 100 {
			time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond) // virtual time
			require.LessOrEqual(t, having(all), 1, "two have the node")
		}
		for _, r := range all {
			r.away.Store(false)
		}
	}
	cluster.Heal()
	for _, m := range cluster.Members() {
		require.NoError(t, cluster.Lag(m, 0))
	}
	time.Sleep(2 * time.Minute) // virtual time
	require.Equal(t, 1, having(all))
	winner := all[slices.IndexFunc(all, has)]
	reader := client(&rival{})
	require.Equal(t, winner.last, data(t, reader, "/group/a"))
	for _, r := range all {
		require.NoError(t, r.node.Close())
	}
	require.Equal(t, "-", data(t, reader, "/group/a"))
}

// disturbCluster does one thing.
func disturbCluster(t *testing.T, cluster *zktest.Cluster, random *rand.Rand, all []*rival) {
	r, m := all[random.IntN(len(all))], cluster.Members()[random.IntN(3)]
	switch random.IntN(7) {
	case 0:
		require.NoError(t, cluster.Lag(m, time.Duration(random.IntN(1500))*time.Millisecond))
	case 1:
		require.NoError(t, cluster.Partition(m))
	case 2:
		cluster.Heal()
	case 3:
		m.Stop()
		time.Sleep(time.Duration(random.IntN(5_000)) * time.Millisecond) // virtual time
		require.NoError(t, m.Restart())
	case 4:
		m.CutConnections()
	case 5:
		r.away.Store(true)
		m.CutConnections()
	case 6:
		r.last = fmt.Sprint(random.IntN(1000))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = r.node.Set(ctx, []byte(r.last)) // it is written when that is possible
	}
}

// rival is one of several that keep the same path.
type rival struct {
	client *framework.Client
	node   *node.Node
	away   atomic.Bool // no connection can be made
	last   string      // what was set last
}

// TestRivalsNeverBothHaveTheNode has three clients keep one path while connections break, networks
// go away and the server comes and goes, at random. At no time do two take the node for theirs; in the end
// one has it, with the data that it set last.
func TestRivalsNeverBothHaveTheNode(t *testing.T) {
	for seed := range uint64(testlevel.Pick(10, 10, 30)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) { rivals(t, w, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func rivals(t *testing.T, w world, random *rand.Rand) {
	var all []*rival
	for i := range 3 {
		r := &rival{last: fmt.Sprint(i)}
		r.client = w.client(
			framework.WithErrorPolicy([]connstate.ErrorPolicy{connstate.Standard, connstate.Session}[i%2]),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if r.away.Load() {
					return nil, errors.New("no route to host")
				}
				return w.DialContext(ctx, network, address)
			}))
		r.node = keep(t, r.client, "/group/a", r.last, node.WithIfTaken(node.Replace)) // from the one before
		all = append(all, r)
	}
	w.settle()
	stop := w.Trace(func(zktest.Event) { assert.LessOrEqual(t, having(all), 1, "two have the node") })
	defer stop()
	for range 30 {
		disturb(t, w, random, all)
	}
	for _, r := range all {
		r.away.Store(false)
	}
	w.Thaw()
	w.settle()
	require.Equal(t, 1, having(all))
	winner := all[slices.IndexFunc(all, has)]
	w.one(winner.node, winner.last)
	for _, r := range all {
		require.NoError(t, r.node.Close())
	}
	require.Empty(t, w.nodes("/group"))
}

func has(r *rival) bool {
	there, _ := r.node.Present()
	return there
}

func having(all []*rival) (count int) {
	for _, r := range all {
		if has(r) {
			count++
		}
	}
	return count
}

// disturb does one thing, and lets some time pass.
func disturb(t *testing.T, w world, random *rand.Rand, all []*rival) {
	r := all[random.IntN(len(all))]
	switch random.IntN(5) {
	case 0:
		w.CutConnections()
	case 1:
		r.away.Store(!r.away.Load())
		w.CutConnections()
	case 2:
		r.away.Store(true)
		for _, s := range w.Sessions() {
			if s.Connected && random.IntN(2) == 0 {
				w.Freeze(s.ID)
			}
		}
	case 3:
		w.Stop()
		time.Sleep(time.Duration(random.IntN(15_000)) * time.Millisecond) // virtual time
		require.NoError(t, w.Restart())
	case 4:
		r.last = fmt.Sprint(random.IntN(1000))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = r.node.Set(ctx, []byte(r.last)) // it is written when that is possible
	}
	time.Sleep(time.Duration(random.IntN(15_000)) * time.Millisecond) // virtual time
	if random.IntN(2) == 0 {
		r.away.Store(false)
	}
}
