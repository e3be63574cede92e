package framework_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// logFunc is a log whose records go to a function.
type logFunc func(slog.Record)

func (f logFunc) Enabled(context.Context, slog.Level) bool { return true }
func (f logFunc) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f logFunc) WithGroup(string) slog.Handler            { return f }

func (f logFunc) Handle(_ context.Context, r slog.Record) error {
	f(r)
	return nil
}

// keep is the option that writes to the log.
func (f logFunc) keep() framework.Option { return framework.WithLogger(slog.New(f)) }

// TestCloseWhileASuspensionBecomesKnownEndsTheSession: the session that Close has ended must not be
// dropped like a connection that was lost.
func TestCloseWhileASuspensionBecomesKnownEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client *framework.Client
		var session *framework.Session
		var closed <-chan error
		server, client := virtual(t, logFunc(func(r slog.Record) {
			if r.Message == "connection suspended" {
				closed = testbed.Go(client.Close)
				<-session.Done()
			}
		}).keep())
		session = testbed.Session(t, client)
		states := heard(t, client)
		testbed.Create(t, client, "/held", nil, framework.As(framework.Ephemeral))
		server.CutConnections()
		synctest.Wait()
		require.NoError(t, <-closed)
		require.Empty(t, server.Sessions())
		require.False(t, server.Exists("/held"))
		require.NotContains(t, states(), connstate.Lost)
	})
}

// TestCloseWaitsForNoListener: also not if the listener waits for another goroutine that calls
// Close.
func TestCloseWaitsForNoListener(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		returned := make(chan struct{})
		testbed.Listen(t, client, func(connstate.State) {
			<-testbed.Go(client.Close)
			close(returned)
		})
		server.CutConnections()
		<-returned
	})
}
