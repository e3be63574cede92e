package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/testbed/ensemble"
	"github.com/gocurator/curator/internal/testlevel"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check runs the program and looks at what it says.
func check(t *testing.T, servers []string, session time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, workers := range []int{2, 4} { // the second time where the first run left its nodes
		var out bytes.Buffer
		p := pool{out: &out, path: "/workers", workers: workers, partitions: 8, session: session}
		require.NoError(t, p.run(ctx, servers), "%s", &out)
		require.Contains(t, out.String(), "clashes       0\n")
		require.Contains(t, out.String(), "idle          0\n")
		require.Contains(t, out.String(), "gives partition")
	}
}

func TestOnTheEmbeddedServer(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithTick(100*time.Millisecond))
	check(t, []string{server.Addr()}, time.Second)
}

func TestOnAnEnsemble(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly) // the recipes are tested there for each push
	check(t, ensemble.Start(t).Servers(), 4*time.Second)
}

func TestAViolationIsAnError(t *testing.T) {
	b := newBoard(&bytes.Buffer{}, 2)
	b.begin(0, "a")
	require.Error(t, b.summary(), "nobody works on the second one")
	b.begin(1, "a")
	require.NoError(t, b.summary())
	b.end(1, "a")
	b.begin(1, "b")
	require.NoError(t, b.summary())
	b.begin(1, "a")
	b.end(1, "a")
	require.Error(t, b.summary(), "two worked on it")
	require.Error(t, pool{workers: 1, partitions: 1}.run(t.Context(), nil))
}

// TestOnlyWhatMustMoves has a member come: what does not fall to it stays where it is.
func TestOnlyWhatMustMoves(t *testing.T) {
	members := map[string][]byte{}
	for i := range 4 {
		members[fmt.Sprint("worker-", i)] = nil
	}
	before := map[int]string{}
	for n := range 200 {
		before[n] = share(members, n)
	}
	members["new"] = nil
	moved := 0
	for n := range 200 {
		if now := share(members, n); now != before[n] {
			require.Equal(t, "new", now)
			moved++
		}
	}
	require.Greater(t, moved, 20)
	require.Less(t, moved, 60)
	require.Empty(t, share(nil, 0))
}
