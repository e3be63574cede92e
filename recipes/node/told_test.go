package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestAnEventThatTheNodeWasDeletedIsBelieved has another client replace a node, and its owner's next look at it be held up. The
// owner has been told of the deletion by then.
func TestAnEventThatTheNodeWasDeletedIsBelieved(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		n := keep(t, client, "/group/a", "a", node.WithErrorPolicy(connstate.Session))
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		gate := w.Block(zktest.OnOp(zktest.OpExists), zktest.OnSession(session.ID()))
		thief := keep(t, other, "/group/a", "thief", node.IfTaken(node.Replace))
		testbed.Receive(t, gate.Arrived(), "the next look")
		synctest.Wait()
		there, _ := n.Present()
		assert.False(t, there, "the event has said so")
		assert.ErrorIs(t, n.Err(), node.ErrDeleted)
		gate.Open()
		w.settle()
		await(t, n, reason(node.ErrTaken))
		w.one(thief, "thief")
	})
}

// TestANodeThatGoesWhileTheSessionIsProvenIsNotShown has a Keep be so slow that it must prove its session before it shows the
// node. Meanwhile another client replaces that.
func TestANodeThatGoesWhileTheSessionIsProvenIsNotShown(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, read, goOn := w.standsStill(yes())
		other := w.client()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		slow := begin(ctx, client, "slow")
		<-read
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute) // longer than the session, which nobody depends on
		gate := w.Block(zktest.OnOp(zktest.OpMulti), zktest.OnSession(session.ID()))
		close(goOn)
		testbed.Receive(t, gate.Arrived(), "the proof")
		thief := keep(t, other, "/group/a", "thief", node.IfTaken(node.Replace))
		gate.Open()
		w.settle()
		require.Empty(t, slow, "the node was gone before it was shown")
		w.one(thief, "thief")
		await(t, thief, isThere)
	})
}

// TestAnEventThatTheNodeWasDeletedIsBelievedDuringAWrite has somebody delete a node while its owner waits for the answer to a
// write to it.
func TestAnEventThatTheNodeWasDeletedIsBelievedDuringAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		op  zktest.Op
		ttl []node.Option
	}{
		"of its data":  {zktest.OpSetData, nil},
		"of its touch": {zktest.OpCreateTTL, []node.Option{node.WithTTL(time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client := w.client()
				n := keep(t, client, "/group/a", "a", append(c.ttl, node.WithErrorPolicy(connstate.Session))...)
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				gate := w.Block(zktest.OnOp(c.op), zktest.OnSession(session.ID()))
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = n.Set(ctx, []byte("b")) }()
				if c.ttl != nil {
					time.Sleep(30*time.Minute - time.Second) // virtual time, until a touch is near
				}
				testbed.Receive(t, gate.Arrived(), "the write")
				require.NoError(t, w.Delete("/group/a"))
				synctest.Wait()
				there, _ := n.Present()
				assert.False(t, there, "the event has said so")
				assert.ErrorIs(t, n.Err(), node.ErrDeleted)
				gate.Open()
				w.settle()
				await(t, n, isThere)
				w.one(n, "b")
				cancel()
				require.NoError(t, n.Close())
			}, zktest.WithTTLNodes())
		})
	}
}
