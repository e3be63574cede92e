package node_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(line))
	return len(line), nil
}

// with counts the lines that have all parts in them.
func (l *lines) with(parts ...string) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			count++
		}
	}
	return count
}

// day ends in a day, when it is clear that a test hangs.
func day(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// perms makes an ACL for everybody.
func perms(p int32) []zk.ACL { return zk.WorldACL(p) }

func TestAMissingPermissionIsReportedAndTriedAgain(t *testing.T) { // CUR-NOD-08, CURATOR-228
	virtual(t, func(t *testing.T, w world) {
		log := &lines{}
		client, other := w.client(framework.WithLogger(slog.New(slog.NewTextHandler(log, nil)))), w.client()
		ctx := testbed.Context(t)
		_, err := other.Create(ctx, "/group", nil, framework.ACL(perms(zk.PermRead|zk.PermAdmin)))
		require.NoError(t, err)
		w.ResetCounts()
		short, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err = node.Keep(short, client, "/group/a", []byte("a"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		tries := w.Requests().Requests[zktest.OpCreate]
		require.Greater(t, tries, 60, "it is tried again, for ever")
		require.Less(t, tries, 400, "with pauses")
		require.Equal(t, 1, log.with("WARN", "node is not kept", "/group/a", "not authenticated"), "and logged once")

		kept := make(chan *node.Node, 1)
		go func() {
			n, err := node.Keep(day(t), client, "/group/a", []byte("a"))
			assert.NoError(t, err)
			kept <- n
		}()
		time.Sleep(time.Hour)
		_, err = other.SetACL(t.Context(), "/group", perms(zk.PermAll), -1)
		require.NoError(t, err)
		n := testbed.Receive(t, kept, "the node")

		// It may be made, but not written.
		_, err = other.SetACL(t.Context(), "/group/a", perms(zk.PermRead|zk.PermAdmin), -1)
		require.NoError(t, err)
		require.ErrorIs(t, n.Set(t.Context(), []byte("b")), zk.ErrNoAuth)
		there, _ := n.Present()
		require.True(t, there, "the old node is there")
		require.ErrorIs(t, n.Err(), zk.ErrNoAuth)
		w.one(n, "a")
		w.settle()
		require.ErrorIs(t, n.Err(), zk.ErrNoAuth)
		_, err = other.SetACL(t.Context(), "/group/a", perms(zk.PermAll), -1)
		require.NoError(t, err)
		w.settle()
		require.NoError(t, n.Err())
		w.one(n, "b")

		// Nor deleted.
		_, err = other.SetACL(t.Context(), "/group", perms(zk.PermRead|zk.PermAdmin), -1)
		require.NoError(t, err)
		require.ErrorIs(t, n.Close(), zk.ErrNoAuth)
	})
}

func TestAPermissionThatIsLostMeanwhile(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		_, err := other.Create(t.Context(), "/group", nil)
		require.NoError(t, err)
		n := keep(t, client, "/group/a", "a")
		_, err = other.SetACL(t.Context(), "/group", perms(zk.PermAll&^zk.PermCreate), -1)
		require.NoError(t, err)
		require.NoError(t, other.Delete(t.Context(), "/group/a", -1))
		await(t, n, reason(zk.ErrNoAuth))
		time.Sleep(24 * time.Hour)
		_, err = other.SetACL(t.Context(), "/group", perms(zk.PermAll), -1)
		require.NoError(t, err)
		await(t, n, isThere)
		w.one(n, "a")
	})
}

func TestStartedBeforeTheServer(t *testing.T) { // CUR-CST-15, CUR-NOD-09, CURATOR-53, CURATOR-97
	virtual(t, func(t *testing.T, w world) {
		w.Stop()
		client, err := framework.New(w.Servers(), framework.WithDialer(w.DialContext), framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		defer client.Close()
		states := make(chan connstate.State, 10)
		_, err = client.Listen(func(s connstate.State) { states <- s })
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = node.Keep(ctx, client, "/group/a", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zk.ErrNoServer, "it is not mistaken for something else")

		kept := make(chan *node.Node, 1)
		go func() {
			n, err := node.Keep(day(t), client, "/group/a", []byte("a"))
			assert.NoError(t, err)
			kept <- n
		}()
		time.Sleep(time.Hour)
		require.NoError(t, w.Restart())
		n := testbed.Receive(t, kept, "the node")
		w.one(n, "a")
		w.Stop()
		time.Sleep(2 * time.Second)
		require.NoError(t, w.Restart())
		for testbed.Receive(t, states, "a state") != connstate.Connected {
		}
		for _, want := range []connstate.State{connstate.Suspended, connstate.Reconnected} {
			require.Equal(t, want, testbed.Receive(t, states, "a state"))
		}
		await(t, n, isThere)
		require.NoError(t, n.Close())
	})
}

func TestDataSetWhileDisconnectedAreWritten(t *testing.T) { // CURATOR-154
	for name, outage := range map[string]time.Duration{"short": 2 * time.Second, "long": time.Hour} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				n := keep(t, w.client(), "/group/a", "a")
				w.Stop()
				await(t, n, reason(framework.ErrSuspended))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := n.Set(ctx, []byte("b"))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, framework.ErrSuspended)
				time.Sleep(outage)
				require.NoError(t, w.Restart())
				await(t, n, isThere)
				w.one(n, "b")
			})
		})
	}
}

