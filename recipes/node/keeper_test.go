package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCloseOutlastsAServerThatRefusesCredentials closes a node while the only server that can be
// reached refuses the client's credentials. The server accepts them later: in the same session, or
// in the next session, which matters for a persistent node only.
func TestCloseOutlastsAServerThatRefusesCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []node.Option
		lasts time.Duration
		lives bool
	}{
		"ephemeral":                     {nil, time.Second, true},
		"persistent":                    {[]node.Option{node.WithPersistence()}, time.Second, true},
		"persistent, after the session": {[]node.Option{node.WithPersistence()}, time.Hour, false},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			refuses := testbed.RefuseCredentials(w.Server)
			client := w.client(framework.WithAuth("digest", []byte("user:password")))
			n := keep(t, client, "/group/a", "a", c.opts...)
			session := testbed.Session(t, client)
			refuses.Store(true)
			w.CutConnections()
			for !errors.Is(client.WaitConnected(t.Context()), zk.ErrAuthFailed) {
				time.Sleep(time.Millisecond) // virtual time between two looks at the client
			}
			closed := testbed.Go(n.Close)
			synctest.Wait()
			time.Sleep(c.lasts) // virtual time, in which it must not give up
			refuses.Store(false)
			err := testbed.Receive(t, closed, "the end of Close")
			if c.lives {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				w.settle() // it continues in the background
			}
			require.Empty(t, w.nodes("/group"))
			require.Equal(t, c.lives, session.Err() == nil)
		})
	}
}

// TestAClosedPersistentKeepLeavesAnothersNode has another client replace the node just before it is
// deleted.
func TestAClosedPersistentKeepLeavesAnothersNode(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		n := keep(t, client, "/group/a", "a", node.WithPersistence())
		gate := w.Block(zktest.OnOp("delete"), zktest.OnSession(testbed.Session(t, client).ID()))
		closed := testbed.Go(n.Close)
		testbed.Receive(t, gate.Arrived(), "the deletion")
		second := keep(t, other, "/group/a", "second", node.WithIfTaken(node.Replace))
		before := w.stat("/group/a")
		gate.Open()
		require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
		w.settle()
		w.one(second, "second")
		require.Equal(t, before.Czxid, w.stat("/group/a").Czxid, "it was never touched")
	})
}

// TestAPersistentNodeThatComesAfterItsSessionGoes has the create of a persistent node stand still
// in a server for longer than we trust the session, and not as long as the servers do. A node with
// a TTL stays: the servers delete it when its time has passed.
func TestAPersistentNodeThatComesAfterItsSessionGoes(t *testing.T) {
	for name, c := range map[string]struct {
		op     string
		option node.Option
		stay   map[string]string
	}{
		"persistent": {"create", node.WithPersistence(), map[string]string{}},
		"ttl":        {"createTTL", node.WithTTL(time.Hour), map[string]string{"a": "a"}},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client(framework.WithExpirationPercent(50))
			require.NoError(t, w.Create("/group", nil))
			gate := w.Block(zktest.OnOp(c.op))
			ctx, cancel := context.WithCancel(t.Context())
			kept := begin(ctx, client, "a", c.option)
			testbed.Receive(t, gate.Arrived(), "the create")
			w.freeze(client)
			cancel()
			time.Sleep(time.Second) // virtual time, in which the Keep has left
			gate.Open()
			w.settle()
			require.Empty(t, kept)
			require.Equal(t, c.stay, w.nodes("/group"))
		}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	}
}

// TestClose_ACreateOfAnEarlierSession has a server carry out the create of a persistent node when
// the node was closed in the next session, in which it could not be created.
func TestClose_ACreateOfAnEarlierSession(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(framework.WithExpirationPercent(50)), w.client()
		n := keep(t, client, "/group/a", "a", node.WithPersistence())
		session := testbed.Session(t, client)
		gate := w.Block(zktest.OnOp("create"), zktest.OnSession(session.ID()))
		require.NoError(t, w.Delete("/group/a"))
		testbed.Receive(t, gate.Arrived(), "the create")
		testbed.SetACL(t, other, "/group", zk.WorldACL(zk.PermAll&^zk.PermCreate))
		w.Freeze(session.ID())
		testbed.Receive(t, session.Done(), "the end of the session")
		for _, changed := n.Present(); !errors.Is(n.Problem(), zk.ErrNoAuth); _, changed = n.Present() {
			testbed.Receive(t, changed, "the refused create of the next session")
		}
		require.NoError(t, n.Close())
		testbed.SetACL(t, other, "/group", zk.WorldACL(zk.PermAll))
		gate.Open()
		synctest.Wait()
		require.Equal(t, map[string]string{"a": "a"}, w.nodes("/group"), "the create of the first session")
		w.settle()
		require.Empty(t, w.nodes("/group"))
	})
}

