package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, servers []string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, migrate(testbed.Context(t), &out, servers, "/once", 5))
	require.Equal(t, "workers     5\nfailed      1\nmigrations  1\n", out.String())
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

// TestAnotherDoesWhatADeadProcessBegan: the first process loses its session while it works. Its
// work ends before the next process begins.
func TestAnotherDoesWhatADeadProcessBegan(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b := w.Client(), w.Client()
		working := make(chan context.Context, 1)
		first := testbed.Go(func() error {
			return Once(t.Context(), a, "/once", func(ctx context.Context) error {
				working <- ctx
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
		work := <-working
		w.Server.Freeze(testbed.Session(t, a).ID())
		require.NoError(t, Once(t.Context(), b, "/once", func(context.Context) error {
			if work.Err() == nil {
				return errors.New("two at a time")
			}
			return nil
		}))
		w.Server.Thaw()
		require.ErrorIs(t, <-first, framework.ErrSessionLost)
		require.NoError(t, Once(t.Context(), a, "/once", nil), "it is done")
	})
}
