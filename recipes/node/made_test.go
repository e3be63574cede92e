package node_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
)

// TestWhatAnEarlierSessionMadeIsForgotten has the session end when a node has just been made, and somebody make one by hand in the next
// session. It is taken over, and does not hold what the first one held.
func TestWhatAnEarlierSessionMadeIsForgotten(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		armed, made, goOn := yes(), make(chan struct{}), make(chan struct{})
		client := w.client(framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
			if e.Op == "create" && armed.CompareAndSwap(true, false) {
				close(made)
				<-goOn
			}
		}}))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		kept := begin(day(t), client, "kept")
		<-made
		require.NoError(t, w.ExpireSession(session.ID()))
		testbed.Receive(t, session.Done(), "the end of the session")
		_, err = client.Create(t.Context(), "/group/a", []byte("by hand"), framework.As(framework.Ephemeral))
		require.NoError(t, err)
		synctest.Wait()
		close(goOn)
		n := testbed.Receive(t, kept, "the node")
		require.NoError(t, n.Err())
		w.one(n, "kept")
		require.NoError(t, n.Close())
	})
}
