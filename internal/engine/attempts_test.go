package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
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

func TestPauses(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		for name, c := range map[string]struct {
			policy retry.Policy
			want   time.Duration
		}{
			"a policy that returns nil allows no retry": {func() retry.BackOff { return nil }, -1},
			// Its interval is 0 before Reset.
			"a literal of backoff v4 is reset": {func() retry.BackOff {
				return &backoff.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 1, MaxInterval: time.Second, Stop: backoff.Stop, Clock: backoff.SystemClock}
			}, time.Second},
		} {
			client := w.Client(framework.WithRetryPolicy(c.policy))
			require.Equal(t, c.want, engine.Of(client).Pauses().NextBackOff(), name)
		}
	})
}
