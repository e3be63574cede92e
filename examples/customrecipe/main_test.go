package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, servers []string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, migrate(testbed.Context(t), &out, servers, "/once", 5))
	require.Equal(t, "workers     5\nfailed      1\nmigrations  1\n", out.String())
}

func TestOnTheEmbeddedServer(t *testing.T) { check(t, zktest.NewServer(t).Servers()) }

func TestOnAnEnsemble(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly) // the recipes are tested there for each push
	check(t, ensemble.New(t).Servers())
}

// TestAnotherDoesWhatADeadProcessBegan: the first process loses its session while it works. Its
// work ends before the next process begins.
func TestAnotherDoesWhatADeadProcessBegan(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		a, b := w.Client(), w.Client()
		working := make(chan context.Context, 1)
		first := make(chan error, 1)
		go func() {
			first <- Once(t.Context(), a, "/once", func(ctx context.Context) error {
				working <- ctx
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		work := <-working
		session, err := a.Session(t.Context())
		require.NoError(t, err)
		w.Server.Freeze(session.ID())
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
