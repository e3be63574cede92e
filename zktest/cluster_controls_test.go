package zktest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// The controls of a cluster and its members.

func TestContainersOfAClusterAreReaped(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		a := raw(t, follower(t, c), nil)
		ask(t, a, opCreateContainer, create("/c", 4))
		mustCreate(t, a, "/c/x", 0)
		ask(t, a, opDelete, deletion("/c/x"))
		c.Members()[0].ReapContainers()
		time.Sleep(time.Second)
		for i, m := range c.Members() {
			require.False(t, m.Exists("/c"), fmt.Sprint(i))
		}
	})
}

func TestMembersSayWhatTheyAre(t *testing.T) {
	c := zktest.NewCluster(t, 3)
	modes := map[string]int{}
	for _, m := range c.Members() {
		_, mode, found := strings.Cut(word(t, m, "srvr"), "Mode: ")
		require.True(t, found)
		mode, _, _ = strings.Cut(mode, "\n")
		modes[mode]++
	}
	require.Equal(t, map[string]int{"leader": 1, "follower": 2}, modes)
}

func TestNodesOfATestAreMadeInAllMembers(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		f := follower(t, c)
		require.NoError(t, c.Lag(f, time.Second))
		data := []byte("data")
		require.NoError(t, f.Create("/q/x", data))
		require.Equal(t, "/q \"\"\n/q/x \"data\"\n", f.Tree(), "when it returns")
		clear(data) // it is the caller's
		require.ErrorIs(t, f.Create("/q/x", nil), zktest.ErrNodeExists)
		require.NoError(t, f.SetSequence("/q", 41))
		for i, m := range c.Members() {
			require.Equal(t, fmt.Sprintf("/q/n-%010d", 41+i), mustCreate(t, raw(t, m, nil), "/q/n-", 2))
		}
		time.Sleep(2 * time.Second)
		for _, m := range c.Members() {
			require.Equal(t, f.Tree(), m.Tree())
		}
		require.ErrorContains(t, f.Load([]zktest.Node{{Path: "/ok"}, {Path: "/bad/../x"}}), "/bad/../x")
		require.False(t, f.Exists("/ok"))
		f.Flush()
		require.Empty(t, f.Tree())
	})
}

func TestNodesOfATestNeedALeader(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		f := follower(t, c)
		require.NoError(t, c.Partition(f))
		require.ErrorIs(t, f.Create("/n", nil), zktest.ErrNoLeader, "it is cut off before it has applied that")
		require.ErrorIs(t, f.Create("/m", nil), zktest.ErrNoLeader)
		require.True(t, leader(t, c).Exists("/n"))
		require.False(t, leader(t, c).Exists("/m"))
		f.Stop()
		require.ErrorIs(t, f.Delete("/n"), zktest.ErrNoLeader)
	})
}

func TestWhatAClusterRefuses(t *testing.T) {
	for name, opt := range map[string]zktest.Option{
		"lag": zktest.WithLag(-1), "latency": zktest.WithMemberLatency(-1), "election": zktest.WithElectionTime(0),
		"sync timeout": zktest.WithSyncTimeout(0), "address": zktest.WithAddr("127.0.0.1:0"), "nil": nil,
	} {
		require.Error(t, testbed.Err(zktest.StartCluster(3, opt)), name)
	}
	for _, n := range []int{-1, 0, 128} {
		require.Error(t, testbed.Err(zktest.StartCluster(n)), n)
	}
	for _, opt := range []zktest.Option{
		zktest.WithSeed(1), zktest.WithLag(0), zktest.WithMemberLatency(0), zktest.WithElectionTime(1), zktest.WithSyncTimeout(1),
	} {
		require.ErrorContains(t, testbed.Err(zktest.Start(opt)), "applies only to a cluster")
	}
	c, stranger := zktest.NewCluster(t, 1), zktest.NewServer(t)
	for _, s := range []*zktest.Server{nil, stranger} {
		require.Error(t, c.Partition(s))
		require.Error(t, c.Lag(s, 0))
	}
	require.Error(t, c.Lag(leader(t, c), -1))
	require.Error(t, testbed.Err(c.DialContext(t.Context(), "", "nowhere:1")))
	mustCreate(t, raw(t, leader(t, c), nil), "/alone", 0)
	failing := &fakeT{}
	require.Nil(t, zktest.NewCluster(failing, 0))
	require.Contains(t, failing.failed, "number of members 0")
	require.NoError(t, c.Close())
	require.ErrorIs(t, testbed.Err(c.WaitLeader(t.Context())), zktest.ErrClosed)
	require.ErrorIs(t, testbed.Err(c.StopLeader()), zktest.ErrNoLeader)
}

func TestClusterLikeKeeper(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		for _, m := range c.Members() {
			a := raw(t, m, nil)
			require.Equal(t, "server.1=127.0.0.1:2181;participant;1\nserver.2=127.0.0.1:2182;participant;1\nserver.3=127.0.0.1:2183;participant;1",
				get(t, a, "/keeper/config"))
			require.NotEqual(t, a.id, raw(t, m, a).id, "a session is never restored")
		}
	}, zktest.LikeKeeper("recent"))
}

func TestMemberOfASession(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		first, second := c.Members()[0], c.Members()[1]
		require.ErrorIs(t, testbed.Err(c.MemberOf(1)), zktest.ErrNoSession)
		a := raw(t, first, nil)
		is := func(want *zktest.Server) {
			t.Helper()
			member, err := c.MemberOf(a.id)
			require.NoError(t, err)
			require.Same(t, want, member)
		}
		is(first)
		time.Sleep(time.Second)
		moved := raw(t, second, a)
		is(second)
		require.NoError(t, moved.conn.Close())
		require.NoError(t, a.conn.Close())
		time.Sleep(time.Second)
		require.ErrorIs(t, testbed.Err(c.MemberOf(a.id)), zktest.ErrNoSession, "it lives, but nobody is connected")
	})
}

// TestAFrozenSessionDoesNotFreezeItsClient has a client ask for a new session while its old one is
// frozen.
func TestAFrozenSessionDoesNotFreezeItsClient(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *zktest.Cluster) {
		s := c.Members()[0]
		a := raw(t, s, nil)
		s.Freeze(a.id)
		ping(t, raw(t, s, nil))
		time.AfterFunc(5*time.Second, func() { s.Thaw(a.id) })
		began := time.Now()
		require.Equal(t, a.id, raw(t, s, a).id)
		require.Equal(t, 5*time.Second, time.Since(began), "no answer until then")
	})
}
