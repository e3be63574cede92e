package framework_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestASessionIsConfirmedForWhoDependsOnItAsAConnectionBegins adds a dependent when the session's
// next connection is agreed on and not in use yet, and nothing was proven for most of the timeout.
func TestASessionIsConfirmedForWhoDependsOnItAsAConnectionBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connected := 0
		slow := logFunc(func(r slog.Record) { // takes a while for the second connection
			if r.Message != "connected" {
				return
			}
			if connected++; connected == 2 {
				time.Sleep(100 * time.Millisecond) // virtual time, in which the connection waits for its log
			}
		})
		server, client := virtual(t, slow.keep())
		session := testbed.Session(t, client)
		time.Sleep(8 * time.Second) // virtual time
		server.CutConnections()
		time.Sleep(50 * time.Millisecond) // virtual time
		require.Equal(t, connstate.Suspended, client.State())
		testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})
		time.Sleep(time.Minute) // virtual time
		require.NoError(t, session.Err())
	})
}

// TestAConnectionBeginsWithOneHeartbeat if the session has a dependent.
func TestAConnectionBeginsWithOneHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(time.Millisecond))
		client := testbed.ClientOf(t, server, framework.WithSessionTimeout(10*time.Second))
		testbed.Depend(t, testbed.Session(t, client), connstate.LostEndsHold, func(error) {})
		for range 20 {
			time.Sleep(5300 * time.Millisecond) // virtual time
			server.CutConnections()
			server.ResetCounts()
			time.Sleep(2 * time.Second) // virtual time: less than 9/32 of 10 s
			require.Equal(t, connstate.Reconnected, client.State())
			require.Equal(t, 1, int(server.Requests().Requests["multi"]))
		}
	})
}

// TestASyncConfirmsTheSession confirms a session even if nothing was answered for long, and the
// first answers are too young for a write to prove them.
func TestASyncConfirmsTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		require.Equal(t, 10*time.Second, session.Timeout())
		server.Freeze()
		time.Sleep(6400 * time.Millisecond) // virtual time: less than a client waits for an answer
		server.Thaw()
		time.Sleep(2500 * time.Millisecond) // virtual time: less than 9/32 of the timeout
		_, err := session.Depend(connstate.LostEndsHold, func(error) {})
		require.ErrorIs(t, err, framework.ErrSessionLost)
		server.ResetCounts()
		require.NoError(t, client.Sync(t.Context()))
		require.LessOrEqual(t, server.Requests().Requests["multi"], 10, "there are pauses")
		testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})
	})
}

// TestASyncOfAnIdleSessionDoesNotPause: two writes, one behind the other, confirm it.
func TestASyncOfAnIdleSessionDoesNotPause(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		time.Sleep(time.Hour) // virtual time
		began := time.Now()
		require.NoError(t, client.Sync(t.Context()))
		require.Zero(t, time.Since(began))
		testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})
	})
}

// TestASyncEndsIfNobodyCanDependOnTheSession, since answers take too long.
func TestASyncEndsIfNobodyCanDependOnTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(4500*time.Millisecond))
		client := testbed.ClientOf(t, server, framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, client.WaitConnected(t.Context()))
		time.Sleep(time.Minute) // virtual time
		require.NoError(t, client.Sync(testbed.Timeout(t, time.Minute)))
	})
}
