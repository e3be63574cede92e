package zktest_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

var seeds = flag.Int("zktest.seeds", testlevel.Pick(4, 4, 10), "how many runs of random faults")

// TestClusterKeepsWhatItHasAnswered has clients write while members are isolated, paused, stopped
// and delayed at random. All answered writes must exist in the end, on all members, and in order.
func TestClusterKeepsWhatItHasAnswered(t *testing.T) {
	for seed := range *seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
				synctest.Test(t, func(t *testing.T) { disturb(t, uint64(seed), latency) })
			}
		})
	}
}

func disturb(t *testing.T, seed uint64, latency time.Duration) {
	random := rand.New(rand.NewPCG(seed, 1))
	size := 3 + 2*random.IntN(2)
	c := zktest.NewCluster(t, size, zktest.WithInMemory(), zktest.WithSeed(seed), zktest.WithMemberLatency(latency), zktest.WithLag(100*time.Millisecond))
	maker := raw(t, leader(t, c), nil)
	mustCreate(t, maker, "/q", 0)
	require.NoError(t, maker.conn.Close())

	stop := make(chan struct{})
	writers := make(chan *writer)
	for i := range 4 {
		w := &writer{cluster: c, random: rand.New(rand.NewPCG(seed, uint64(i+2))), name: fmt.Sprintf("w%d", i)}
		go func() {
			w.run(t, stop)
			writers <- w
		}()
	}
	for range 60 {
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // virtual time
		fault(t, c, random)
	}
	c.Heal()
	for _, m := range c.Members() {
		m.Resume()
		require.NoError(t, m.Restart())
	}
	next := elected(t, c)
	time.Sleep(time.Minute) // all join, and sessions end
	close(stop)
	var answered []string
	for range 4 {
		answered = append(answered, (<-writers).answered...)
	}
	require.Greater(t, len(answered), 100)
	time.Sleep(time.Minute) // virtual time
	for _, path := range answered {
		require.True(t, next.Exists(path), "%s was answered", path)
	}
	for _, m := range c.Members() {
		require.Equal(t, next.Tree(), m.Tree())
		require.NotContains(t, m.Tree(), "ephemeral", "all sessions are over")
		require.Empty(t, m.Sessions())
	}
}

// fault does something to a cluster, or undoes it.
func fault(t *testing.T, c *zktest.Cluster, random *rand.Rand) {
	members := c.Members()
	one, other := members[random.IntN(len(members))], members[random.IntN(len(members))]
	switch random.IntN(10) {
	case 0:
		one.Pause()
	case 1, 2:
		one.Resume()
	case 3:
		one.Stop()
	case 4, 5:
		require.NoError(t, one.Restart())
	case 6:
		require.NoError(t, c.Partition(one))
	case 7:
		require.NoError(t, c.Partition(one, other))
	case 8:
		c.Heal()
	case 9:
		require.NoError(t, c.Lag(one, time.Duration(random.IntN(3000))*time.Millisecond))
	}
}

// writer creates nodes, one after the other, on whatever member takes it.
type writer struct {
	cluster  *zktest.Cluster
	random   *rand.Rand
	name     string
	client   *rawClient
	zxid     int64
	answered []string
}

func (w *writer) run(t *testing.T, stop <-chan struct{}) {
	defer func() {
		if w.client != nil {
			w.client.conn.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(w.random.IntN(200)) * time.Millisecond):
		}
		if w.client == nil && !w.connect() {
			continue
		}
		flags := int32(2 + w.random.IntN(2))
		r, err := w.client.call(opCreate, create("/q/"+w.name+"-", flags))
		if err != nil {
			w.client.conn.Close()
			w.client = nil
			continue
		}
		if r.code != 0 || r.zxid <= w.zxid {
			t.Errorf("code %d, zxid %x after %x", r.code, r.zxid, w.zxid)
		}
		w.zxid = r.zxid
		if flags == 2 {
			w.answered = append(w.answered, (&cursor{b: r.body}).text())
		}
	}
}

func (w *writer) connect() bool {
	servers := w.cluster.Servers()
	conn, err := w.cluster.DialContext(context.Background(), "", servers[w.random.IntN(len(servers))])
	if err != nil {
		return false
	}
	if w.client, err = dialRaw(conn, nil, 10*time.Second); err != nil {
		conn.Close()
		w.client = nil
		return false
	}
	return true
}
