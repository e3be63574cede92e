package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// kinds is every kind of node.
var kinds = map[string][]node.Option{
	"plain": nil, "protected": {node.WithProtection()},
	"protected sequential": {node.WithProtection(), node.WithSequence()}, "without parents": {node.WithoutParents()},
	"persistent": {node.WithPersistence()}, "persistent protected": {node.WithPersistence(), node.WithProtection()},
	"replace": {node.WithIfTaken(node.Replace)}, "ttl": {node.WithTTL(time.Hour)},
}

// eachRequest runs test with the first request after its call of inject failing, then the second,
// and so on, until a run ends without meeting the fault; for each fault. Requests of the clients
// that inject is called with, if any, and heartbeats are spared.
func eachRequest(t *testing.T, test func(t *testing.T, w world, inject func(spared ...*framework.Client))) {
	for _, fault := range testbed.Faults {
		t.Run(fault.String(), func(t *testing.T) {
			met := true
			for n := 0; met && !t.Failed(); n++ {
				require.Less(t, n, 60, "the scenario never ends")
				virtual(t, func(t *testing.T, w world) {
					var injected *zktest.Injection
					test(t, w, func(spared ...*framework.Client) {
						var sessions []int64
						for _, client := range spared {
							sessions = append(sessions, testbed.Session(t, client).ID())
						}
						injected = w.Inject(fault, n, zktest.On(func(r zktest.Request) bool {
							return !slices.Contains(sessions, r.Session) && !heartbeat(r)
						}))
					})
					met = injected.Met()
					if t.Failed() {
						t.Logf("request %d: %v", n, injected)
					}
				}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
			}
		})
	}
}

// eachKind is eachRequest for each kind of node. The requests of other are spared.
func eachKind(t *testing.T, test func(t *testing.T, w world, subject, other *framework.Client, opts []node.Option)) {
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			eachRequest(t, func(t *testing.T, w world, inject func(...*framework.Client)) {
				subject, other := w.client(), w.client()
				testbed.Create(t, other, "/group", nil)
				inject(other)
				test(t, w, subject, other, opts)
			})
		})
	}
}

func TestLifeWithAnyRequestFailing(t *testing.T) {
	eachKind(t, func(t *testing.T, w world, subject, other *framework.Client, opts []node.Option) {
		n, err := node.Keep(testbed.Context(t), subject, "/group/a", []byte("a"), opts...)
		require.NoError(t, err, "one fault is no reason to fail")
		w.settle()
		w.one(n, "a")
		require.NoError(t, n.Set(testbed.Context(t), []byte("b")))
		w.settle() // the session may have ended just now
		w.one(n, "b")
		assert.True(t, present(n))
		assert.NoError(t, n.Problem())
		require.NoError(t, other.Delete(testbed.Context(t), n.Path()))
		w.settle()
		w.one(n, "b")
		closed(t, w, n, opts)
	})
}

// closed closes n, and checks that nothing is left.
func closed(t *testing.T, w world, n *node.Node, opts []node.Option) {
	t.Helper()
	// If a session ended at the wrong moment, a persistent node may be created after the limit.
	if err := n.Close(); len(opts) == 0 || !errors.Is(err, context.DeadlineExceeded) {
		require.NoError(t, err)
	}
	if len(opts) == 1 && fmt.Sprintf("%p", opts[0]) == fmt.Sprintf("%p", kinds["ttl"][0]) {
		w.one(n, "b") // the server deletes it
		return
	}
	assert.Empty(t, w.nodes("/group"), "closed, so the node is gone")
	w.settle()
	assert.Empty(t, w.nodes("/group"))
}

