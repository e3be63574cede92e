package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

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
	var out bytes.Buffer
	s := &service{out: &out, path: "/config"}
	require.NoError(t, s.run(testbed.Context(t), servers), "%s", &out)
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 8, "%s", &out)
	wrong := lines[3]
	require.Contains(t, wrong, "/config/limits is invalid, keeping the last good value: bad value: json: ")
	lines[3] = "wrong"
	require.Equal(t, []string{
		"serving with rate 10 and features []",
		"serving with rate 100 and features []",
		"serving with rate 100 and features [dark-mode]",
		"wrong",
		"serving with rate 250 and features [dark-mode]",
		"serving with rate 250 and features []",
		"served: true, final rate: 250", "",
	}, lines)
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

// TestConfigurationIsFollowedThroughAnOutage has the connection end, and the configuration change
// in between.
func TestConfigurationIsFollowedThroughAnOutage(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.NewClient(t, server.Servers())
	s := &service{out: new(bytes.Buffer), path: "/config", follow: true}
	require.NoError(t, change(t.Context(), client, step{s.limitsPath(), `{"Rate": 7}`}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := testbed.Go(func() error { return s.run(ctx, server.Servers()) })
	rate := func(want int) func() bool {
		return func() bool { now := s.settings.Load(); return now != nil && now.rate == want }
	}
	testbed.Eventually(t, rate(7), "the first rate is read")
	server.CutConnections()
	require.NoError(t, change(t.Context(), client, step{s.limitsPath(), `{"Rate": 8}`}))
	testbed.Eventually(t, rate(8), "the new rate is read")
	cancel()
	require.NoError(t, <-ended)
}