// TestALateWriteOfOursDoesNotBringOldDataBack has a write of an earlier session stand still in a
// server, until the node has been recreated, and written so often that it has the version that the
// write is for.
func TestALateWriteOfOursDoesNotBringOldDataBack(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		subject := w.client()
		n := keep(t, subject, "/group/a", "0")
		for _, text := range []string{"1", "2"} {
			require.NoError(t, n.Set(testbed.Context(t), []byte(text)))
		}
		gate, stat := w.late(n, subject)
		require.NoError(t, w.Delete("/group/a")) // by hand
		// the next session is another one, and the first still lives
		w.CutConnections()
		last, again := "", zk.Stat{}
		// The node may have been created before the first Set, or with it.
		for again.Version < stat.Version {
			last += "new"
			require.NoError(t, n.Set(testbed.Context(t), []byte(last)))
			again = w.stat("/group/a")
		}
		require.Equal(t, stat.Version, again.Version)
		gate.Open()
		w.settle()
		assert.True(t, present(n))
		assert.NoError(t, n.Problem())
		w.one(n, last)
		require.NoError(t, n.Close())
	}, zktest.LikeKeeper("recent"))
}

// late has a Set of n stand still in a server, and fail. It is carried out when the gate is opened,
// for the version of stat.
func (w world) late(n *node.Node, client *framework.Client) (gate *zktest.Gate, stat zk.Stat) {
	w.t.Helper()
	stat = w.stat(n.Path())
	gate = w.Block(zktest.OnOp("setData"), zktest.OnSession(testbed.Session(w.t, client).ID()))
	require.Error(w.t, n.Set(testbed.Timeout(w.t, time.Second), []byte("old")))
	<-gate.Arrived()
	return gate, stat
}

// TestALateWriteMeetsNoNodeThatIsMadeAgain is the same, and the version is not reached. The parents
// were deleted as well: an empty container is reaped, and the node that is created with it must not
// have the version of the late write. (Seed 2290 of the simulation.)
func TestALateWriteMeetsNoNodeThatIsMadeAgain(t *testing.T) {
	for name, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.WithPersistence()}} {
		for before := range 2 { // writes
			virtualRun(t, fmt.Sprint(name, ", ", before), func(t *testing.T, w world) {
				subject := w.client()
				n := keep(t, subject, "/group/a", "0", opts...)
				for range before {
					require.NoError(t, n.Set(testbed.Context(t), []byte("1")))
				}
				gate, _ := w.late(n, subject)
				require.NoError(t, w.Delete("/group/a"))
				require.NoError(t, w.Delete("/group"))
				set := testbed.Go(func() error { return n.Set(testbed.Context(t), []byte("new")) })
				synctest.Wait()
				w.CutConnections() // the next session is another one, and the first still lives
				w.stays(gate, func() *node.Node {
					require.NoError(t, testbed.Receive(t, set, "the end of Set"))
					return n
				})
			}, zktest.LikeKeeper("recent"))
		}
	}
}

// TestALateWriteDoesNotMeetTheNodeOfTheNextKeep closes the Keep whose write stands still, and
// begins another one of the client at its path.
func TestALateWriteDoesNotMeetTheNodeOfTheNextKeep(t *testing.T) {
	for name, opts := range map[string][]node.Option{"ephemeral": nil, "persistent": {node.WithPersistence()}, "ttl": {node.WithTTL(time.Hour)}} {
		virtualRun(t, name, func(t *testing.T, w world) {
			subject := w.client(framework.WithExpirationPercent(50))
			n := keep(t, subject, "/group/a", "0", opts...)
			gate, _ := w.late(n, subject)
			w.freeze(subject)
			err := n.Close()
			if name == "persistent" {
				require.ErrorIs(t, err, context.DeadlineExceeded, "the create of the late session")
			} else {
				require.NoError(t, err)
				require.NoError(t, w.Delete("/group/a"))
			}
			w.stays(gate, func() *node.Node { return keep(t, subject, "/group/a", "new", opts...) })
		}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	}
}

// TestWhatOthersWriteStaysWhenNoLateWriteCanCome has another client write to the node after a Set
// whose reply was lost. For two session timeouts its data may be the late Set's, and are
// overwritten.
func TestWhatOthersWriteStaysWhenNoLateWriteCanCome(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		data  string
	}{
		"it may be a late write": {20*time.Second - time.Millisecond, "set"},
		"no late write can come": {20*time.Second + time.Millisecond, "by hand"},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client(framework.WithSessionTimeout(10 * time.Second))
			n := keep(t, client, "/group/a", "0")
			w.Inject(zktest.LoseReply, 0, zktest.OnOp("setData"))
			began := time.Now()
			require.NoError(t, n.Set(testbed.Context(t), []byte("set")))
			time.Sleep(time.Until(began.Add(c.after))) // virtual time: when another client writes
			require.NoError(t, w.Set("/group/a", []byte("by hand")))
			w.settle()
			w.one(n, c.data)
			require.NoError(t, n.Set(t.Context(), []byte("last")), "the version is another one now")
			w.one(n, "last")
		})
	}
}

