package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestTheNodeOfAProtectedCreateIsOurs has the session end for us, and not yet for the servers, when the node has just been made. It
// is replaced by one of the same name.
func TestTheNodeOfAProtectedCreateIsOurs(t *testing.T) {
	for name, opts := range map[string][]node.Option{
		"fail":       {node.Protected(), node.IfTaken(node.Fail)},
		"sequential": {node.Protected(), node.Sequential()},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				armed, made, goOn := yes(), make(chan struct{}), make(chan struct{})
				client := w.client(framework.WithExpirationPercent(50),
					framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
						if e.Op == "create" && armed.CompareAndSwap(true, false) {
							close(made)
							<-goOn
						}
					}}))
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				ended := make(chan error, 1)
				kept := make(chan *node.Node, 1)
				go func() {
					n, err := node.Keep(t.Context(), client, "/group/a", []byte("a"), opts...)
					kept <- n
					ended <- err
				}()
				<-made
				before := w.nodes("/group")
				require.Len(t, before, 1)
				w.Freeze(session.ID())
				testbed.Receive(t, session.Done(), "the end of the session")
				close(goOn)
				n := testbed.Receive(t, kept, "the end of Keep")
				require.NoError(t, testbed.Receive(t, ended, "the end of Keep"))
				w.settle()
				require.Equal(t, before, w.nodes("/group"))
				require.NoError(t, n.Close())
				require.Empty(t, w.nodes("/group"))
			})
		})
	}
}

// TestAProtectedPersistentNodeThatComesAfterItsSessionGoes has the create of a persistent node stand still in a server for nearly as
// long as the servers keep a session that the client has given up: its timeout, and the rest of a tick. Keep was given up before.
func TestAProtectedPersistentNodeThatComesAfterItsSessionGoes(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithExpirationPercent(50), framework.WithSessionTimeout(4*time.Second))
		require.NoError(t, w.Create("/group", nil))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		time.Sleep(1900 * time.Millisecond) // virtual time, to the end of a tick
		gate := w.Block(zktest.OnOp(zktest.OpCreate))
		ctx, cancel := context.WithCancel(t.Context())
		kept := begin(ctx, client, "a", node.Persistent(), node.Protected())
		testbed.Receive(t, gate.Arrived(), "the create")
		cancel()
		testbed.Receive(t, session.Done(), "the end of the session")
		time.Sleep(4300 * time.Millisecond) // virtual time, until just before the servers end the session
		require.True(t, slices.ContainsFunc(w.Sessions(), func(s zktest.Session) bool { return s.ID == session.ID() }))
		gate.Open()
		w.settle()
		require.Empty(t, kept)
		require.Empty(t, w.nodes("/group"))
	})
}
