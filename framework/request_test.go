package framework

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

func TestCancelledWhileTheServerDoesNotRead(t *testing.T) {
	server := zktest.NewServer(t)
	client, err := New(server.Servers())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.WaitConnected(t.Context()))
	server.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	for range 1000 {
		_, _, err := client.Get(ctx, "/a")
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Less(t, time.Since(began), 10*time.Second)
	server.Thaw()
}
