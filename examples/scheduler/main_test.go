package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/internal/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check plays a deploy and checks its output.
func check(t *testing.T, servers []string) {
	t.Helper()
	var out bytes.Buffer
	s := scheduler{out: &lines{out: &out}, path: "/scheduler", every: 2 * time.Millisecond, timeout: 10 * time.Second}
	require.NoError(t, s.deploy(testbed.Context(t), servers, 3), "%s", &out)
	require.Contains(t, out.String(), "jobs run once", "%s", &out)
	require.Contains(t, out.String(), "stops: context canceled", "%s", &out)
	require.GreaterOrEqual(t, bytes.Count(out.Bytes(), []byte(": leads\n")), 4, "%s", &out)
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

func TestAViolationIsAnError(t *testing.T) {
	var out bytes.Buffer
	s := scheduler{out: &lines{out: &out}}
	require.NoError(t, s.summary(7, 7))
	require.Error(t, s.summary(6, 7), "left out")
	require.Error(t, s.summary(8, 7), "done twice")
	require.Error(t, s.run(t.Context(), nil))
}
