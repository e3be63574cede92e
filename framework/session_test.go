package framework_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// virtual starts a server and a client inside a synctest bubble.
func virtual(t *testing.T, opts ...framework.Option) (*zktest.Server, *framework.Client) {
	t.Helper()
	server := zktest.NewServer(t, zktest.WithInMemory())
	client := testbed.ClientOf(t, server, append([]framework.Option{framework.WithSessionTimeout(10 * time.Second)}, opts...)...)
	require.NoError(t, client.WaitConnected(t.Context()))
	return server, client
}

// inBubble runs test in a synctest bubble with a server and a client, which has opts.
func inBubble(
	t *testing.T, test func(t *testing.T, server *zktest.Server, client *framework.Client), opts ...framework.Option,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, client := virtual(t, opts...)
		test(t, server, client)
	})
}

// runInBubble is inBubble for a subtest.
func runInBubble(
	t *testing.T, name string, test func(t *testing.T, server *zktest.Server, client *framework.Client),
	opts ...framework.Option,
) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test, opts...) })
}

// heard records states, and returns what shows them.
func heard(t *testing.T, client *framework.Client) func() []connstate.State {
	t.Helper()
	var mu sync.Mutex
	var states []connstate.State
	testbed.Listen(t, client, func(s connstate.State) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, s)
	})
	return func() []connstate.State {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(states)
	}
}

// TestDependentsAreNotifiedBeforeListeners has a slow dependent, and any goroutine may notice the
// lost connection first.
func TestDependentsAreNotifiedBeforeListeners(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		const n = 10
		var notified atomic.Int32
		for range n {
			testbed.Depend(t, session, connstate.SuspendedEndsHold, func(error) {
				// Virtual time: a slow dependent, which delays all later notifications.
				time.Sleep(time.Millisecond)
				notified.Add(1)
			})
		}
		heard := make(chan int32, 1)
		testbed.Listen(t, client, func(s connstate.State) {
			if s == connstate.Suspended {
				heard <- notified.Load()
			}
		})
		server.CutConnections()
		require.EqualValues(t, n, <-heard)
	})
}

func TestStatesOfAnExpiredSession(t *testing.T) { // CUR-CLI-14, KZ-CST-02, CURATOR-367
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		states := heard(t, client)
		session := testbed.Session(t, client)
		require.NoError(t, server.ExpireSession(session.ID()))
		<-session.Done()
		require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
		next := testbed.Session(t, client)
		require.NotEqual(t, session.ID(), next.ID())
		synctest.Wait()
		require.Equal(t, []connstate.State{connstate.Suspended, connstate.Lost, connstate.Reconnected}, states())
		require.ErrorIs(t, testbed.Err(client.In(session).Get(t.Context(), "/")), framework.ErrSessionLost)
		require.NoError(t, testbed.Err(client.In(next).Get(t.Context(), "/")))
	})
}

// TestLostComesBeforeTheServersEndTheSession freezes the link, so that only the clock shows it.
func TestLostComesBeforeTheServersEndTheSession(t *testing.T) { // CURATOR-247, -134, -460
	for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second, 40 * time.Second} {
		runInBubble(t, timeout.String(), func(t *testing.T, server *zktest.Server, client *framework.Client) {
			session := testbed.Session(t, client)
			require.Equal(t, timeout, session.Timeout())
			time.Sleep(17 * time.Second) // virtual time: the session is idle for a part of its timeout
			require.NoError(t, session.Err())
			server.Freeze()
			began := time.Now()
			<-session.Done()
			require.Len(t, server.Sessions(), 1, "the server has not ended it yet")
			require.GreaterOrEqual(t, time.Since(began), timeout/2)
			server.Thaw()
		}, framework.WithSessionTimeout(timeout))
	}
}

// TestALateAnswerToAConnectRequestIsCountedFromTheRequest: the server last heard of the session
// with the request.
func TestALateAnswerToAConnectRequestIsCountedFromTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		answer := server.BlockReplies(zktest.OnOp("connect"))
		server.CutConnections()
		<-answer.Arrived()
		sent := time.Now()
		time.Sleep(2 * time.Second) // virtual time: the answer is on its way
		answer.Open()
		synctest.Wait()
		require.NoError(t, client.WaitConnected(t.Context()))
		server.Freeze()
		<-session.Done()
		require.Less(t, time.Since(sent), session.Timeout())
		server.Thaw()
	})
}

func TestExpirationPercentMakesLostComeSooner(t *testing.T) { // CUR-CST-05
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		time.Sleep(time.Minute) // virtual time, in which the session must live on
		require.NoError(t, session.Err())
		server.Stop()
		began := time.Now()
		<-session.Done()
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
	}, framework.WithExpirationPercent(50))
}

