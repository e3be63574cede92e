package node_test

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
)

var tooLong = bytes.Repeat([]byte{'x'}, 1<<20)

func minutes(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// counted is a client, and how many connections it has made.
func (w world) counted() (client *framework.Client, connections *atomic.Int64) {
	connections = &atomic.Int64{}
	return w.client(framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		connections.Add(1)
		return w.DialContext(ctx, network, address)
	})), connections
}

// stays checks that no more connections are made.
func stays(t *testing.T, connections *atomic.Int64) {
	before := connections.Load()
	time.Sleep(5 * time.Minute) // in virtual time: data that are sent again would cut several
	require.Equal(t, before, connections.Load(), "the data are not sent again")
}

// TestDataThatAreTooLongAreGivenUp: servers hang up on them, each time, and everything that uses the client loses its connection.
func TestDataThatAreTooLongAreGivenUp(t *testing.T) {
	for name, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.Persistent()}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client, connections := w.counted()
				n := keep(t, client, "/p/n", "short", opts...)
				require.ErrorIs(t, n.Set(minutes(t), tooLong), node.ErrTooLong)
				w.settle()
				require.LessOrEqual(t, connections.Load(), int64(4))
				stays(t, connections)
				there, _ := n.Present()
				require.True(t, there)
				require.ErrorIs(t, n.Err(), node.ErrTooLong)
				w.one(n, "short")

				require.NoError(t, w.Delete("/p/n"))
				w.settle()
				w.one(n, "short")
				require.ErrorIs(t, n.Err(), node.ErrTooLong)

				testbed.On(w.Server).KillSession(t, client)
				w.settle()
				w.one(n, "short")
				require.ErrorIs(t, n.Err(), node.ErrTooLong)

				require.NoError(t, n.Set(minutes(t), []byte("another")))
				await(t, n, isThere)
				w.one(n, "another")
				require.NoError(t, n.Close())
				require.Empty(t, w.nodes("/p"))
			})
		})
	}
}

// TestDataThatAreTooLongAreGivenUpWhereTheNodeIsMadeAgain: they were not sent before.
func TestDataThatAreTooLongAreGivenUpWhereTheNodeIsMadeAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, connections := w.counted()
		n := keep(t, client, "/p/n", "short")
		w.Stop()
		set := make(chan error, 1)
		go func() { set <- n.Set(minutes(t), tooLong) }()
		w.settle() // the session is over
		require.NoError(t, w.Restart())
		require.ErrorIs(t, testbed.Receive(t, set, "an error"), node.ErrTooLong)
		w.settle()
		w.one(n, "short")
		stays(t, connections)
	})
}

func TestDataThatAreTooLongForANewNode(t *testing.T) {
	for name, opts := range map[string][]node.Option{
		"plain": nil, "persistent": {node.Persistent()}, "protected": {node.Protected()}, "numbered": {node.Sequential()},
		"replacing": {node.IfTaken(node.Replace)}, "replacing, persistent": {node.IfTaken(node.Replace), node.Persistent()},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client, connections := w.counted()
				_, err := w.client().Create(t.Context(), "/p/n", []byte("another's"), framework.As(framework.Ephemeral), framework.ContainerParents())
				require.NoError(t, err)
				path := "/p/m"
				if len(opts) > 0 && name[0] == 'r' {
					path = "/p/n"
				}
				_, err = node.Keep(minutes(t), client, path, tooLong, opts...)
				require.ErrorIs(t, err, node.ErrTooLong)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				w.settle()
				stays(t, connections)
				require.Subset(t, []string{"n"}, slices.Collect(maps.Keys(w.nodes("/p"))), "none of ours stays")
			})
		})
	}
}
