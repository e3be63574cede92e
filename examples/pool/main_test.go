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
	services, queries := testlevel.Pick(6, 6, 8), testlevel.Pick(6, 6, 10)
	ctx := testbed.Context(t)
	var out testbed.Output
	j := job{out: &out, path: "/pool", services: services, queries: queries, limit: 2, raise: 4, query: time.Millisecond}
	require.NoError(t, j.run(ctx, servers), "%s", &out)
	require.NoError(t, j.run(ctx, servers), "again, where the first run left its limit")
	want := services * queries
	require.Contains(t, out.String(), fmt.Sprintf("queries       %d of %d", want, want))
	require.Contains(t, out.String(), "rejected      0\n")
	require.Contains(t, out.String(), "administrator: limit raised to 4 connections")
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

func TestAFullDatabaseIsAnError(t *testing.T) {
	db := &database{limit: 1}
	require.NoError(t, testbed.Err(db.connect()))
	require.ErrorIs(t, testbed.Err(db.connect()), errTooMany)
	db.disconnect()
	require.Error(t, db.summary(&bytes.Buffer{}, 1, time.Second))
	require.NoError(t, (&database{limit: 1, queries: 1}).summary(&bytes.Buffer{}, 1, time.Second))
	require.Error(t, (&database{limit: 1, queries: 1}).summary(&bytes.Buffer{}, 2, time.Second))
}
