package node_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
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
