package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check runs the program and checks its output.
func check(t *testing.T, servers []string) {
	t.Helper()
	ctx := testbed.Context(t)
	var out bytes.Buffer
	p := plant{out: &out, path: "/handover", items: 20, urgent: 2, think: 100 * time.Millisecond, grace: time.Minute}
	require.NoError(t, p.run(ctx, servers), "%s", &out)
	require.NoError(t, p.run(ctx, servers), "again, where the first run left its progress")
	require.Contains(t, out.String(), "items processed once  20 of 20\n")
	require.Contains(t, out.String(), "urgent tasks          2 of 2\n")
	require.Contains(t, out.String(), "batch: asked to hand over", "%s", &out)
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

// An item that takes longer than the grace period is begun again. A batch that is asked between two
// items hands over, so there are several urgent tasks.
func TestABatchThatIsThrownOutStartsFromWhatWasSaved(t *testing.T) {
	ctx := testbed.Context(t)
	var out bytes.Buffer
	p := plant{out: &out, path: "/handover", items: 6, urgent: 5, think: 500 * time.Millisecond, grace: 50 * time.Millisecond}
	require.NoError(t, p.run(ctx, []string{zktest.NewServer(t).Addr()}), "%s", &out)
	require.Contains(t, out.String(), "items processed once  6 of 6\n")
	require.Contains(t, out.String(), "batch: node deleted", "%s", &out)
}

func TestAViolationIsAnError(t *testing.T) {
	var out bytes.Buffer
	good := &journal{out: &out, done: []int{1, 1}, urgent: 1}
	require.NoError(t, good.summary(1))
	require.Error(t, good.summary(2), "an urgent task was left out")
	require.Error(t, (&journal{out: &out, done: []int{1, 0}}).summary(0))
	require.Error(t, (&journal{out: &out, done: []int{1, 2}}).summary(0))
	require.Error(t, plant{items: 0}.run(t.Context(), nil))
}