// TestALateWriteIsNotForgottenWithAnEarlierOne has a write stand still in a server. An earlier
// write whose reply was lost becomes too old to be carried out. Then the node is recreated, and
// written until its version is the one that the late write expects.
func TestALateWriteIsNotForgottenWithAnEarlierOne(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		subject := w.client(framework.WithSessionTimeout(10 * time.Second))
		n := keep(t, subject, "/group/a", "0")
		began := time.Now()
		lost := w.Inject(zktest.LoseReply, 0, zktest.OnOp("setData"))
		for _, text := range []string{"1", "2", "3", "4"} {
			require.NoError(t, n.Set(testbed.Context(t), []byte(text)))
		}
		require.True(t, lost.Met())
		// Virtual time: the first one may arrive for 20 s.
		time.Sleep(time.Until(began.Add(15 * time.Second)))
		gate, stat := w.late(n, subject)
		require.NoError(t, w.Delete("/group/a")) // by hand
		// the next session is another one, and the first still lives
		w.CutConnections()
		time.Sleep(time.Until(began.Add(22 * time.Second)))
		again := w.stat("/group/a")
		last := "last"
		for again.Version < stat.Version {
			last += "!"
			require.NoError(t, n.Set(testbed.Context(t), []byte(last)))
			again = w.stat("/group/a")
		}
		require.Equal(t, stat.Version, again.Version)
		gate.Open()
		synctest.Wait()
		require.Greater(t, w.stat("/group/a").Version, stat.Version, "it was carried out")
		w.settle()
		w.one(n, last)
		require.NoError(t, n.Close())
	}, zktest.LikeKeeper("recent"))
}

// stays checks that the node that makes creates has the data "new", and that the late write at the
// gate does not change it.
func (w world) stays(gate *zktest.Gate, makes func() *node.Node) {
	w.t.Helper()
	n := makes()
	stat := w.stat(n.Path())
	gate.Open()
	w.settle()
	w.one(n, "new")
	assert.Equal(w.t, stat.Mzxid, w.stat(n.Path()).Mzxid, "it was written since")
	require.NoError(w.t, n.Close())
}

// TestWhatAnEarlierSessionMadeIsForgotten ends the session just after the create of a node, and has
// another client create one by hand in the next session. It is taken over, and does not hold the
// data of the first one.
func TestWhatAnEarlierSessionMadeIsForgotten(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, made, goOn := w.standsStillAfter("create", yes())
		session := testbed.Session(t, client)
		kept := begin(day(t), client, "kept")
		<-made
		require.NoError(t, w.ExpireSession(session.ID()))
		testbed.Receive(t, session.Done(), "the end of the session")
		testbed.Create(t, client, "/group/a", []byte("by hand"), framework.As(framework.Ephemeral))
		synctest.Wait()
		close(goOn)
		n := testbed.Receive(t, kept, "the node")
		require.NoError(t, n.Problem())
		w.one(n, "kept")
		require.NoError(t, n.Close())
	})
}

// TestNoHurryWhileNothingIsProven creates the node just after the machine was suspended. Earlier
// answers do not count any more, and later ones are proven only by a write some time afterwards.
// (Seed 9003938 of the simulation: without time for requests, it continued for ever.)
func TestNoHurryWhileNothingIsProven(t *testing.T) {
	var stood atomic.Int64
	before := session.Suspended
	session.Suspended = func() time.Duration { return time.Duration(stood.Load()) }
	defer func() { session.Suspended = before }()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(time.Millisecond))
		require.NoError(t, server.Create("/n", []byte("of another")))
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithSessionTimeout(4*time.Second))
		require.NoError(t, client.WaitConnected(t.Context()))
		session := testbed.Session(t, client)
		kept := make(chan *node.Node, 1)
		ctx := testbed.Timeout(t, 2*time.Minute)
		go func() { // ends with ctx
			n, err := node.Keep(ctx, client, "/n", nil)
			assert.NoError(t, err)
			kept <- n
		}()
		// Virtual time: the session has no dependent, so the leader is not asked.
		time.Sleep(time.Minute)
		server.ResetCounts()
		for server.Requests().Requests["ping"] == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		stood.Store(int64(2400 * time.Millisecond))
		server.ResetCounts()
		require.NoError(t, server.Delete("/n"))
		n := <-kept
		require.NoError(t, session.Err())
		writes := server.Requests().Requests["multi"]
		require.Positive(t, writes, "nothing was proven")
		require.Less(t, writes, 80)
		require.NoError(t, n.Close())
	})
}

