package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestAWatchEndsWithItsContext, and the server is asked to remove it unless another needs it.
func TestAWatchEndsWithItsContext(t *testing.T) {
	for name, set := range map[string]func(ctx context.Context, c *framework.Client) (*framework.Watch, error){
		"of a missing node": func(ctx context.Context, c *framework.Client) (*framework.Watch, error) {
			_, _, watch, err := c.ExistsW(ctx, "/missing")
			return watch, err
		},
		"of data": func(ctx context.Context, c *framework.Client) (*framework.Watch, error) {
			_, _, watch, err := c.GetW(ctx, "/a")
			return watch, err
		},
		"of children": func(ctx context.Context, c *framework.Client) (*framework.Watch, error) {
			_, _, watch, err := c.ChildrenW(ctx, "/a")
			return watch, err
		},
	} {
		runInBubble(t, name, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			require.NoError(t, server.Create("/a", nil))
			why := errors.New("not needed")
			ctx, cancel := context.WithCancelCause(t.Context())
			first := testbed.Must(set(ctx, client))
			again := testbed.Must(set(ctx, client))
			other, end := context.WithCancel(t.Context())
			second := testbed.Must(set(other, client))
			require.Equal(t, 1, server.WatchCount())

			cancel(why)
			synctest.Wait()
			require.True(t, fired(first))
			require.True(t, fired(again))
			require.Equal(t, zk.EventNotWatching, first.Event().Type)
			require.ErrorIs(t, first.Event().Err, context.Canceled)
			require.ErrorIs(t, first.Event().Err, why)
			time.Sleep(time.Minute) // virtual time, in which no watch may be removed
			require.Equal(t, 1, server.WatchCount(), "the second is needed")
			require.Zero(t, second.Event())

			end()
			synctest.Wait()
			require.True(t, fired(second))
			time.Sleep(time.Second) // virtual time, in which the client removes the watch
			require.Zero(t, server.WatchCount())

			third := testbed.Must(set(t.Context(), client))
			require.Equal(t, 1, server.WatchCount(), "it is asked for again")
			require.Zero(t, third.Event())
		})
	}
}

// TestManyWaitsForMissingNodesLeaveNoWatch finds no watch on the server, even if a wait is given up
// before its read is answered.
func TestManyWaitsForMissingNodesLeaveNoWatch(t *testing.T) {
	const waits = 2000
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		for i := range waits {
			ctx, cancel := context.WithCancel(t.Context())
			path := fmt.Sprint("/missing-", i)
			if i%2 == 0 {
				require.NoError(t, testbed.Err(client.ExistsW(ctx, path)))
			} else {
				gate := server.BlockReplies(zktest.OnPath(path))
				go func() { _, _, _, _ = client.ExistsW(ctx, path) }()
				<-gate.Arrived()
				cancel()
				synctest.Wait()
				gate.Open()
			}
			cancel()
		}
		time.Sleep(time.Minute) // virtual time
		require.Zero(t, server.WatchCount())
	})
}

// TestAFollowThatReturnsLeavesNoWatch: the channel that its read returned is not needed any more.
func TestAFollowThatReturnsLeavesNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		closed := make(chan struct{})
		close(closed)
		reads := 0
		err := client.Follow(t.Context(), func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
			_, _, _, err := in.ExistsW(ctx, "/missing")
			if reads++; reads == 2 || err != nil {
				return nil, err
			}
			return closed, nil
		})
		require.NoError(t, err)
		time.Sleep(time.Second) // virtual time
		require.Zero(t, server.WatchCount())
	})
}
