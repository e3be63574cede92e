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
)

// logFunc is a log whose messages go to a function.
type logFunc func(message string)

func (f logFunc) Enabled(context.Context, slog.Level) bool { return true }

func (f logFunc) Handle(_ context.Context, r slog.Record) error {
	f(r.Message)
	return nil
}

func (f logFunc) WithAttrs([]slog.Attr) slog.Handler { return f }
func (f logFunc) WithGroup(string) slog.Handler      { return f }

// TestCloseWhileASuspensionBecomesKnownEndsTheSession: the session that Close has ended must not be
// dropped like a connection that was lost.
func TestCloseWhileASuspensionBecomesKnownEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client *framework.Client
		var session *framework.Session
		closed := make(chan struct{})
		server, client := virtual(t, framework.WithLogger(slog.New(logFunc(func(message string) {
			if message == "connection suspended" {
				go func() {
					defer close(closed)
					client.Close()
				}()
				<-session.Done()
			}
		}))))
		session = testbed.Session(t, client)
		states := heard(t, client)
		testbed.Create(t, client, "/held", nil, framework.As(framework.Ephemeral))
		server.CutConnections()
		<-closed
		require.Empty(t, server.Sessions())
		require.False(t, server.Exists("/held"))
		require.NotContains(t, states(), connstate.Lost)
	})
}

// TestCloseWaitsForNoListener: also not if the listener waits for another goroutine that calls
// Close.
func TestCloseWaitsForNoListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t)
		returned := make(chan struct{})
		testbed.Listen(t, client, func(connstate.State) {
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				client.Close()
			}()
			<-closed
			close(returned)
		})
		server.CutConnections()
		<-returned
	})
}