// TestTheNodeOfAProtectedCreateIsOurs ends the session for the client, and not yet for the servers,
// just after the create of the node. It is replaced by one of the same name.
func TestTheNodeOfAProtectedCreateIsOurs(t *testing.T) {
	for name, opts := range map[string][]node.Option{
		"fail":       {node.WithProtection(), node.WithIfTaken(node.Fail)},
		"sequential": {node.WithProtection(), node.WithSequence()},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client, made, goOn := w.standsStillAfter("create", yes(), framework.WithExpirationPercent(50))
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
			w.freeze(client)
			close(goOn)
			n := testbed.Receive(t, kept, "the end of Keep")
			require.NoError(t, testbed.Receive(t, ended, "the end of Keep"))
			w.settle()
			require.Equal(t, before, w.nodes("/group"))
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/group"))
		})
	}
}

// TestAProtectedPersistentNodeThatComesAfterItsSessionGoes has the create of a persistent node
// stand still in a server for nearly as long as the servers keep a session that the client has
// given up: its timeout, and the rest of a tick. Keep was given up before.
func TestAProtectedPersistentNodeThatComesAfterItsSessionGoes(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithExpirationPercent(50), framework.WithSessionTimeout(4*time.Second))
		require.NoError(t, w.Create("/group", nil))
		session := testbed.Session(t, client)
		time.Sleep(1900 * time.Millisecond) // virtual time, to the end of a tick
		gate := w.Block(zktest.OnOp("create"))
		ctx, cancel := context.WithCancel(t.Context())
		kept := begin(ctx, client, "a", node.WithPersistence(), node.WithProtection())
		testbed.Receive(t, gate.Arrived(), "the create")
		cancel()
		testbed.Receive(t, session.Done(), "the end of the session")
		// virtual time, until just before the servers end the session
		time.Sleep(4300 * time.Millisecond)
		require.True(t, slices.ContainsFunc(w.Sessions(), func(s zktest.Session) bool { return s.ID == session.ID() }))
		gate.Open()
		w.settle()
		require.Empty(t, kept)
		require.Empty(t, w.nodes("/group"))
	})
}

// TestANodeIsOfTheKeepThatMadeIt has a Keep create the node of its session and then stand still.
// Another Keep of the same client must not take that node, although its owner is the same session.
func TestANodeIsOfTheKeepThatMadeIt(t *testing.T) {
	for name, opts := range map[string][]node.Option{"wait": nil, "fail": {node.WithIfTaken(node.Fail)}, "replace": {node.WithIfTaken(node.Replace)}} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client, read, goOn := w.standsStill(yes())
			slow := begin(day(t), client, "slow")
			<-read
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			quick := begin(ctx, client, "quick", opts...)
			time.Sleep(30 * time.Second) // virtual time, in which it must wait
			require.Empty(t, quick, "the node is that of another Keep")
			cancel()
			synctest.Wait() // or it is asked for the node at the same moment, and may get it
			close(goOn)
			n := testbed.Receive(t, slow, "the node")
			w.settle()
			await(t, n, isThere)
			w.one(n, "slow")
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/group"))
		})
	}
}

// TestWhatWasReadBeforeTheNodeWasDeletedIsNotBelieved has a Keep read its node and then stand
// still. In between, the node is deleted, and another client creates one.
func TestWhatWasReadBeforeTheNodeWasDeletedIsNotBelieved(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, read, goOn := w.standsStill(yes())
		slow := begin(day(t), client, "slow")
		<-read
		require.NoError(t, w.Delete("/group/a"))
		other := keep(t, w.client(), "/group/a", "other")
		synctest.Wait()
		close(goOn)
		w.settle()
		require.Empty(t, slow, "it must not take a node for its own that is gone")
		await(t, other, isThere)
		w.one(other, "other")
		require.NoError(t, other.Close())
		n := testbed.Receive(t, slow, "the node, which is free now")
		require.NoError(t, n.Close())
	})
}

