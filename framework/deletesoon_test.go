package framework_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

// removal is what a delete without a waiting goroutine is told.
type removal struct {
	found bool
	err   error
}

// beginDelete has what is told go to a channel with room for a second one, which must not come.
func beginDelete(t *testing.T, client *framework.Client, path string) <-chan removal {
	session, err := client.Session(testbed.Context(t))
	require.NoError(t, err)
	removals := make(chan removal, 2)
	ctx := framework.InSession(session.Context(), session)
	clientapi.DeleteSoon(ctx, client, path, func(found bool, err error) { removals <- removal{found, err} })
	return removals
}

// TestDeleteSoonHasItsPlaceAtOnce: what is sent after it finds the node deleted.
func TestDeleteSoonHasItsPlaceAtOnce(t *testing.T) {
	server := zktest.NewServer(t)
	client, ctx := newClient(t, server), testbed.Context(t)
	for range 100 {
		path, err := client.Create(ctx, "/a", nil, framework.As(framework.Ephemeral))
		require.NoError(t, err)
		removals := beginDelete(t, client, path)
		_, err = client.Create(ctx, "/a", nil, framework.As(framework.Ephemeral))
		require.NoError(t, err)
		require.Equal(t, removal{true, nil}, testbed.Receive(t, removals, "the answer"))
		require.NoError(t, client.Delete(ctx, path, -1))
		require.Equal(t, removal{false, nil}, testbed.Receive(t, beginDelete(t, client, path), "the answer that there is none"))
	}
}

// TestDeleteSoonDoesNotGiveUp: a delete that is not carried out, or not answered, is repeated.
func TestDeleteSoonDoesNotGiveUp(t *testing.T) {
	seen := &record{}
	for name, opts := range map[string][]framework.Option{"": nil, "observed": {framework.WithObserver(seen.observer())}} {
		for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
			t.Run(name+" "+fault.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, client := virtual(t, opts...)
					path, err := client.Create(t.Context(), "/a", nil, framework.As(framework.Ephemeral))
					require.NoError(t, err)
					server.Inject(fault, 0, zktest.OnOp(zktest.OpDelete))
					removals := beginDelete(t, client, path)
					require.Equal(t, removal{true, nil}, testbed.Receive(t, removals, "the answer"))
					require.NotContains(t, server.Tree(), "/a")
					time.Sleep(time.Second) // virtual time, in which no second answer may come
					require.Empty(t, removals)
				})
			})
		}
	}
	require.Equal(t, "delete", seen.last().Op)
}

// TestDeleteSoonEndsWithTheSession, and with the client.
func TestDeleteSoonEndsWithTheSession(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *zktest.Server, *framework.Client, int64){
		"session": func(t *testing.T, server *zktest.Server, _ *framework.Client, id int64) {
			require.NoError(t, server.ExpireSession(id))
		},
		"client": func(_ *testing.T, _ *zktest.Server, client *framework.Client, _ int64) { client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := virtual(t)
				path, err := client.Create(t.Context(), "/a", nil, framework.As(framework.Ephemeral))
				require.NoError(t, err)
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				gate := server.Block(zktest.OnOp(zktest.OpDelete))
				removals := beginDelete(t, client, path)
				testbed.Receive(t, gate.Arrived(), "the request")
				end(t, server, client, session.ID())
				gate.Open()
				require.ErrorIs(t, testbed.Receive(t, removals, "the end").err, session.Err())
				time.Sleep(session.Timeout()) // virtual time: the server may not have been told, and ends the session then
				require.NotContains(t, server.Tree(), "/a")
			})
		})
	}
}
