package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

func TestATTLNodeLivesWhileItIsKept(t *testing.T) { // CUR-NOD-10, Curator 1260
	const ttl = 10 * time.Second
	virtual(t, func(t *testing.T, w world) {
		n := keep(t, w.client(framework.WithDefaultData([]byte("default"))), "/group/a", "a", node.WithTTL(ttl))
		time.Sleep(ttl/2 - time.Second)
		synctest.Wait()
		require.Empty(t, w.nodes("/group/a"), "first at half the TTL")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, map[string]string{"touch": "default"}, w.nodes("/group/a"))
		w.ResetCounts()
		for range 5 {
			time.Sleep(2 * ttl)
			synctest.Wait()
			w.one(n, "a")
		}
		require.Equal(t, 20, w.Requests().Requests["setData"], "every half TTL")
		require.NoError(t, w.ExpireSession(w.Sessions()[0].ID))
		time.Sleep(2 * ttl)
		w.one(n, "a")

		// Both nodes vanish.
		other := w.client()
		require.NoError(t, other.Delete(t.Context(), "/group/a/touch"))
		require.NoError(t, other.Delete(t.Context(), "/group/a"))
		time.Sleep(ttl)
		synctest.Wait()
		w.one(n, "a")
		require.Equal(t, map[string]string{"touch": "default"}, w.nodes("/group/a"))

		require.NoError(t, n.Close())
		w.one(n, "a")
		time.Sleep(3 * ttl)
		require.Empty(t, w.nodes("/group"))
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "1000"}))
}

// TestATTLNodeThatIsNotTouchedGoes has the keeper's client end before the first touch, or after it.
func TestATTLNodeThatIsNotTouchedGoes(t *testing.T) { // CUR-NOD-10, Curator 1260
	const ttl = 10 * time.Second
	for name, kept := range map[string]time.Duration{"before the first touch": 0, "after a touch": ttl/2 + time.Second} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client()
			n := keep(t, client, "/group/a", "a", node.WithTTL(ttl))
			time.Sleep(kept) // virtual time
			synctest.Wait()
			require.Equal(t, kept > 0, w.Exists("/group/a/touch"))
			require.NoError(t, client.Close())
			require.NoError(t, n.Close())
			time.Sleep(ttl - 2*time.Second)
			w.one(n, "a")
			time.Sleep(5 * time.Second) // a child is deleted first, and one more node with each check
			require.Empty(t, w.nodes("/group"))
		}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "1000"}))
	}
}

// TestATTLNodeThatIsTakenOverStartsAnew begins when the node of an earlier life is about to go.
func TestATTLNodeThatIsTakenOverStartsAnew(t *testing.T) {
	const ttl = 10 * time.Second
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		n := keep(t, client, "/group/a", "a", node.WithTTL(ttl))
		require.NoError(t, n.Close())
		time.Sleep(ttl - time.Second)
		n = keep(t, client, "/group/a", "a", node.WithTTL(ttl))
		time.Sleep(5 * ttl)
		w.one(n, "a")
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "1000"}))
}

// TestATTLNodeMayBeAContainer has the nodes of Java's PersistentTtlNode up to 5.8.0, of a process
// that has crashed.
func TestATTLNodeMayBeAContainer(t *testing.T) {
	const ttl = 10 * time.Second
	virtual(t, func(t *testing.T, w world) {
		client, java := w.client(), w.client()
		testbed.Create(t, java, "/group/a/touch", []byte("java"), framework.TTL(ttl), framework.ContainerParents())
		n := keep(t, client, "/group/a", "a", node.WithTTL(ttl))
		time.Sleep(5 * ttl)
		w.one(n, "a")
		require.Len(t, w.nodes("/group/a"), 1)
		require.NoError(t, n.Close())
		time.Sleep(3 * ttl)
		require.Empty(t, w.nodes("/group"))
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "1000"}))
}

// TestATTLNodeWaitsWithoutSpinning has an ephemeral node in the way.
func TestATTLNodeWaitsWithoutSpinning(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		n := keep(t, client, "/group/a", "a", node.WithTTL(10*time.Second))
		_, err := other.Multi(t.Context(), &zk.DeleteRequest{Path: "/group/a", Version: -1},
			&zk.CreateRequest{Path: "/group/a", Flags: zk.FlagEphemeral})
		require.NoError(t, err)
		await(t, n, reason(node.ErrTaken))
		w.ResetCounts()
		time.Sleep(time.Hour)
		require.Zero(t, w.Requests().Requests["exists"])
		require.NoError(t, other.Delete(t.Context(), "/group/a"))
		await(t, n, isThere)
		w.one(n, "a")
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
}

