package shard_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/recipes/shard"
)

// On real servers a leader is killed, a server loses its peers, a session is expired by force, and
// a member drains. Shards have at most one owner, and are balanced after each.
func TestRun_OnAnEnsemble(t *testing.T) {
	e := ensemble.New(t)
	ctx := testbed.Timeout(t, 20*time.Minute)
	w := world{T: t, oracle: newOracle(t)}
	members := make(map[string]member)
	for i := range 3 {
		id := fmt.Sprint("m", i)
		client := testbed.NewClient(t, e.Servers(), framework.WithSessionTimeout(6*time.Second))
		members[id] = w.joinWith(client, id, 12, w.oracle.work(id))
	}
	settled := func(what string, want map[string]int) {
		began := time.Now()
		testbed.Eventually(t, func() bool { return maps.Equal(w.oracle.owned(), want) }, what)
		t.Logf("%s: balanced after %v", what, time.Since(began).Round(time.Millisecond))
	}
	thirds := map[string]int{"m0": 4, "m1": 4, "m2": 4}
	settled("start", thirds)

	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, e.KillServer(leader))
	require.NoError(t, e.StartServer(leader))
	settled("leader killed", thirds)

	leader, err = e.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, e.Partition((leader+1)%e.Size()))
	require.NoError(t, e.Heal())
	settled("follower cut off", thirds)

	session := testbed.Session(t, members["m1"].client)
	w.oracle.mu.Lock()
	w.oracle.forced = true // a session that is expired by force gives no warning
	w.oracle.mu.Unlock()
	require.NoError(t, e.ExpireSession(ctx, session.ID()))
	settled("session expired", thirds)

	restart := func(id string, opts ...shard.Option) {
		require.ErrorIs(t, members[id].leave(), context.Canceled)
		// that long the process is away: nothing shows that no shard has moved by then
		time.Sleep(2 * time.Second)
		members[id] = w.joinWith(members[id].client, id, 12, w.oracle.work(id), opts...)
	}
	restart("m1", shard.WithGrace(time.Minute))
	settled("member restarted, with a grace from now on", thirds)
	w.oracle.takeMoves()
	restart("m1", shard.WithGrace(10*time.Second))
	settled("member restarted within its grace", thirds)
	require.Zero(t, w.oracle.takeMoves())
	testbed.Eventually(t, func() bool {
		data, _, err := members["m0"].client.Get(ctx, "/ingest/plan")
		return err == nil && strings.Contains(string(data), `"m1":{"grace":10000}`)
	}, "the plan has the new grace")
	require.ErrorIs(t, members["m1"].leave(), context.Canceled)
	settled("grace is over", map[string]int{"m0": 6, "m2": 6})
	require.Equal(t, 4, w.oracle.takeMoves())
	members["m1"] = w.joinWith(members["m1"].client, "m1", 12, w.oracle.work("m1"))
	settled("member back after its grace", thirds)

	require.NoError(t, members["m2"].Drain(ctx))
	settled("member drained", map[string]int{"m0": 6, "m1": 6})
	require.ErrorIs(t, members["m0"].leave(), context.Canceled)
	settled("member left", map[string]int{"m1": 12})
}
