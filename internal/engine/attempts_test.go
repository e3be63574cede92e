package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
)

// TestARetryThatSucceedsWhileTheClientClosesHasSucceeded: a write that was answered must not count
// as certainly not carried out.
func TestARetryThatSucceedsWhileTheClientClosesHasSucceeded(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
		calls := 0
		err := engine.Of(client).Do(context.Background(), "set", "/a", func(*engine.Connection) error {
			if calls++; calls == 1 {
				return zk.ErrConnectionClosed
			}
			return client.Close() // just after the answer
		})
		require.NoError(t, err)
		require.Equal(t, 2, calls)
	})
}
