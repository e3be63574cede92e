package framework_test

import (
	"context"
	"fmt"
	"runtime"
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
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCreateThatIsCarriedOutAtTheEndOfItsSessionLeavesNoNode has a client give its session up
// early, and the servers, which end sessions once per tick, carry a create out just before they end
// it.
func TestCreateThatIsCarriedOutAtTheEndOfItsSessionLeavesNoNode(t *testing.T) {
	for phase := range 20 {
		testbed.RunVirtual(t, fmt.Sprint("phase ", phase), func(t *testing.T) {
			server, client := virtual(t, framework.WithSessionTimeout(4*time.Second), framework.WithExpirationPercent(50),
				framework.WithRetryPolicy(retry.Never()))
			session := testbed.Session(t, client)
			time.Sleep(10*time.Second + time.Duration(phase)*100*time.Millisecond) // virtual time: the phase of the tick
			gate := server.Block(zktest.OnOp("create"))
			result := testbed.Go(func() error {
				return testbed.Err(client.Create(t.Context(), "/n", nil, framework.Protected()))
			})
			<-gate.Arrived()
			server.RefuseConnections(true)
			server.CutConnections()
			cut := time.Now()
			require.Error(t, <-result)
			<-session.Done()
			over := time.Now()
			server.RefuseConnections(false)
			time.Sleep(session.Timeout() + 100*time.Millisecond) // virtual time, in which the client looks for the node
			gate.Open()
			time.Sleep(time.Minute) // virtual time, in which it must go
			require.Empty(t, server.Tree(), "over for us after %v", over.Sub(cut))
		})
	}
}

func TestCloseRemovesWhatAPersistentProtectedCreateLeaves(t *testing.T) {
	for name, outage := range map[string]func(*zktest.Server){
		"the answer is late":  func(*zktest.Server) {},
		"the answer was lost": (*zktest.Server).CutConnections,
	} {
		t.Run(name, func(t *testing.T) {
			server, client := start(t)
			gate := server.BlockReplies(zktest.OnOp("create"))
			defer gate.Open()
			result := testbed.Go(func() error {
				_, err := client.Create(context.Background(), "/n-", nil, framework.As(framework.PersistentSequential), framework.Protected())
				return err
			})
			testbed.Receive(t, gate.Arrived(), "the create")
			require.NotEmpty(t, server.Tree())
			outage(server)
			if name == "the answer was lost" {
				// The create is repeated, behind the gate.
				testbed.Eventually(t, func() bool {
					return strings.Count(server.Tree(), "_c_") >= 1 && client.State() == connstate.Reconnected
				}, "it is back")
			}
			time.AfterFunc(100*time.Millisecond, gate.Open) // while Close waits
			require.NoError(t, client.Close())
			err := testbed.Receive(t, result, "the create")
			if err == nil {
				require.Equal(t, 1, strings.Count(server.Tree(), "_c_"), "it was faster")
				return
			}
			require.ErrorIs(t, err, framework.ErrClosed)
			require.Empty(t, server.Tree())
		})
	}
}

// TestCloseRemovesManyNodesOfAFarServer has 50 creates in flight, each of 100 ms, and limits Close
// to a second.
func TestCloseRemovesManyNodesOfAFarServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(100*time.Millisecond))
		client := testbed.ClientOf(t, server)
		require.NoError(t, client.Sync(t.Context()))
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, err := client.Create(t.Context(), "/n-", nil, framework.As(framework.PersistentSequential), framework.Protected())
				assert.ErrorIs(t, err, framework.ErrClosed)
			})
		}
		synctest.Wait() // they are sent
		require.NoError(t, client.Close())
		wg.Wait()
		require.Empty(t, server.Tree())
	})
}

// TestCloseRemovesWhatTheServerWouldNotDeleteYet has the caller of a persistent protected create
// give up, and the server be too busy to delete the node until the client is closed.
func TestCloseRemovesWhatTheServerWouldNotDeleteYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var node string
		var refused, deleted atomic.Int32
		given := make(chan struct{})
		l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, body []byte) []byte {
			switch h.Op {
			case proto.OpCreate:
				d := proto.NewDecoder(body)
				node = d.String() + "0000000000"
				<-given
				return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.PathResponse{Path: node})
			case proto.OpGetChildren2:
				return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.ChildrenResponse{Names: []string{node[1:]}})
			case proto.OpDelete:
				if refused.Add(1) == 1 {
					return packet(&proto.ReplyHeader{Xid: h.Xid, Code: proto.Throttled})
				}
				deleted.Add(1)
			}
			return packet(&proto.ReplyHeader{Xid: h.Xid})
		})}
		client := l.client(t)
		ctx, cancel := context.WithCancel(t.Context())
		result := testbed.Go(func() error {
			_, err := client.Create(ctx, "/n-", nil, framework.As(framework.PersistentSequential), framework.Protected())
			return err
		})
		synctest.Wait() // it is sent
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		close(given)
		synctest.Wait() // the deletion was refused, and will be repeated
		require.EqualValues(t, 1, refused.Load())
		require.NoError(t, client.Close())
		require.EqualValues(t, 1, deleted.Load())
	})
}

