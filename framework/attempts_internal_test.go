package framework

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestARetryThatSucceedsWhileTheClientClosesHasSucceeded: a write that was answered must not count as certainly not carried out.
func TestARetryThatSucceedsWhileTheClientClosesHasSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client, err := New([]string{server.Addr()}, WithDialer(server.DialContext), WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
		require.NoError(t, err)
		defer client.Close()
		calls := 0
		err = client.core.do(context.Background(), "set", "/a", func(*link) error {
			if calls++; calls == 1 {
				return zk.ErrConnectionClosed
			}
			return client.Close() // just after the answer
		})
		require.NoError(t, err)
		require.Equal(t, 2, calls)
	})
}
