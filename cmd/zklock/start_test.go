//go:build unix

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestNothingIsStartedWithoutTheLock loses the lock after the last request to the servers, and
// before zklock uses the reply.
func TestNothingIsStartedWithoutTheLock(t *testing.T) {
	for _, onLoss := range []string{lossTerm, lossIgnore} {
		server := zktest.NewServer(t)
		var armed atomic.Bool
		asked, goOn := make(chan struct{}), make(chan struct{})
		client := testbed.On(server).Client(t, framework.WithObserver(framework.Observer{
			Operation: func(_ context.Context, e framework.OperationEvent) {
				if e.Op == "exists" && armed.CompareAndSwap(true, false) {
					close(asked)
					<-goOn
				}
			},
		}))
		r, said := &run{}, &bytes.Buffer{}
		require.NoError(t, parse(r, "--on-loss", onLoss))
		app := newApp(said, said)
		q, hold, err := r.enter(t.Context(), app, client, "/lock")
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "started")
		j := testbed.Must(newJob([]string{"/lock", "--", "sh", "-c", "echo > " + file}))
		armed.Store(true)
		ended := testbed.Go(func() error { return r.hold(t.Context(), app, q, hold, j) }) // ends with the command
		testbed.Receive(t, asked, "the question for the token")
		require.NoError(t, server.Delete(hold.Path()))
		testbed.Receive(t, hold.Done(), "word of the loss")
		close(goOn)
		err = testbed.Receive(t, ended, "the end")
		var end *cli.Exit
		require.ErrorAs(t, err, &end)
		require.Equal(t, exitLost, end.Code)
		require.NoFileExists(t, file)
	}
}