// TestTheNodeOfAKeepThatFailedIsNotTaken has a Keep fail, and stand still while it is about to
// delete its node. The next Keep of the same client waits until that node is deleted, with any
// IfTaken.
func TestTheNodeOfAKeepThatFailedIsNotTaken(t *testing.T) {
	for name, taken := range map[string]node.Taken{"wait": node.Wait, "fail": node.Fail, "replace": node.Replace} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client, other := w.client(), w.client()
			require.NoError(t, w.Create("/group", nil))
			gate, deletion := w.BlockReplies(zktest.OnOp("create")), w.Block(zktest.OnOp("delete"))
			_, err := node.Keep(testbed.Timeout(t, time.Second), client, "/group/a", []byte("failed"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			gate.Open()
			<-deletion.Arrived()
			next := begin(day(t), client, "next", node.WithIfTaken(taken))
			time.Sleep(time.Second) // virtual time, in which it must wait
			require.Empty(t, next, "the node is about to be deleted")
			before := testbed.Stat(t, other, "/group/a")
			deletion.Open()
			n := testbed.Receive(t, next, "the node")
			w.settle()
			await(t, n, isThere)
			w.one(n, "next")
			require.Greater(t, testbed.Stat(t, other, "/group/a").Czxid, before.Czxid, "it is another one")
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/group"))
		})
	}
}

// TestAWriteUnderWayDoesNotMeetTheNodeOfAnother has a Keep replace a node while that is written.
// New nodes have the version 0, which the write may have, too.
func TestAWriteUnderWayDoesNotMeetTheNodeOfAnother(t *testing.T) {
	for before := range 4 { // writes
		virtual(t, func(t *testing.T, w world) {
			n, other := keep(t, w.client(), "/group/a", "a"), w.client()
			for range before {
				require.NoError(t, n.Set(t.Context(), []byte("a")))
			}
			gate := w.Block(zktest.OnOp("setData"))
			done := testbed.Go(func() error {
				return n.Set(testbed.Timeout(t, 30*time.Second), []byte("b"))
			})
			testbed.Receive(t, gate.Arrived(), "the write")
			thief := keep(t, other, "/group/a", "thief", node.WithIfTaken(node.Replace))
			require.NotEqual(t, before, int(testbed.Stat(t, other, "/group/a").Version))
			gate.Open()
			w.settle()
			require.ErrorIs(t, testbed.Receive(t, done, "the end of Set"), node.ErrTaken)
			w.one(thief, "thief")
		})
	}
}

// TestAnotherNodeThatWasOverwrittenIsReported has another client delete the node by hand during a
// write, and create one. ZooKeeper cannot prevent the write. At least the node is not mistaken for
// this client's.
func TestAnotherNodeThatWasOverwrittenIsReported(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var log testbed.Output
		n := keep(t, w.client(logTo(&log)), "/group/a", "a")
		other := w.client()
		gate := w.Block(zktest.OnOp("setData"))
		done := testbed.Go(func() error {
			return n.Set(testbed.Timeout(t, 30*time.Second), []byte("b"))
		})
		testbed.Receive(t, gate.Arrived(), "the write")
		_, err := other.Multi(t.Context(), &zk.DeleteRequest{Path: "/group/a", Version: -1},
			&zk.CreateRequest{Path: "/group/a", Data: []byte("other"), Flags: zk.FlagEphemeral})
		require.NoError(t, err)
		gate.Open()
		w.settle()
		require.ErrorIs(t, testbed.Receive(t, done, "the end of Set"), node.ErrTaken)
		await(t, n, reason(node.ErrTaken))
		require.Equal(t, 1, count(&log, "ERROR", "another owner's node was overwritten", "/group/a"))
	})
}

// TestANodeInPlaceOfOursIsGivenBack has the node of this client's old session deleted, and another
// client create one, just before the replacement.
func TestANodeInPlaceOfOursIsGivenBack(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		n := keep(t, client, "/group/a", "a")
		session := testbed.Session(t, client)
		w.Stop()
		time.Sleep(time.Hour)
		gate := w.Block(zktest.OnOp("multi"), zktest.OnPath("/group"))
		require.NoError(t, w.Restart())
		testbed.Receive(t, gate.Arrived(), "the replacement of the old node")
		other := begin(day(t), w.client(), "other")
		synctest.Wait()
		require.NoError(t, w.ExpireSession(session.ID()))
		thief := testbed.Receive(t, other, "the node, which is free")
		synctest.Wait()
		stop := w.Trace(func(zktest.Event) {
			assert.False(t, present(n), "it is another's")
		})
		gate.Open()
		w.settle()
		await(t, n, reason(node.ErrTaken))
		await(t, thief, isThere)
		w.one(thief, "other")
		stop()
		require.NoError(t, thief.Close())
		await(t, n, isThere)
		w.one(n, "a")
	})
}

