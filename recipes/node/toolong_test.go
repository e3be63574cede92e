package node_test

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

var tooLong = bytes.Repeat([]byte{'x'}, 1<<20)

func minutes(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// counted is a client, and how many connections it has made.
func (w world) counted(opts ...framework.Option) (client *framework.Client, connections *atomic.Int64) {
	connections = &atomic.Int64{}
	return w.client(append(opts, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		connections.Add(1)
		return w.DialContext(ctx, network, address)
	}))...), connections
}

// creates reports whether op makes a node.
func creates(op zktest.Op) bool {
	return op == zktest.OpCreate || op == zktest.OpCreate2 || op == zktest.OpCreateContainer
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

// TestANodeIsKeptWithWhatItHeldBefore: also if the node that is there is not known to hold that.
func TestANodeIsKeptWithWhatItHeldBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		opts   []node.Option
		happen func(w world, client *framework.Client)
	}{
		"another has made it anew": {[]node.Option{node.Persistent()}, func(w world, _ *framework.Client) {
			_, err := w.client().Multi(w.t.Context(), &zk.DeleteRequest{Path: "/p/n", Version: -1},
				&zk.CreateRequest{Path: "/p/n", Data: []byte("another's"), Acl: zk.WorldACL(zk.PermAll)})
			require.NoError(w.t, err)
		}},
		"the reply to its creation is lost": {nil, func(w world, client *framework.Client) {
			w.Inject(zktest.LoseReply, 0, func(r zktest.Request) bool { return r.Path == "/p/n" && creates(r.Op) })
			testbed.On(w.Server).KillSession(w.t, client)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client, connections := w.counted()
				n := keep(t, client, "/p/n", "first", tc.opts...)
				require.NoError(t, n.Set(minutes(t), []byte("short")))
				require.ErrorIs(t, n.Set(minutes(t), tooLong), node.ErrTooLong)
				tc.happen(w, client)
				w.settle()
				there, _ := n.Present()
				require.True(t, there)
				w.one(n, "short")
				require.ErrorIs(t, n.Err(), node.ErrTooLong)
				stays(t, connections)

				require.NoError(t, w.Delete("/p/n"))
				w.settle()
				w.one(n, "short")
				require.NoError(t, n.Close())
				require.Empty(t, w.nodes("/p"))
			})
		})
	}
}

// TestDataThatWereTakenOnceAreNotTooLong: connections end for other reasons. Others that are too long are not sent again because of that.
func TestDataThatWereTakenOnceAreNotTooLong(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		long := string(tooLong[:1_000_000])
		client, connections := w.counted(framework.WithRetryPolicy(retry.Never()))
		n := keep(t, client, "/p/n", long)
		require.ErrorIs(t, n.Set(minutes(t), tooLong), node.ErrTooLong)
		w.settle()
		before := connections.Load()
		const faults = 3
		for range faults {
			w.Inject(zktest.FailBefore, 0, func(r zktest.Request) bool { return r.Path == "/p/n" && creates(r.Op) })
		}
		require.NoError(t, w.Delete("/p/n"))
		w.settle()
		w.one(n, long)
		require.ErrorIs(t, n.Err(), node.ErrTooLong)
		require.LessOrEqual(t, connections.Load(), before+faults)
	})
}

// TestDataThatWereGivenUpDoNotStay: three replies are lost, so the node holds them.
func TestDataThatWereGivenUpDoNotStay(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		n := keep(t, w.client(framework.WithRetryPolicy(retry.Never())), "/p/n", "short")
		for range 3 {
			w.Inject(zktest.LoseReply, 0, func(r zktest.Request) bool { return r.Op == zktest.OpSetData && r.Path == "/p/n" })
		}
		require.ErrorIs(t, n.Set(minutes(t), tooLong[:1_000_000]), node.ErrTooLong)
		w.settle()
		w.one(n, "short")
		there, _ := n.Present()
		require.True(t, there)
		require.ErrorIs(t, n.Err(), node.ErrTooLong)
	})
}

// TestOnlyWritesOfTheDataCount: to delete another's persistent node none are sent.
func TestOnlyWritesOfTheDataCount(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		_, err := w.client().Create(t.Context(), "/p/n", nil, framework.As(framework.Ephemeral), framework.ContainerParents())
		require.NoError(t, err)
		for range 3 {
			w.Inject(zktest.FailBefore, 0, func(r zktest.Request) bool { return r.Op == zktest.OpMulti && r.Path == "/p/n" })
		}
		long := string(tooLong[:1_000_000])
		n, err := node.Keep(minutes(t), w.client(framework.WithRetryPolicy(retry.Never())), "/p/n", []byte(long), node.IfTaken(node.Replace), node.Persistent())
		require.NoError(t, err)
		w.one(n, long)
		require.NoError(t, n.Close())
	})
}

// TestReplacingSendsTheDataOnce: what is sent besides would be too long for the servers.
func TestReplacingSendsTheDataOnce(t *testing.T) {
	for version := range 3 {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				client, connections := w.counted()
				other := w.client()
				_, err := other.Create(t.Context(), "/p/n", nil, framework.As(framework.Ephemeral), framework.ContainerParents())
				require.NoError(t, err)
				for range version {
					_, err = other.Set(t.Context(), "/p/n", nil, -1)
					require.NoError(t, err)
				}
				long := string(tooLong[:1_000_000])
				n := keep(t, client, "/p/n", long, node.IfTaken(node.Replace))
				w.one(n, long)
				require.EqualValues(t, 1, connections.Load())
			})
		})
	}
}
