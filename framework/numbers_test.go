package framework_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestAnEarlierWriteIsNotTakenForALaterOne has a client send a write, lose its connection, move to
// another server, and send a different write at once. The first write is committed when the second
// one waits at the new server, which knows the transactions of its clients by session and number of
// the request.
func TestAnEarlierWriteIsNotTakenForALaterOne(t *testing.T) {
	both := 0
	for seed := range uint64(20) {
		testbed.RunVirtual(t, fmt.Sprint(seed), func(t *testing.T) {
			if writeMoveAndWrite(t, seed) {
				both++
			}
		})
	}
	require.Positive(t, both)
}

// writeMoveAndWrite reports whether the first write was carried out. It is not if the session has
// moved before the leader gets it.
func writeMoveAndWrite(t *testing.T, seed uint64) bool {
	ctx := t.Context()
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory(), zktest.WithSeed(seed), zktest.WithMemberLatency(100*time.Millisecond))
	leader, followers := testbed.Leader(t, cluster)
	for _, path := range []string{"/first", "/second"} {
		require.NoError(t, leader.Create(path, nil))
	}
	time.Sleep(time.Second) // virtual time: all members have them
	at := followers[0]
	client := testbed.NewClient(t, []string{"follower:2181"}, framework.WithRetryPolicy(retry.Never()), framework.WithDialer(
		func(ctx context.Context, network, _ string) (net.Conn, error) {
			return at.DialContext(ctx, network, at.Addr())
		}))
	require.NoError(t, client.WaitConnected(ctx))
	time.Sleep(2 * time.Second) // virtual time: the next connection is opened at once

	first := testbed.Go(func() error { return testbed.Err(client.Set(ctx, "/first", []byte("x"))) })
	synctest.Wait()
	at = followers[1]
	followers[0].CutConnections()
	require.ErrorIs(t, <-first, zk.ErrConnectionClosed)
	require.NoError(t, client.WaitConnected(ctx))
	require.ErrorIs(t, testbed.Err(client.Set(ctx, "/second", []byte("x"), framework.IfVersion(7))), zk.ErrBadVersion)
	time.Sleep(time.Second) // virtual time
	return testbed.Get(t, client, "/first") != ""
}
