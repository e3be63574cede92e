package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// A test in virtual time: the outage of an hour takes no time. In your package the function is
// called TestWorkAfterAnOutage.
func ExampleWithInMemory() {
	_ = workAfterAnOutage // go test runs it
}

func workAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client, err := framework.New(server.Servers(), framework.WithDialer(server.DialContext))
		require.NoError(t, err)
		defer client.Close()
		m, err := mutex.New(client, "/reports/nightly")
		require.NoError(t, err)
		hold, err := m.Acquire(t.Context())
		require.NoError(t, err)

		server.Stop()
		<-hold.Done() // at once: no server can be reached
		time.Sleep(time.Hour)
		require.NoError(t, server.Restart())
		require.ErrorIs(t, hold.Release(), framework.ErrLost)

		hold, err = m.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, hold.Release())
	})
}