// TestAHealthySessionOutlastsItsExpirationPercent has a dependent of a session most of the time,
// after different idle times.
func TestAHealthySessionOutlastsItsExpirationPercent(t *testing.T) {
	for _, percent := range []int{50, 60, 75, 100} {
		for phase := range 34 {
			inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
				server.Delay(100 * time.Millisecond)
				session := testbed.Session(t, client)
				for range 3 {
					// Virtual time without a dependent.
					time.Sleep(20*time.Second + time.Duration(phase)*100*time.Millisecond)
					require.NoError(t, client.Sync(t.Context()))
					stop, err := session.Depend(connstate.LostEndsHold, func(error) {})
					require.NoError(t, err, "percent %d, phase %d", percent, phase)
					time.Sleep(30 * time.Second) // virtual time, in which it must last
					require.NoError(t, session.Err(), "percent %d, phase %d", percent, phase)
					require.True(t, stop())
				}
			}, framework.WithExpirationPercent(percent))
		}
	}
}

// TestAHealthySessionOutlastsACut has the handshake and the first heartbeat of the next connection
// at one instant, as only virtual time without latency does.
func TestAHealthySessionOutlastsACut(t *testing.T) {
	for _, percent := range []int{50, 60, 80, 100} {
		for phase := range 20 {
			inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
				session := testbed.Session(t, client)
				time.Sleep(time.Duration(phase) * 250 * time.Millisecond) // virtual time: the phase of the heartbeats is under test
				testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})
				server.CutConnections()
				time.Sleep(20 * time.Second) // virtual time, in which it must last
				require.NoError(t, session.Err(), "percent %d, phase %d", percent, phase)
			}, framework.WithExpirationPercent(percent))
		}
	}
}

// TestDependDoesNotEndASession has the time be nearly over within which the leader must have
// confirmed the session.
func TestDependDoesNotEndASession(t *testing.T) {
	for idle := 9 * time.Second; idle < 10*time.Second; idle += 50 * time.Millisecond {
		inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			session := testbed.Session(t, client)
			server.Delay(100*time.Millisecond, zktest.OnOp("multi")) // a leader that is far away
			// virtual time, with nothing but pings
			time.Sleep(idle)
			if _, err := session.Depend(connstate.LostEndsHold, func(error) {}); err != nil {
				require.ErrorIs(t, err, framework.ErrSessionLost)
			}
			time.Sleep(time.Second) // virtual time, in which it must last
			require.NoError(t, session.Err(), "idle for %v", idle)
		})
	}
}

func TestOnlyThoseWhoDependOnASessionCostTheLeaderAnything(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		server.ResetCounts()
		time.Sleep(time.Minute) // virtual time: the test counts the requests of a minute
		require.Zero(t, server.Requests().Requests["multi"])
		require.NotZero(t, server.Requests().Requests["ping"])
		stop, err := session.Depend(connstate.LostEndsHold, func(error) {})
		// Pings and syncs prove nothing, so Depend fails: a write must precede it, as the create of
		// a lock's node does.
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.Nil(t, stop)
		for range 3 { // two writes would do
			require.NoError(t, engine.Of(client).Do(t.Context(), "sync", "/", func(l *engine.Connection) error {
				return testbed.Err(wire.Call(t.Context(), l.Conn, wire.AskSync("/")))
			}))
		}
		_, err = session.Depend(connstate.LostEndsHold, func(error) {})
		require.ErrorIs(t, err, framework.ErrSessionLost)
		require.NoError(t, client.Sync(t.Context()))
		stop = testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})
		server.ResetCounts()
		time.Sleep(time.Minute) // virtual time: the same
		require.InDelta(t, 21, server.Requests().Requests["multi"], 1, "32/9 per timeout, which is less than four")
		require.NoError(t, session.Err())
		require.True(t, stop())
		require.False(t, stop())
		server.ResetCounts()
		time.Sleep(time.Minute) // virtual time: the same
		require.Zero(t, server.Requests().Requests["multi"])
		require.NoError(t, session.Err())
	})
}

func TestDependentsAreNotifiedByTheirPolicy(t *testing.T) {
	server, client := start(t)
	session := testbed.Session(t, client)
	notified := make(chan error, 10)
	testbed.Depend(t, session, connstate.SuspendedEndsHold, func(cause error) { notified <- cause })
	patient := make(chan error, 10)
	testbed.Depend(t, session, connstate.LostEndsHold, func(cause error) { patient <- cause })
	server.CutConnections()
	require.ErrorIs(t, testbed.Receive(t, notified, "the suspension"), framework.ErrSuspended)
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	require.NoError(t, server.ExpireSession(session.ID()))
	require.ErrorIs(t, testbed.Receive(t, patient, "the loss"), framework.ErrSessionLost)
	require.ErrorIs(t, testbed.Err(session.Depend(connstate.LostEndsHold, func(error) {})), framework.ErrSessionLost)

	testbed.Depend(t, testbed.Session(t, client), connstate.LostEndsHold, func(cause error) { patient <- cause })
	require.NoError(t, client.Close())
	require.ErrorIs(t, testbed.Receive(t, patient, "the end"), framework.ErrClosed)
	assert.Empty(t, notified, "once")
}