// TestManyLostRepliesAreOneSweeper counts the goroutines that 100 lost replies leave.
func TestManyLostRepliesAreOneSweeper(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		before := runtime.NumGoroutine()
		const n = 100
		for i := range n {
			require.NoError(t, client.WaitConnected(t.Context()))
			server.Inject([]zktest.Fault{zktest.LoseReply, zktest.FailBefore}[i%2], 0, zktest.OnOp("create"))
			_, err := client.Create(t.Context(), "/n-", nil, framework.As(framework.EphemeralSequential), framework.Protected())
			require.Error(t, err)
		}
		require.NoError(t, client.WaitConnected(t.Context()))
		time.Sleep(2 * time.Second) // virtual time, in which all must be deleted
		require.Empty(t, server.Tree())
		require.LessOrEqual(t, runtime.NumGoroutine(), before+5)
		server.ResetCounts()
		time.Sleep(time.Hour) // virtual time: the test counts the requests of an hour
		lists := server.Requests().Requests["getChildren2"]
		require.Positive(t, lists, "it looks again: a server that stands still may make the node yet")
		require.Less(t, lists, 60)
		server.ResetCounts()
		time.Sleep(time.Hour) // virtual time: the next hour, without any
		require.Zero(t, server.Requests().Requests["getChildren2"], "and comes to an end")
	}, framework.WithRetryPolicy(retry.Never()))
}

// giveUp gives up a persistent node at /n whose create was sent in a session.
func giveUp(client *framework.Client, session *framework.Session, wanted func() bool) {
	persistent := func(owner int64) bool { return owner == 0 }
	engine.Of(client).Owe("/n", (*engine.Session)(session), false, persistent, wanted).GiveUp()
}

// TestAPersistentNodeThatMayStillComeGoes has a create of a node with a fixed name not be answered,
// and be carried out when the session is over for the client, and not yet for the servers.
func TestAPersistentNodeThatMayStillComeGoes(t *testing.T) {
	for name, c := range map[string]struct {
		wanted, closes bool
		comes          func(server *zktest.Server) error
		stays          bool
	}{
		"persistent":                    {comes: func(s *zktest.Server) error { return s.Create("/n", nil) }},
		"persistent, the client closes": {closes: true, comes: func(s *zktest.Server) error { return s.Create("/n", nil) }},
		"wanted by then":                {wanted: true, stays: true, comes: func(s *zktest.Server) error { return s.Create("/n", nil) }},
		"none":                          {comes: func(*zktest.Server) error { return nil }},
	} {
		runInBubble(t, name, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			session := testbed.Session(t, client)
			server.Freeze(session.ID())
			<-session.Done()
			giveUp(client, session, func() bool { return c.wanted })
			time.Sleep(3 * time.Second) // virtual time, in which the next session looks for the node
			require.NoError(t, c.comes(server))
			if c.closes {
				require.NoError(t, client.Close())
			}
			time.Sleep(time.Minute) // virtual time, in which it must go
			require.Equal(t, c.stays, server.Exists("/n"))
			server.ResetCounts()
			time.Sleep(10 * time.Minute) // virtual time: requests are counted in it
			require.Zero(t, server.Requests().Requests["exists"], "it comes to an end")
		}, framework.WithSessionTimeout(4*time.Second), framework.WithExpirationPercent(50))
	}
}

// TestOnlyAPersistentNodeMayStillCome: an ephemeral node is never the node that is sought.
func TestOnlyAPersistentNodeMayStillCome(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Create(t, client, "/n", nil, framework.As(framework.Ephemeral))
		giveUp(client, testbed.Session(t, client), func() bool { return false })
		time.Sleep(time.Minute) // virtual time, in which it must not go
		require.True(t, server.Exists("/n"))
	})
}

// TestANodeThatMayStillComeGoesAlsoIfItIsNotDeletedAtOnce: before the first delete another client
// writes to the node, and the second delete is not answered.
func TestANodeThatMayStillComeGoesAlsoIfItIsNotDeletedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		require.NoError(t, server.Create("/n", nil))
		session := testbed.Session(t, client)
		failed := server.Inject(zktest.FailBefore, 1, zktest.OnOp("delete"))
		gate := server.Block(zktest.OnOp("delete"))
		defer gate.Open()
		giveUp(client, session, func() bool { return false })
		<-gate.Arrived()
		require.NoError(t, server.Set("/n", []byte("written")))
		gate.Open()
		time.Sleep(time.Minute) // virtual time, in which it must go
		require.True(t, failed.Met())
		require.False(t, server.Exists("/n"))
	})
}

// TestCreate_WaitsForAnEarlierNodeOfTheClient has a persistent node be given up whose create may
// still be carried out, in a session that was lost. A node that is created at its path afterwards
// must not be deleted in its place.
func TestCreate_WaitsForAnEarlierNodeOfTheClient(t *testing.T) {
	for name, create := range map[string]func(context.Context, *framework.Client) error{
		"create": func(ctx context.Context, client *framework.Client) error {
			return testbed.Err(client.Create(ctx, "/n", nil))
		},
		"multi": func(ctx context.Context, client *framework.Client) error {
			return testbed.Err(client.Multi(ctx, &zk.CreateRequest{Path: "/n"}))
		},
	} {
		runInBubble(t, name, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			session := testbed.Session(t, client)
			server.Freeze(session.ID())
			<-session.Done()
			giveUp(client, session, func() bool { return false })
			err := create(testbed.Timeout(t, time.Second), client)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "this client is still deleting an earlier node")
			require.False(t, retry.Unknown(err))
			require.NoError(t, create(t.Context(), client))
			time.Sleep(time.Hour) // virtual time, in which it must not be deleted
			require.True(t, server.Exists("/n"))
		}, framework.WithSessionTimeout(4*time.Second), framework.WithExpirationPercent(50))
	}
}