// TestATTLNodeThatMayNotBeWrittenIsTouched has the server refuse each Set. The node is kept all the
// same.
func TestATTLNodeThatMayNotBeWrittenIsTouched(t *testing.T) {
	const ttl = 4 * time.Second
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		n := keep(t, client, "/group/a", "a", node.WithTTL(ttl))
		testbed.SetACL(t, other, "/group/a", perms(zk.PermAll&^zk.PermWrite))
		before := w.stat("/group/a")
		require.ErrorIs(t, n.Set(t.Context(), []byte("b")), zk.ErrNoAuth)
		w.ResetCounts()
		time.Sleep(100 * ttl) // virtual time, in which the node must not go
		synctest.Wait()
		require.Equal(t, before.Czxid, w.stat("/group/a").Czxid, "it was never gone")
		w.one(n, "a")
		require.ErrorIs(t, n.Problem(), zk.ErrNoAuth)
		require.Less(t, w.Requests().Requests["setData"], 1000, "with pauses")
		testbed.SetACL(t, other, "/group/a", perms(zk.PermAll))
		await(t, n, isThere)
		w.one(n, "b")
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "100"}))
}

// TestATouchThatIsRefusedIsReported has the server refuse the touch child. The node exists, and Err
// says why it will not stay.
func TestATouchThatIsRefusedIsReported(t *testing.T) {
	const ttl = 10 * time.Second
	virtual(t, func(t *testing.T, w world) {
		var log testbed.Output
		client, other := w.client(logTo(&log)), w.client()
		n := keep(t, client, "/group/a", "a", node.WithTTL(ttl))
		testbed.SetACL(t, other, "/group/a", perms(zk.PermAll&^zk.PermCreate))
		time.Sleep(ttl - 2*time.Second) // virtual time, in which a touch is due, and tried again
		require.True(t, present(n))
		require.ErrorIs(t, n.Problem(), zk.ErrNoAuth)
		require.Equal(t, 1, count(&log, "WARN", "node not kept", "/group/a"), "logged once")
		testbed.SetACL(t, other, "/group/a", perms(zk.PermAll))
		await(t, n, isThere)
		require.Contains(t, w.nodes("/group/a"), "touch")
		time.Sleep(5 * ttl)
		w.one(n, "a")
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "1000"}))
}

// TestAServerWithoutTTLNodesIsReported: Keepers close the connection, or let the node have no
// child. None is asked.
func TestAServerWithoutTTLNodesIsReported(t *testing.T) {
	allowed := zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"})
	servers := map[string][]zktest.Option{"ZooKeeper": nil}
	for _, age := range []string{"old", "recent", "new", "newest"} {
		servers["Keeper, "+age] = []zktest.Option{zktest.LikeKeeper(age), allowed}
	}
	for name, opts := range servers {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client()
			session := testbed.Session(t, client)
			ctx := testbed.Timeout(t, time.Hour)
			_, err := node.Keep(ctx, client, "/group/a", nil, node.WithTTL(time.Minute))
			require.ErrorIs(t, err, framework.ErrUnimplemented)
			require.NoError(t, ctx.Err(), "it gives up")
			require.NoError(t, session.Err())
			if opts == nil {
				require.ErrorContains(t, err, "extendedTypesEnabled")
			}
		}, opts...)
	}
}

// TestATouchThatFailsOnceIsTriedAgainInTime has a server refuse one touch of a node whose data it
// has refused for long: so pauses are as long as they get.
func TestATouchThatFailsOnceIsTriedAgainInTime(t *testing.T) {
	const ttl = 8 * time.Second
	virtual(t, func(t *testing.T, w world) {
		other := w.client()
		began := time.Now()
		n := keep(t, w.client(), "/group/a", "a", node.WithTTL(ttl))
		require.Equal(t, began, time.Now(), "or touches are due at other times")
		testbed.SetACL(t, other, "/group/a", perms(zk.PermAll&^zk.PermWrite))
		require.ErrorIs(t, n.Set(t.Context(), []byte("b")), zk.ErrNoAuth)
		// Virtual time, until just before a touch.
		time.Sleep(time.Until(began.Add(10*ttl + ttl/2 - time.Millisecond)))
		touched := w.stat("/group/a/touch")
		testbed.SetACL(t, other, "/group/a/touch", perms(zk.PermAll&^zk.PermWrite))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		testbed.SetACL(t, other, "/group/a/touch", perms(zk.PermAll))
		require.Equal(t, touched.Version, w.stat("/group/a/touch").Version)
		time.Sleep(ttl / 4)
		synctest.Wait()
		require.Equal(t, touched.Version+1, w.stat("/group/a/touch").Version, "a quarter of the TTL is left")
		time.Sleep(5 * ttl)
		w.one(n, "a")
	}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "100"}))
}