// TestPresentIsFalseFromCloseOn has the goroutine that keeps a node stand still. Close does not
// return then, and another client may have the node before it does. The simulation found it.
func TestPresentIsFalseFromCloseOn(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var armed atomic.Bool
		client, read, stands := w.standsStill(&armed)
		goOn := sync.OnceFunc(func() { close(stands) })
		defer goOn()
		n := keep(t, client, "/group/a", "first")
		session := testbed.Session(t, client)
		armed.Store(true)
		require.NoError(t, w.Set("/group/a", []byte("changed")))
		<-read
		closed := testbed.Go(n.Close)
		synctest.Wait()
		require.False(t, present(n))
		require.ErrorIs(t, n.Problem(), framework.ErrEnded)
		require.NoError(t, w.ExpireSession(session.ID()))
		second := keep(t, w.client(), "/group/a", "second")
		require.False(t, present(n))
		goOn()
		require.NoError(t, testbed.Receive(t, closed, "the end of Close"))
		require.ErrorIs(t, n.Problem(), framework.ErrEnded)
		w.one(second, "second")
	})
}

// TestPresentIsFalseAfterTheSessionWhateverTheKeeperWaitsFor has the goroutine of a Keep stand
// still while its session ends and another client creates the node.
func TestPresentIsFalseAfterTheSessionWhateverTheKeeperWaitsFor(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		var armed atomic.Bool
		client, read, stands := w.standsStill(&armed)
		goOn := sync.OnceFunc(func() { close(stands) })
		defer goOn()
		n := keep(t, client, "/group/a", "first", node.WithErrorPolicy(connstate.LostEndsHold))
		other := begin(day(t), w.client(), "second")
		w.settle()
		session := testbed.Session(t, client)
		armed.Store(true)
		require.NoError(t, w.Set("/group/a", []byte("changed")))
		<-read
		w.RefuseConnections(true)
		w.Freeze(session.ID())
		second := testbed.Receive(t, other, "the node")
		require.False(t, present(n))
		require.ErrorIs(t, n.Problem(), framework.ErrSessionLost)
		w.RefuseConnections(false)
		goOn()
		await(t, n, reason(node.ErrTaken))
		w.one(second, "second")
		require.NoError(t, second.Close())
	})
}

// TestAWriteIsNotRepeatedWithoutALook loses the connection before a write is carried out. Before
// the client reconnects, the node is deleted and another client creates one whose version matches
// the write.
func TestAWriteIsNotRepeatedWithoutALook(t *testing.T) {
	for _, fault := range []zktest.Fault{zktest.FailBefore, zktest.LoseReply} {
		virtualRun(t, fault.String(), func(t *testing.T, w world) {
			client, other := w.client(), w.client()
			n := keep(t, client, "/group/a", "a")
			met := w.Inject(fault, 0, zktest.OnOp("setData"))
			w.RefuseConnections(true)
			ctx := testbed.Timeout(t, 10*time.Second)
			ended := testbed.Go(func() error { return n.Set(ctx, []byte("b")) })
			testbed.Receive(t, met.Done(), "the write")
			synctest.Wait()
			require.NoError(t, w.Delete("/group/a"))
			thief := keep(t, other, "/group/a", "other")
			w.RefuseConnections(false)
			require.ErrorIs(t, testbed.Receive(t, ended, "the end of Set"), node.ErrTaken)
			w.one(thief, "other")
			require.NoError(t, thief.Close())
			await(t, n, isThere)
			w.one(n, "b")
		})
	}
}

// TestARefusedWriteIsTriedAgainWithoutALook: nothing has happened to the node. Each look would also
// stay with the client until its watch fires.
func TestARefusedWriteIsTriedAgainWithoutALook(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		n := keep(t, w.client(), "/group/a", "a")
		testbed.SetACL(t, w.client(), "/group/a", perms(zk.PermAll&^zk.PermWrite))
		require.ErrorIs(t, n.Set(t.Context(), []byte("b")), zk.ErrNoAuth)
		w.ResetCounts()
		time.Sleep(time.Hour) // virtual time
		requests := w.Requests().Requests
		require.Greater(t, requests["setData"], 600)
		require.Zero(t, requests["exists"])
	})
}