// TestADependentThatEndsItsGoroutine, as t.FailNow does, prevents neither other notifications nor
// the return of Close.
func TestADependentThatEndsItsGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		var notified atomic.Int32
		for n := range 20 {
			testbed.Depend(t, session, connstate.ErrorPolicy(n%2), func(error) {
				notified.Add(1)
				runtime.Goexit()
			})
		}
		server.CutConnections()
		synctest.Wait()
		require.EqualValues(t, 10, notified.Load())
		require.NoError(t, server.ExpireSession(session.ID()))
		<-session.Done()
		require.NoError(t, client.Close())
		require.EqualValues(t, 20, notified.Load())
	})
}

// TestInASessionThatIsNotTheClients: each operation says so, and nothing is sent.
func TestInASessionThatIsNotTheClients(t *testing.T) {
	bed := testbed.InProcess(t)
	one, two := bed.Client(t), bed.Client(t)
	ctx := testbed.Context(t)
	session := testbed.Session(t, one)
	for name, view := range map[string]*framework.Client{"another client's": two.In(session), "none": two.In(nil)} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, testbed.Err(view.Create(ctx, "/a", nil)), framework.ErrBadArgument)
			require.ErrorIs(t, testbed.Err(view.Get(ctx, "/")), framework.ErrBadArgument)
			err := view.Delete(ctx, "/a", framework.IfExists(), framework.Guaranteed())
			require.ErrorIs(t, err, framework.ErrBadArgument)
			require.ErrorIs(t, view.WaitConnected(ctx), framework.ErrBadArgument)
		})
	}
}

// TestInKeepsNamespaceAndSession combines both kinds of views, in both orders.
func TestInKeepsNamespaceAndSession(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		one := testbed.Namespace(t, client, "space").In(session)
		two := testbed.Namespace(t, client.In(session), "space")
		testbed.Create(t, one, "/one", nil, framework.As(framework.Ephemeral))
		testbed.Create(t, two, "/two", nil, framework.As(framework.Ephemeral))
		require.True(t, server.Exists("/space/one"))
		require.True(t, server.Exists("/space/two"))
		require.NoError(t, server.ExpireSession(session.ID()))
		<-session.Done()
		require.NoError(t, client.WaitConnected(t.Context()))
		for _, view := range []*framework.Client{one, two} {
			require.ErrorIs(t, view.WaitConnected(t.Context()), framework.ErrSessionLost)
			require.ErrorIs(t, testbed.Err(view.Create(t.Context(), "/late", nil)), framework.ErrSessionLost)
			require.ErrorIs(t, testbed.Err(view.Session(t.Context())), framework.ErrSessionLost)
		}
		require.False(t, server.Exists("/space/late"))
	})
}

// TestCloseNotifiesEverybodyBeforeTheServers has several slow dependents. The nodes must exist
// until the last of them is notified: otherwise another client could own what it still uses.
func TestCloseNotifiesEverybodyBeforeTheServers(t *testing.T) {
	// Either Close or the goroutine that ends the session may notify.
	for round := range 50 {
		runInBubble(t, fmt.Sprint(round), func(t *testing.T, server *zktest.Server, client *framework.Client) {
			testbed.Create(t, client, "/node", nil, framework.As(framework.Ephemeral))
			session := testbed.Session(t, client)
			notified := make(chan bool, 3)
			for range cap(notified) {
				testbed.Depend(t, session, connstate.LostEndsHold, func(error) {
					time.Sleep(time.Millisecond) // virtual time: a goroutine that does not run at once
					notified <- server.Exists("/node")
				})
			}
			require.NoError(t, client.Close())
			for range cap(notified) {
				require.True(t, <-notified, "the node was deleted before all were notified")
			}
			require.False(t, server.Exists("/node"))
		})
	}
}

// TestServerThatSaysExpiredEndsTheSession is about a server that continues to answer pings of a
// session that has expired. An ensemble does so if the session expires while its client reconnects.
func TestServerThatSaysExpiredEndsTheSession(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.NewClient(t, server.Servers())
	session := testbed.Session(t, client)
	notified := make(chan error, 1)
	testbed.Depend(t, session, connstate.LostEndsHold, func(err error) { notified <- err })

	testbed.Answer(server, proto.SessionExpired, nil, zktest.OnSession(session.ID()), zktest.OnOp("delete"))
	err := client.Delete(testbed.Context(t), "/a", framework.IfExists(), framework.Guaranteed()) // of any session
	require.NoError(t, err, "it is done in the next session")
	require.ErrorIs(t, testbed.Receive(t, notified, "word of the end"), framework.ErrSessionLost)
	require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
	require.NotEqual(t, session.ID(), testbed.Session(t, client).ID())
}
