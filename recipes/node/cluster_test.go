package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestRivalsOnAClusterNeverBothHaveTheNode is the same on three servers, of which some lag behind, are cut off from
// the others, or end.
func TestRivalsOnAClusterNeverBothHaveTheNode(t *testing.T) {
	for seed := range uint64(20) {
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
		r.node = keep(t, r.client, "/group/a", r.last, node.IfTaken(node.Replace))
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
