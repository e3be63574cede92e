package framework_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCloseDeletesWhatAFailedCreateHasLeft at once, with a server that can be reached all the time,
// and whatever has become of the session.
func TestCloseDeletesWhatAFailedCreateHasLeft(t *testing.T) {
	for name, test := range map[string]struct {
		fault zktest.Fault
		opts  []zktest.Option
	}{
		"after a lost reply":               {zktest.LoseReply, nil},
		"after the session":                {zktest.ExpireAfter, nil},
		"after a lost reply of a Keeper":   {zktest.LoseReply, []zktest.Option{zktest.LikeKeeper("newest")}},
		"after the session, with latency":  {zktest.ExpireAfter, []zktest.Option{zktest.WithLatency(20 * time.Millisecond)}},
		"after a lost reply, with latency": {zktest.LoseReply, []zktest.Option{zktest.WithLatency(20 * time.Millisecond)}},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server := zktest.NewServer(t, append(test.opts, zktest.WithInMemory())...)
			client := testbed.ClientOf(t, server, framework.WithRetryPolicy(retry.Never()))
			require.NoError(t, client.WaitConnected(t.Context()))
			require.NoError(t, server.Create("/p", nil))
			server.Inject(test.fault, 0, zktest.OnCreate())
			require.Error(t, testbed.Err(client.Create(t.Context(), "/p/a", nil, framework.Protected())))
			client.Close()
			time.Sleep(time.Hour) // virtual time, in which the late create is deleted
			require.Empty(t, testbed.ServerChildren(t, server, "/p"))
		})
	}
}

// TestCloseDeletesWhatASessionMakesThatIsLostToTheClientAlone: the servers know it still, and carry
// out its create when the client is closed.
func TestCloseDeletesWhatASessionMakesThatIsLostToTheClientAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		require.NoError(t, server.Create("/p", nil))
		first := testbed.Session(t, client)
		gate := server.Block(zktest.OnCreate())
		ctx, cancel := context.WithCancel(t.Context())
		result := testbed.Go(func() error {
			return testbed.Err(client.Create(ctx, "/p/a", nil, framework.Protected()))
		})
		<-gate.Arrived()
		cancel()
		require.Error(t, <-result)
		<-first.Done()
		client.Close()
		gate.Open()
		time.Sleep(time.Hour) // virtual time
		require.Empty(t, testbed.ServerChildren(t, server, "/p"))
	}, framework.WithExpirationPercent(50), framework.WithRetryPolicy(retry.Never()))
}

// TestCloseDialsNothingWithoutNeed: nothing is left, and the session has ended before.
func TestCloseDialsNothingWithoutNeed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		server.RefuseConnections(true)
		require.NoError(t, server.ExpireSession(session.ID()))
		<-session.Done()
		server.ResetCounts()
		began := time.Now()
		client.Close()
		require.Zero(t, time.Since(began))
	})
}

// TestCloseDeletesWhatAGuaranteedDeleteHasLeftToTheBackground.
func TestCloseDeletesWhatAGuaranteedDeleteHasLeftToTheBackground(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		require.NoError(t, server.Create("/a", nil))
		server.Inject(zktest.FailBefore, 0, zktest.OnOp("delete"))
		require.ErrorIs(t, client.Delete(testbed.Cancelled(t), "/a", framework.Guaranteed()), context.Canceled)
		client.Close()
		require.False(t, server.Exists("/a"))
	})
}
