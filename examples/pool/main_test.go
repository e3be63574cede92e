package main

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// safeBuffer is a bytes.Buffer that several goroutines may write to.
type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// check runs the program and checks its output.
func check(t *testing.T, servers []string, services, queries int) {
	t.Helper()
	ctx := testbed.Context(t)
	var out safeBuffer
	j := job{out: &out, path: "/pool", services: services, queries: queries, limit: 2, raise: 4, query: time.Millisecond}
	require.NoError(t, j.run(ctx, servers), "%s", &out)
	require.NoError(t, j.run(ctx, servers), "again, where the first run left its limit")
	want := services * queries
	require.Contains(t, out.String(), fmt.Sprintf("queries       %d of %d", want, want))
	require.Contains(t, out.String(), "rejected      0\n")
	require.Contains(t, out.String(), "administrator: limit raised to 4 connections")
}

func TestOnTheEmbeddedServer(t *testing.T) {
	check(t, []string{zktest.NewServer(t).Addr()}, 6, 6)
}

func TestOnAnEnsemble(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly) // the recipes are tested there for each push
	check(t, ensemble.New(t).Servers(), 8, 10)
}

func TestAFullDatabaseIsAnError(t *testing.T) {
	db := &database{limit: 1}
	_, err := db.connect()
	require.NoError(t, err)
	_, err = db.connect()
	require.ErrorIs(t, err, errTooMany)
	db.disconnect()
	require.Error(t, db.summary(&bytes.Buffer{}, 1, time.Second))
	require.NoError(t, (&database{limit: 1, queries: 1}).summary(&bytes.Buffer{}, 1, time.Second))
	require.Error(t, (&database{limit: 1, queries: 1}).summary(&bytes.Buffer{}, 2, time.Second))
}
