package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check runs the program and checks its output.
func check(t *testing.T, servers []string) {
	t.Helper()
	workers, rounds := testlevel.Pick(5, 5, 15), testlevel.Pick(3, 3, 20)
	ctx := testbed.Context(t)
	var out bytes.Buffer
	j := job{out: &out, path: "/quickstart", workers: workers, rounds: rounds, think: time.Millisecond}
	require.NoError(t, j.run(ctx, servers), "%s", &out)
	require.NoError(t, j.run(ctx, servers), "again, where the first run left its counter")
	want := workers * rounds
	require.Contains(t, out.String(), fmt.Sprintf("acquisitions  %d of %d", want, want))
	require.Contains(t, out.String(), fmt.Sprintf("counter       %d\n", want))
	require.Contains(t, out.String(), "violations    0\n")
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

func TestAViolationIsAnError(t *testing.T) {
	var out bytes.Buffer
	good := journal{acquisitions: 6}
	require.NoError(t, good.summary(&out, 6, "6", time.Second))
	require.Error(t, good.summary(&out, 6, "5", time.Second), "a lost increment")
	require.Error(t, (&journal{acquisitions: 5}).summary(&out, 6, "6", time.Second))

	var overlap journal
	overlap.enter(&out, 1, 10, 0)
	overlap.enter(&out, 2, 11, 0)
	require.Equal(t, 1, overlap.violations)
	var stale journal
	stale.enter(&out, 1, 10, 0)
	stale.leave()
	stale.enter(&out, 2, 10, 0)
	require.Equal(t, 1, stale.violations, "a token that does not rise")
}