// TestReplacingWithAnyRequestFailing has another's node in the way.
func TestReplacingWithAnyRequestFailing(t *testing.T) {
	eachKind(t, func(t *testing.T, w world, subject, other *framework.Client, opts []node.Option) {
		testbed.Create(t, other, "/group/a", []byte("other"), framework.As(framework.Ephemeral))
		n, err := node.Keep(testbed.Context(t), subject, "/group/a", []byte("a"), append(opts, node.WithIfTaken(node.Replace))...)
		require.NoError(t, err)
		w.settle()
		require.NotEqual(t, "other", w.nodes("/group")[name(n)])
		require.NoError(t, n.Set(testbed.Context(t), []byte("b")))
		w.settle()
		require.Equal(t, "b", w.nodes("/group")[name(n)])
		if name(n) != "a" {
			require.Equal(t, "other", w.nodes("/group")["a"], "it was not in the way")
			require.NoError(t, other.Delete(testbed.Context(t), "/group/a"))
		}
		w.one(n, "b")
		closed(t, w, n, opts)
	})
}

// TestSecondLifeWithAnyRequestFailing begins after the end of the first session.
func TestSecondLifeWithAnyRequestFailing(t *testing.T) {
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			eachRequest(t, func(t *testing.T, w world, inject func(...*framework.Client)) {
				subject := w.client()
				testbed.Create(t, subject, "/group", nil)
				n := keep(t, subject, "/group/a", "a", opts...)
				w.settle()
				inject()
				testbed.On(w.Server).ExpireSession(t, subject)
				require.NoError(t, n.Set(testbed.Context(t), []byte("b")))
				w.settle()
				w.one(n, "b")
				closed(t, w, n, opts)
			})
		})
	}
}

// TestGivingUpLeavesNothing has Keep's context end while each of its requests is under way.
func TestGivingUpLeavesNothing(t *testing.T) { // CURATOR-297
	for kind, opts := range kinds {
		for name, block := range map[string]func(*zktest.Server, ...zktest.Match) *zktest.Gate{
			"requests": (*zktest.Server).Block, "replies": (*zktest.Server).BlockReplies,
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				arrived := true
				for i := 0; arrived; i++ {
					require.Less(t, i, 50, "the scenario never ends")
					virtual(t, func(t *testing.T, w world) {
						subject := w.client()
						testbed.Create(t, subject, "/group", nil)
						left := i
						gate := block(w.Server, zktest.On(func(zktest.Request) bool { left--; return left < 0 }))
						ctx := testbed.Timeout(t, time.Second)
						began := time.Now()
						n, err := node.Keep(ctx, subject, "/group/a", []byte("b"), opts...)
						select {
						case <-gate.Arrived():
						default:
							arrived = false
						}
						if err == nil {
							gate.Open()
							closed(t, w, n, opts)
							return
						}
						require.ErrorIs(t, err, context.DeadlineExceeded)
						require.LessOrEqual(t, time.Since(began), time.Second+10*time.Millisecond)
						time.Sleep(500 * time.Millisecond)
						gate.Open()
						w.settle()
						if kind != "ttl" {
							require.Empty(t, w.nodes("/group"))
						}
						require.NoError(t, subject.WaitConnected(t.Context()))
					}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
				}
			})
		}
	}
}

// TestOneThatGivesUpLeavesTheNextOnesNode has two Keeps of one client follow each other.
func TestOneThatGivesUpLeavesTheNextOnesNode(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		for range 200 { // chance decides who is first
			testbed.Create(t, other, "/group/a", nil, framework.ContainerParents())
			_, err := node.Keep(t.Context(), client, "/group/a", []byte("first"), node.WithIfTaken(node.Fail))
			require.ErrorIs(t, err, node.ErrTaken)
			require.NoError(t, other.Delete(t.Context(), "/group/a"))
			n := keep(t, client, "/group/a", "second", node.WithIfTaken(node.Fail))
			synctest.Wait()
			require.NoError(t, n.Problem())
			w.one(n, "second")
			require.NoError(t, n.Close())
		}
	})
}