func TestTheLastOfManySetsWins(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		n := keep(t, w.client(), "/group/a", "a")
		gate := w.Block(zktest.OnOp(zktest.OpSetData))
		var wg sync.WaitGroup
		for _, text := range []string{"b", "c", "d"} {
			wg.Go(func() { assert.NoError(t, n.Set(t.Context(), []byte(text))) })
			synctest.Wait()
		}
		gate.Open()
		wg.Wait()
		w.one(n, "d")
		require.Equal(t, 2, w.Requests().Requests[zktest.OpSetData], "c was overtaken")
	})
}

// TestAForeignWriteIsLeftAlone has an operator write to the node.
func TestAForeignWriteIsLeftAlone(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		n := keep(t, client, "/group/a", "a")
		_, err := other.Set(t.Context(), "/group/a", []byte("operator"), -1)
		require.NoError(t, err)
		w.settle()
		w.one(n, "operator")
		require.NoError(t, n.Set(t.Context(), []byte("b")), "the version is another one now")
		w.one(n, "b")
		require.NoError(t, n.Close())
	})
}

// TestTheNodeOfADyingSessionIsReplaced has the client give its session up before the server does.
func TestTheNodeOfADyingSessionIsReplaced(t *testing.T) {
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				// Half of the session's time is enough for this client.
				client := w.client(framework.WithExpirationPercent(50))
				_, err := w.client().Create(t.Context(), "/group", nil)
				require.NoError(t, err)
				n := keep(t, client, "/group/a", "a", opts...)
				old, err := client.Session(t.Context())
				require.NoError(t, err)
				_, before, err := client.Exists(t.Context(), n.Path())
				require.NoError(t, err)
				there, changed := n.Present()
				require.True(t, there)
				w.Freeze(old.ID())
				testbed.Receive(t, old.Done(), "the end of the session")
				testbed.Receive(t, changed, "word that it is not there") // it may be there again by now
				await(t, n, isThere)
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				require.NotEqual(t, old.ID(), session.ID())
				w.one(n, "a")
				found, stat, err := client.Exists(t.Context(), n.Path())
				require.NoError(t, err)
				require.True(t, found)
				if before.EphemeralOwner != 0 {
					require.Equal(t, session.ID(), stat.EphemeralOwner)
					require.Greater(t, len(w.Sessions()), 2, "the old session lives still")
				}
				w.settle()
				w.one(n, "a") // the old session has taken nothing along
				there, _ = n.Present()
				require.True(t, there)
			}, zktest.WithTTLNodes())
		})
	}
}

