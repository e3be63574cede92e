package zktest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// soon is a context for what takes the cluster a few ticks.
func soon(t *testing.T) context.Context { return testbed.Timeout(t, time.Minute) }

// configuration is the text that a server has.
func configuration(t *testing.T, s *zktest.Server) string {
	t.Helper()
	return testbed.ServerData(t, s, "/zookeeper/config")
}

// TestAllMembersAreReplacedOneByOne replaces each member, also the leader. Sessions, nodes and
// sequence numbers continue. Then it removes members, each time the leader, until one is left.
func TestAllMembersAreReplacedOneByOne(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			virtual(t, n, func(t *testing.T, c *zktest.Cluster) {
				first := c.Members()[0]
				client := raw(t, first, nil)
				mustCreate(t, client, "/kept", 1)
				require.NoError(t, first.Create("/data", []byte("x")))
				time.Sleep(10 * time.Second) // the members forget what all of them have applied
				old := c.Members()
				for i, s := range old {
					added, err := c.Add(soon(t))
					require.NoError(t, err)
					require.Equal(t, c.Members()[n], added)
					client = raw(t, added, client)
					require.NoError(t, c.Remove(soon(t), s))
					require.Len(t, c.Members(), n)
					require.NoError(t, elected(t, c).Create(fmt.Sprintf("/after%d", i), nil))
					require.ErrorIs(t, s.Restart(), zktest.ErrClosed)
					require.ErrorIs(t, c.Lag(s, 0), zktest.ErrNotMember)
					require.ErrorIs(t, c.Remove(soon(t), s), zktest.ErrNotMember)
				}
				for _, s := range c.Members() {
					require.NotContains(t, old, s)
					require.NoError(t, s.Set("/data", []byte("y")), "each is a full member")
					require.True(t, s.Exists("/kept"), "of a session that goes on")
				}
				config := configuration(t, c.Members()[0])
				for i, addr := range c.Servers() {
					require.Contains(t, config, fmt.Sprintf("server.%d=127.0.0.1:2888:3888:participant;%s\n", n+i+1, addr))
				}
				require.Equal(t, n, strings.Count(config, "server."))
				for len(c.Members()) > 1 {
					require.NoError(t, c.Remove(soon(t), elected(t, c)))
				}
				require.Error(t, c.Remove(soon(t), elected(t, c)), "the last one")
			})
		})
	}
}

// TestAMemberThatJoinsCountsOnlyWhenItHasTheLog has an isolated new member: its votes are not
// needed, and nothing is lost.
func TestAMemberThatJoinsCountsOnlyWhenItHasTheLog(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		first, others := testbed.Leader(t, c)
		ctx := testbed.Timeout(t, 20*time.Second)
		require.NoError(t, c.Partition(others[0]))   // two of three go on
		joined := testbed.Go(func() *zktest.Server { // ends with ctx
			s, _ := c.Add(ctx)
			return s
		})
		synctest.Wait()
		require.Len(t, c.Members(), 4)
		c.Members()[3].Pause()
		for i := range 10 {
			time.Sleep(time.Second) // virtual time
			require.NoError(t, first.Create(fmt.Sprintf("/%d", i), nil), "two of three voters are a majority, of four they would not be")
		}
		added := <-joined
		added.Resume()
		c.Heal()
		require.Equal(t, first, leader(t, c))
	})
}

// TestAReconfigurationNeedsMajoritiesOfBothConfigurations has one of two voters not hear of a
// proposal by which a third joins. The leader and the new member are a majority of the new
// configuration, and not of the old one.
func TestAReconfigurationNeedsMajoritiesOfBothConfigurations(t *testing.T) {
	virtual(t, 2, func(t *testing.T, c *zktest.Cluster) {
		first, other := leader(t, c), follower(t, c)
		added, joined := joining(t, c)
		other.Pause()
		time.Sleep(3 * time.Second) // messages take one, and a silent member is given up after four
		require.NotContains(t, configuration(t, first), added.Addr())
		first.Stop()
		other.Resume()
		time.Sleep(2 * time.Second) // it notices that its leader has left
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			require.Error(t, testbed.Err(other.Dial("", "", 0)), "it follows nobody")
		}
		_, err := c.Leader()
		require.ErrorIs(t, err, zktest.ErrNoLeader, "the other and the new one are no majority of the old configuration")
		require.Empty(t, joined)
		require.NoError(t, first.Restart())
		require.NoError(t, <-joined)
		require.Contains(t, configuration(t, leader(t, c)), added.Addr())
	}, zktest.WithMemberLatency(time.Second))
}

// TestAReconfigurationNeedsAMajorityOfTheNewConfiguration has a cluster of one and a member that
// joins and does not hear of the proposal.
func TestAReconfigurationNeedsAMajorityOfTheNewConfiguration(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *zktest.Cluster) {
		first := leader(t, c)
		added, joined := joining(t, c)
		added.Pause()
		time.Sleep(3 * time.Second)
		require.NotContains(t, configuration(t, first), added.Addr())
		require.NoError(t, first.Restart())
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, testbed.Err(c.Leader()), zktest.ErrNoLeader, "it has the proposal in its log")
		require.Error(t, testbed.Err(first.Dial("", "", 0)))
		require.Empty(t, joined)
		added.Resume()
		require.NoError(t, <-joined)
	}, zktest.WithMemberLatency(time.Second))
}

// joining adds a member, and returns when it follows and the leader has proposed the configuration
// with it, which is still on its way.
func joining(t *testing.T, c *zktest.Cluster) (added *zktest.Server, joined <-chan error) {
	t.Helper()
	done := testbed.Go(func() error { // ends with the cluster
		_, err := c.Add(t.Context())
		return err
	})
	synctest.Wait()
	members := c.Members()
	added = members[len(members)-1]
	for {
		if conn, err := added.Dial("", "", 0); err == nil { // it follows
			require.NoError(t, conn.Close())
			synctest.Wait()
			return added, done
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWaitsOfAClusterEndWithTheirContextAndWithClose(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
		for _, s := range c.Members()[:2] {
			s.Stop()
		}
		ctx := testbed.Timeout(t, time.Second)
		added, err := c.Add(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotNil(t, added)
		require.ErrorIs(t, c.Remove(ctx, c.Members()[2]), context.DeadlineExceeded)
		require.ErrorIs(t, testbed.Err(c.WaitLeader(ctx)), context.DeadlineExceeded)
		closed := testbed.Go(func() error { return c.Remove(t.Context(), c.Members()[2]) }) // ends with the cluster
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-closed, zktest.ErrClosed)
		require.ErrorIs(t, testbed.Err(c.Add(t.Context())), zktest.ErrClosed)
	})
}
