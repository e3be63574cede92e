package demo

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestWhoWaitsForAServerSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(testbed.Context(t))
	defer cancel()
	read, write := io.Pipe()
	failed := testbed.Go(func() error { // ends with ctx
		_, _, err := Connect(ctx, write, "127.0.0.1:1")
		return err
	})
	buffer := make([]byte, 1024)
	n, err := read.Read(buffer)
	require.NoError(t, err)
	require.Contains(t, string(buffer[:n]), "waiting for a ZooKeeper server at 127.0.0.1:1: ")
	require.Contains(t, string(buffer[:n]), "connection refused")
	cancel()
	err = <-failed
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "connection refused")
}

func TestServersThatAnswer(t *testing.T) {
	server := zktest.NewServer(t)
	var out strings.Builder
	list, stop, err := Connect(t.Context(), &out, server.Addr())
	require.NoError(t, err)
	defer stop()
	require.Equal(t, []string{server.Addr()}, list)
	require.Empty(t, out.String())

	list, stop, err = Connect(t.Context(), &out, "")
	require.NoError(t, err)
	defer stop()
	require.Len(t, list, 1)
	for _, bad := range []string{",", "zk1:2181/app"} {
		require.Error(t, testbed.Err(Connect(t.Context(), &out, bad)), bad)
	}
}
