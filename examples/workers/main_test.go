package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check runs the program and checks its output.
func check(t *testing.T, servers []string) {
	t.Helper()
	session := time.Duration(testlevel.Pick(1, 1, 4)) * time.Second
	for _, workers := range []int{2, 4} { // the second time where the first run left its nodes
		var out bytes.Buffer
		p := pool{out: &out, path: "/workers", workers: workers, partitions: 8, session: session}
		require.NoError(t, p.run(testbed.Context(t), servers), "%s", &out)
		require.Contains(t, out.String(), "clashes       0\n")
		require.Contains(t, out.String(), "unprocessed   0\n")
		require.Contains(t, out.String(), "released partition")
	}
}

func TestOnServers(t *testing.T) { // on the in-process server with ticks for a session of a second
	exampletest.OnServers(t, check, zktest.WithProperties(map[string]string{"tickTime": "100"}))
}

func TestAViolationIsAnError(t *testing.T) {
	b := newBoard(&bytes.Buffer{}, 2)
	b.begin(0, "a")
	b.worked(0)
	require.Error(t, b.summary(), "the second one was never worked on")
	b.begin(1, "a")
	b.worked(1)
	require.NoError(t, b.summary())
	b.end(1, "a")
	b.begin(1, "b")
	require.NoError(t, b.summary())
	b.begin(1, "a")
	b.end(1, "a")
	require.Error(t, b.summary(), "two worked on it")
	require.Error(t, pool{workers: 1, partitions: 1}.run(t.Context(), nil))
}