// TestAnEventThatTheNodeWasDeletedIsBelieved has another client replace a node, and its owner's
// next look at it be held up. The owner has been notified of the deletion by then.
func TestAnEventThatTheNodeWasDeletedIsBelieved(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, other := w.client(), w.client()
		n := keep(t, client, "/group/a", "a", node.WithErrorPolicy(connstate.LostEndsHold))
		gate := w.Block(zktest.OnOp("exists"), zktest.OnSession(testbed.Session(t, client).ID()))
		thief := keep(t, other, "/group/a", "thief", node.WithIfTaken(node.Replace))
		testbed.Receive(t, gate.Arrived(), "the next look")
		synctest.Wait()
		assert.False(t, present(n), "the event has said so")
		assert.ErrorIs(t, n.Problem(), node.ErrDeleted)
		gate.Open()
		w.settle()
		await(t, n, reason(node.ErrTaken))
		w.one(thief, "thief")
	})
}

// TestANodeThatGoesWhileTheSessionIsProvenIsNotShown has a Keep be so slow that it must prove its
// session before it shows the node. In between, another client replaces that.
func TestANodeThatGoesWhileTheSessionIsProvenIsNotShown(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client, read, goOn := w.standsStill(yes())
		other := w.client()
		slow := begin(testbed.Timeout(t, time.Hour), client, "slow")
		<-read
		session := testbed.Session(t, client)
		time.Sleep(time.Minute) // longer than the session, which no client depends on
		gate := w.Block(zktest.OnOp("multi"), zktest.OnSession(session.ID()))
		close(goOn)
		testbed.Receive(t, gate.Arrived(), "the proof")
		thief := keep(t, other, "/group/a", "thief", node.WithIfTaken(node.Replace))
		gate.Open()
		w.settle()
		require.Empty(t, slow, "the node was gone before it was shown")
		w.one(thief, "thief")
		await(t, thief, isThere)
	})
}

// TestAnEventThatTheNodeWasDeletedIsBelievedDuringAWrite has another client delete a node while its
// owner waits for the answer to a write to it.
func TestAnEventThatTheNodeWasDeletedIsBelievedDuringAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		op  string
		ttl []node.Option
	}{
		"of its data":  {"setData", nil},
		"of its touch": {"createTTL", []node.Option{node.WithTTL(time.Hour)}},
	} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client()
			n := keep(t, client, "/group/a", "a", append(c.ttl, node.WithErrorPolicy(connstate.LostEndsHold))...)
			gate := w.Block(zktest.OnOp(c.op), zktest.OnSession(testbed.Session(t, client).ID()))
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = n.Set(ctx, []byte("b")) }()
			if c.ttl != nil {
				time.Sleep(30*time.Minute - time.Second) // virtual time, until a touch is near
			}
			testbed.Receive(t, gate.Arrived(), "the write")
			require.NoError(t, w.Delete("/group/a"))
			synctest.Wait()
			assert.False(t, present(n), "the event has said so")
			assert.ErrorIs(t, n.Problem(), node.ErrDeleted)
			gate.Open()
			w.settle()
			await(t, n, isThere)
			w.one(n, "b")
			cancel()
			require.NoError(t, n.Close())
		}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	}
}

// TestAPersistentNodeThatIsMadeAgainStays loses the reply to the second create. The node that may
// still be created is not deleted while it is kept.
func TestAPersistentNodeThatIsMadeAgainStays(t *testing.T) {
	for name, opts := range map[string][]node.Option{"plain": nil, "protected": {node.WithProtection()}} {
		virtualRun(t, name, func(t *testing.T, w world) {
			client := w.client(framework.WithRetryPolicy(retry.Never()))
			n := keep(t, client, "/group/a", "a", append(opts, node.WithPersistence())...)
			lost := w.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
			deleted := 0
			defer w.Trace(func(e zktest.Event) {
				if e.Watch == "" && e.Request.Op == "delete" {
					deleted++
				}
			})()
			require.NoError(t, w.Delete(n.Path()))
			w.settle()
			require.True(t, lost.Met())
			await(t, n, isThere)
			w.one(n, "a")
			require.Zero(t, deleted, "the client deletes nothing")
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/group"))
		})
	}
}

// TestWhatWasMadeAndDeletedIsForgotten has a persistent node deleted before its first look, and
// another client create one. The new node is taken over, and does not hold the data of the deleted
// one.
func TestWhatWasMadeAndDeletedIsForgotten(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		require.NoError(t, w.Create("/group", nil))
		client := w.client()
		look := w.Block(zktest.OnOp("exists"))
		kept := begin(day(t), client, "kept", node.WithPersistence())
		testbed.Receive(t, look.Arrived(), "the first look")
		require.NoError(t, w.Delete("/group/a"))
		create := w.Block(zktest.OnPath("/group/a"), zktest.On(func(r zktest.Request) bool { return creates(r.Op) }))
		look.Open()
		testbed.Receive(t, create.Arrived(), "the second create")
		require.NoError(t, w.Create("/group/a", []byte("of another")))
		create.Open()
		n := testbed.Receive(t, kept, "the node")
		w.one(n, "kept")
		require.NoError(t, n.Close())
	})
}

