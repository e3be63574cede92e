package node_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestCloseOutlastsAServerThatRefusesCredentials closes a node while the only server that can be reached refuses the client's
// credentials. It takes them later: in the same session, or, which matters for a persistent node only, in the next one.
func TestCloseOutlastsAServerThatRefusesCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []node.Option
		lasts time.Duration
		lives bool
	}{
		"ephemeral":                     {nil, time.Second, true},
		"persistent":                    {[]node.Option{node.Persistent()}, time.Second, true},
		"persistent, after the session": {[]node.Option{node.Persistent()}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				refuses := testbed.RefuseCredentials(w.Server)
				client := w.client(framework.WithAuth("digest", []byte("user:password")))
				n := keep(t, client, "/group/a", "a", c.opts...)
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				refuses.Store(true)
				w.CutConnections()
				for !errors.Is(client.WaitConnected(t.Context()), zk.ErrAuthFailed) {
					time.Sleep(time.Millisecond) // virtual time: between two looks at what the client says
				}
				closed := make(chan error, 1)
				go func() { closed <- n.Close() }()
				synctest.Wait()
				time.Sleep(c.lasts) // virtual time, in which it must not give up
				refuses.Store(false)
				require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
				if !c.lives {
					w.settle() // it goes on in the background
				}
				require.Empty(t, w.nodes("/group"))
				require.Equal(t, c.lives, session.Err() == nil)
			})
		})
	}
}

// TestMembersKeepTheirPayloadsWhileCredentialsAreRefused has a member of a group lose its connection, and the server refuse its
// credentials after that. That says nothing about the payloads of others.
func TestMembersKeepTheirPayloadsWhileCredentialsAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		refuses := testbed.RefuseCredentials(w.Server)
		client := w.client(framework.WithAuth("digest", []byte("user:password")))
		other := join(t, w.client(), "/group", "other", "payload")
		m := join(t, client, "/group", "a", "a")
		require.Equal(t, "payload", members(m)["other"])
		refuses.Store(true)
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		gate := w.Block(zktest.OnOp(zktest.OpGetData), zktest.OnSession(session.ID()))
		require.NoError(t, other.Set(t.Context(), []byte("next")))
		testbed.Receive(t, gate.Arrived(), "the read of the next payload")
		w.CutConnections()
		time.Sleep(time.Second) // virtual time, in which the client is refused again and again
		require.ErrorIs(t, client.WaitConnected(t.Context()), zk.ErrAuthFailed)
		require.Equal(t, "payload", members(m)["other"])
		refuses.Store(false)
		gate.Open()
		w.settle()
		require.Equal(t, "next", members(m)["other"])
	})
}