// TestCloseWritesBeforeItLooks has the outcome of a create unknown. A read alone could show a state
// of before the create, from a server that lags behind.
func TestCloseWritesBeforeItLooks(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		subject, other := w.client(), w.client()
		n := keep(t, subject, "/group/a", "a")
		gate := w.BlockReplies(zktest.OnOp("create"))
		require.NoError(t, other.Delete(testbed.Context(t), "/group/a"))
		testbed.Receive(t, gate.Arrived(), "the create")
		var after []string
		w.Trace(func(e zktest.Event) {
			if e.Watch == "" {
				after = append(after, e.Request.Op)
			}
		})
		done := testbed.Go(n.Close)
		synctest.Wait()
		gate.Open()
		require.NoError(t, testbed.Receive(t, done, "the end of Close"))
		require.Equal(t, []string{"multi", "exists", "delete"}, after)
		require.Empty(t, w.nodes("/group"))
	})
}

// TestClose_WithoutAServer requires that Close returns within 5 s, whatever the session timeout is,
// names the node, and leaves the deletion to the client.
func TestClose_WithoutAServer(t *testing.T) {
	for kind, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.WithPersistence()}} {
		virtualRun(t, kind, func(t *testing.T, w world) {
			n := keep(t, w.client(framework.WithSessionTimeout(40*time.Second)), "/group/a", "a", opts...)
			w.Stop()
			began := time.Now()
			err := n.Close()
			require.Equal(t, 5*time.Second, time.Since(began))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, zk.ErrNoServer)
			require.ErrorContains(t, err, "close /group/a: node may remain")
			require.Equal(t, err, n.Close(), "later calls return the same error")
			require.NoError(t, w.Restart())
			time.Sleep(2 * time.Second) // virtual time, in which the client connects
			require.Empty(t, w.nodes("/group"), "the session still lives: the client deletes the node")
		})
	}
}

// TestClose_WhenTheSessionEnds requires that the end of the session ends the wait, and is not an
// error.
func TestClose_WhenTheSessionEnds(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		n := keep(t, w.client(framework.WithSessionTimeout(4*time.Second)), "/group/a", "a")
		w.Stop()
		require.NoError(t, n.Close())
	})
}

// TestCloseLeavesAnothersNode has another client take the path at the last moment.
func TestCloseLeavesAnothersNode(t *testing.T) {
	for kind, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.WithPersistence()}} {
		virtualRun(t, kind, func(t *testing.T, w world) {
			other := w.client()
			n := keep(t, w.client(), "/group/a", "a", opts...)
			_, err := other.Multi(testbed.Context(t), &zk.DeleteRequest{Path: "/group/a", Version: -1},
				&zk.CreateRequest{Path: "/group/a", Data: []byte("other"), Flags: zk.FlagEphemeral})
			require.NoError(t, err)
			require.NoError(t, n.Close())
			require.Equal(t, map[string]string{"a": "other"}, w.nodes("/group"))
		})
	}
}

// TestADeletionThatMayBeDoneIsNotRepeated loses the reply to the deletion of a closed node. Before
// the client is connected again another client creates a node, of the same version. It is not
// deleted. The simulation found it.
func TestADeletionThatMayBeDoneIsNotRepeated(t *testing.T) {
	for name, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.WithPersistence()}} {
		virtualRun(t, name, func(t *testing.T, w world) {
			n, other := keep(t, w.client(), "/group/a", "ours", opts...), w.client()
			testbed.Exists(t, other, "/group/a") // it is connected
			w.RefuseConnections(true)
			w.Inject(zktest.LoseReply, 0, zktest.OnOp("delete"))
			closed := testbed.Go(n.Close)
			synctest.Wait()
			require.Empty(t, w.nodes("/group"))
			testbed.Create(t, other, "/group/a", []byte("theirs"))
			w.RefuseConnections(false)
			require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
			require.Equal(t, map[string]string{"a": "theirs"}, w.nodes("/group"))
		})
	}
}