// TestWhatWasMadeAgainBeforeTheFirstLookIsNotBelieved has another client delete and recreate a
// persistent node between its creation and the first look at it. The new node has the same version.
// It is taken over, and does not hold the data of the deleted one. The same holds for a node that
// is recreated after it was shown.
func TestWhatWasMadeAgainBeforeTheFirstLookIsNotBelieved(t *testing.T) {
	for name, opts := range map[string][]node.Option{"persistent": {node.WithPersistence()}, "ttl": {node.WithTTL(time.Hour)}} {
		virtualRun(t, name, func(t *testing.T, w world) {
			require.NoError(t, w.Create("/group", nil))
			look := w.Block(zktest.OnOp("exists"))
			kept := begin(day(t), w.client(), "kept", opts...)
			testbed.Receive(t, look.Arrived(), "the first look")
			require.NoError(t, w.Delete("/group/a"))
			require.NoError(t, w.Create("/group/a", []byte("of another")))
			look.Open()
			n := testbed.Receive(t, kept, "the node")
			w.one(n, "kept")

			_, err := w.client().Multi(t.Context(), &zk.DeleteRequest{Path: "/group/a", Version: -1},
				&zk.CreateRequest{Path: "/group/a", Data: []byte("of another")})
			require.NoError(t, err)
			w.settle()
			w.one(n, "kept")
			require.NoError(t, n.Problem())
			require.NoError(t, n.Close())
		}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	}
}

// TestAPersistentNodeIsKeptOnAKeeper: some cannot answer a create with a stat.
func TestAPersistentNodeIsKeptOnAKeeper(t *testing.T) {
	for _, age := range []string{"old", "recent", "new", "newest"} {
		virtualRun(t, age, func(t *testing.T, w world) {
			client := w.client()
			session := testbed.Session(t, client)
			n := keep(t, client, "/group/a", "a", node.WithPersistence())
			require.NoError(t, n.Set(t.Context(), []byte("b")))
			require.NoError(t, w.Delete("/group/a"))
			w.settle()
			await(t, n, isThere)
			w.one(n, "b")
			require.NoError(t, n.Close())
			require.Empty(t, w.nodes("/group"))
			require.NoError(t, session.Err(), "no server has hung up")
		}, zktest.LikeKeeper(age))
	}
}

// TestALateWriteOfAnEarlierSessionMeetsNoNewNode has a Set arrive after the client has given up its
// session and has recreated the node in the next session.
func TestALateWriteOfAnEarlierSessionMeetsNoNewNode(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client()
		n := keep(t, client, "/group/a", "first")
		session := testbed.Session(t, client)
		w.settle()
		w.Freeze(session.ID())
		require.Error(t, n.Set(testbed.Timeout(t, time.Second), []byte("late")), "there is no answer")
		ended := testbed.Go(func() error { return n.Set(day(t), []byte("last")) })
		require.NoError(t, testbed.Receive(t, ended, "the write in the next session"))
		before := testbed.Stat(t, client, "/group/a")
		w.Thaw()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, "last", testbed.Get(t, client, "/group/a"))
		require.Equal(t, before.Mzxid, testbed.Stat(t, client, "/group/a").Mzxid, "nobody has written to it")
	})
}

// TestClose_ARecreationOfAnEarlierSession: two debts see the node of the later session, and one of
// them deletes it. The other debt still owes the node of the earlier session.
func TestClose_ARecreationOfAnEarlierSession(t *testing.T) {
	virtual(t, func(t *testing.T, w world) {
		client := w.client(framework.WithExpirationPercent(50))
		n := keep(t, client, "/group/a", "a", node.WithPersistence())
		session := testbed.Session(t, client)
		gate := w.Block(zktest.OnOp("create"), zktest.OnSession(session.ID()))
		require.NoError(t, w.Delete("/group/a"))
		testbed.Receive(t, gate.Arrived(), "the create")
		w.Freeze(session.ID())
		testbed.Receive(t, session.Done(), "the end of the session")
		for present, changed := n.Present(); !present; present, changed = n.Present() {
			testbed.Receive(t, changed, "the node of the next session")
		}
		require.NoError(t, n.Close())
		require.Empty(t, w.nodes("/group"))
		gate.Open() // the server carries out the create of the first session
		w.settle()
		require.Empty(t, w.nodes("/group"))
	})
}