// TestPresentIsFalseBeforeAnotherHasTheNode cuts the keeper off from the server.
func TestPresentIsFalseBeforeAnotherHasTheNode(t *testing.T) {
	for name, policy := range map[string]connstate.ErrorPolicy{"standard": connstate.Standard, "session": connstate.Session} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				var away atomic.Bool
				client := w.client(framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					if away.Load() {
						return nil, errors.New("no route to host")
					}
					return w.DialContext(ctx, network, address)
				}))
				first := keep(t, client, "/group/a", "first", node.WithErrorPolicy(policy))
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				ended := make(chan time.Time, 1)
				go func() {
					await(t, first, func(there bool, _ error) bool { return !there })
					ended <- time.Now()
				}()
				away.Store(true)
				w.Freeze(session.ID())
				second, err := node.Keep(day(t), w.client(), "/group/a", []byte("second"))
				require.NoError(t, err)
				require.True(t, testbed.Receive(t, ended, "the end").Before(time.Now()))
				away.Store(false)
				await(t, first, reason(node.ErrTaken))
				w.one(second, "second")
				require.NoError(t, second.Close())
				await(t, first, isThere)
				w.one(first, "first")
			})
		})
	}
}

// TestABlipUnderTheSessionPolicyIsNoNews cuts the connection, and the session lives on.
func TestABlipUnderTheSessionPolicyIsNoNews(t *testing.T) {
	for name, policy := range map[string]connstate.ErrorPolicy{"standard": connstate.Standard, "session": connstate.Session} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w world) {
				n := keep(t, w.client(framework.WithErrorPolicy(policy)), "/group/a", "a")
				_, before := n.Present()
				w.ResetCounts()
				w.CutConnections()
				w.settle()
				select {
				case <-before:
					require.Equal(t, "standard", name)
				default:
					require.Equal(t, "session", name)
				}
				await(t, n, isThere)
				requests := w.Requests().Requests
				require.Zero(t, requests[zktest.OpCreate]+requests[zktest.OpSetData], "it is there: nothing is written")
			})
		})
	}
}

// TestAnOutageOfAnyLength has the server away for a day.
func TestAnOutageOfAnyLength(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		log := &lines{}
		n := keep(t, w.client(framework.WithLogger(slog.New(slog.NewTextHandler(log, nil)))), "/group/a", "a")
		w.Stop()
		time.Sleep(24 * time.Hour)
		there, _ := n.Present()
		require.False(t, there)
		require.Zero(t, log.with("node is not kept"), "the client says that it is not connected")
		require.NoError(t, w.Restart())
		await(t, n, isThere)
		w.one(n, "a")
	})
}

// TestAReapedParentIsMadeAgain has the container go with the node.
func TestAReapedParentIsMadeAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		other := w.client()
		n := keep(t, w.client(), "/deep/down/a", "a")
		gate := w.Block(zktest.OnOp(zktest.OpCreate))
		require.NoError(t, other.Delete(t.Context(), "/deep/down/a", -1))
		testbed.Receive(t, gate.Arrived(), "the create")
		w.ReapContainers()
		_, err := w.Children("/deep")
		require.ErrorIs(t, err, zktest.ErrNoNode)
		gate.Open()
		await(t, n, isThere)
		w.one(n, "a")
	})
}

// TestNamespaceAndDefaultData keeps a node in a view of the client.
func TestNamespaceAndDefaultData(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithNamespace("space"), framework.WithDefaultData([]byte("default")))
		for kind, opts := range map[string][]node.Option{"plain": nil, "sequential": {node.Sequential()}, "protected": {node.Protected()}} {
			n, err := node.Keep(day(t), client, "/group/"+kind, nil, opts...)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(n.Path(), "/group/"), n.Path())
			data, err := w.Get("/space" + n.Path())
			require.NoError(t, err)
			require.Equal(t, "default", string(data))
			require.NoError(t, n.Set(t.Context(), []byte("set")))
			require.NoError(t, n.Set(t.Context(), nil))
			data, err = w.Get("/space" + n.Path())
			require.NoError(t, err)
			require.Equal(t, "default", string(data))
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/space/group"))
		}
	})
}
