package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check runs the program and checks its output.
func check(t *testing.T, servers []string) {
	t.Helper()
	ctx := testbed.Context(t)
	var out bytes.Buffer
	s := shop{out: &out, path: "/catalogue", readers: 4, publishers: 2, editions: 3, articles: 4}
	require.NoError(t, s.run(ctx, servers), "%s", &out)
	require.NoError(t, s.run(ctx, servers), "again, where the first run left its catalogue")
	require.Contains(t, out.String(), "published and verified: edition 3 of publisher 2\n")
	require.Contains(t, out.String(), "editions  6 of 6\n")
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

func TestAViolationIsAnError(t *testing.T) {
	client := testbed.NewClient(t, zktest.NewServer(t).Servers())
	s := shop{path: "/catalogue", articles: 2}
	for n, edition := range []string{"old", "new"} {
		testbed.Create(t, client, s.article(n), []byte(edition), framework.ContainerParents())
	}
	require.ErrorContains(t, testbed.Err(s.read(t.Context(), client)), "mixes articles")

	var out bytes.Buffer
	log := journal{out: &out}
	log.published("one")
	require.NoError(t, log.summary(1))
	require.Error(t, log.summary(2))
}

func TestNonsenseIsRefused(t *testing.T) {
	require.Error(t, shop{readers: 1, publishers: 1, editions: 0, articles: 1}.run(t.Context(), nil))
}
