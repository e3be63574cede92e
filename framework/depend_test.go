package framework_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
)

// slowLog is a logger that takes a while for the second connection.
type slowLog struct {
	slog.Handler
	connected int
}

func (l *slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *slowLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "connected" {
		if l.connected++; l.connected == 2 {
			time.Sleep(100 * time.Millisecond) // virtual time
		}
	}
	return nil
}

// TestASessionIsConfirmedForWhoDependsOnItAsAConnectionBegins has somebody depend on a session when its next connection is agreed on and
// not in use yet, and nothing was proven for most of the timeout.
func TestASessionIsConfirmedForWhoDependsOnItAsAConnectionBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, framework.WithLogger(slog.New(&slowLog{})))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		time.Sleep(8 * time.Second) // virtual time
		server.CutConnections()
		time.Sleep(50 * time.Millisecond) // virtual time
		require.Equal(t, connstate.Suspended, client.State())
		_, err = session.Depend(connstate.Session, func(error) {})
		require.NoError(t, err)
		time.Sleep(time.Minute) // virtual time
		require.NoError(t, session.Err())
	})
}
