package framework_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
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
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// lives reports whether the server still knows the session.
func lives(server *zktest.Server, session *framework.Session) bool {
	return slices.ContainsFunc(server.Sessions(), func(s zktest.Session) bool { return s.ID == session.ID() })
}

// TestFrozenLinkIsNoticedBeforeTheServerEndsTheSession freezes the link at many points of the
// server's ticks and of the client's heartbeats.
func TestFrozenLinkIsNoticedBeforeTheServerEndsTheSession(t *testing.T) { // CURATOR-206, -465, -247
	for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second, 40 * time.Second} {
		for phase := range 8 {
			after := 17*time.Second + time.Duration(phase)*333*time.Millisecond
			testbed.RunVirtual(t, fmt.Sprintf("%v, frozen after %v", timeout, after), func(t *testing.T) {
				server, client := virtual(t, framework.WithSessionTimeout(timeout))
				session := testbed.Session(t, client)
				var mu sync.Mutex
				var order []string
				note := func(what any) {
					if !lives(server, session) {
						what = fmt.Sprintf("%v, too late", what)
					}
					mu.Lock()
					defer mu.Unlock()
					order = append(order, fmt.Sprint(what))
				}
				testbed.Listen(t, client, func(s connstate.State) { note(s) })
				// The connection may break or the proof run out first.
				testbed.Depend(t, session, connstate.SuspendedEndsHold, func(error) { note("notified") })
				testbed.Depend(t, session, connstate.LostEndsHold, func(error) { note("notified of the loss") })

				time.Sleep(after) // virtual time: the begin of the outage varies
				server.Freeze()
				frozen := time.Now()
				<-session.Done()
				notified := time.Now()
				require.GreaterOrEqual(t, notified.Sub(frozen), timeout*2/5, "never much too early")
				synctest.Wait()
				mu.Lock()
				require.Contains(t, [][]string{
					{"notified", "suspended", "notified of the loss", "lost"},
					{"notified", "notified of the loss", "suspended", "lost"},
					{"notified of the loss", "notified", "suspended", "lost"},
				}, order, "holders first")
				mu.Unlock()
				for lives(server, session) {
					time.Sleep(10 * time.Millisecond) // virtual time: the expiry is measured to 10 ms
				}
				assert.True(t, notified.Before(time.Now()), "notified %v after the link froze, ended by the server %v after",
					notified.Sub(frozen), time.Since(frozen))
				server.Thaw()
				require.NoError(t, client.WaitConnected(t.Context()))
				require.ErrorIs(t, testbed.Err(client.In(session).Get(t.Context(), "/")), framework.ErrSessionLost)
			})
		}
	}
}

// TestServerThatStandsStillIsNoticed is the same, but the server's time stands still, too.
func TestServerThatStandsStillIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		states := heard(t, client)
		session := testbed.Session(t, client)
		time.Sleep(time.Minute) // virtual time: the session has been idle
		server.Pause()
		<-session.Done()
		synctest.Wait()
		require.Equal(t, []connstate.State{connstate.Suspended, connstate.Lost}, states())
		server.Resume()
		require.NoError(t, client.WaitConnected(t.Context()))
		require.NotEqual(t, session.ID(), testbed.Session(t, client).ID())
	})
}

func TestShortFreezeIsNoLoss(t *testing.T) { // CUR-CST-03
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		stop := testbed.Depend(t, session, connstate.LostEndsHold, func(err error) { t.Errorf("notified %v", err) })
		defer stop()
		for range 20 {
			time.Sleep(10 * time.Second) // virtual time between two freezes
			server.Freeze()
			// virtual time: the length of the freeze, less than the session timeout
			time.Sleep(5 * time.Second)
			server.Thaw()
		}
		time.Sleep(10 * time.Second) // virtual time, in which the session must live on
		require.NoError(t, session.Err())
		require.NoError(t, client.Sync(t.Context()))
	})
}

func TestIdleSessionLives(t *testing.T) { // CURATOR-247: never too early
	for name, depends := range map[string]bool{"nobody depends on it": false, "somebody depends on it": true} {
		runInBubble(t, name, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			states := heard(t, client)
			session := testbed.Session(t, client)
			if depends {
				// A leader that is slow, but takes no more than an eighth of the timeout.
				server.Delay(500*time.Millisecond, zktest.OnOp("multi"))
				stop := testbed.Depend(t, session, connstate.LostEndsHold, func(err error) { t.Errorf("notified %v", err) })
				defer stop()
			}
			time.Sleep(time.Hour) // virtual time, in which nothing may happen
			require.NoError(t, session.Err())
			require.Empty(t, states())
		}, framework.WithSessionTimeout(4*time.Second))
	}
}

// TestLostIsReportedAlthoughTheClientIsBusyLookingForServers has whatever the client does without a
// connection take for ever.
func TestLostIsReportedAlthoughTheClientIsBusyLookingForServers(t *testing.T) { // CURATOR-405, -525
	for _, hangs := range []string{"server list", "dialer", "handshake", "nothing"} {
		testbed.RunVirtual(t, hangs, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			var down atomic.Bool
			client := testbed.NewClient(t, nil, framework.WithSessionTimeout(10*time.Second),
				framework.WithServerList(func(ctx context.Context) ([]string, error) {
					if down.Load() && hangs == "server list" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return []string{server.Addr()}, nil
				}),
				framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					switch {
					case down.Load() && hangs == "dialer":
						<-ctx.Done()
						return nil, ctx.Err()
					case down.Load() && hangs == "handshake":
						return silent(t), nil
					}
					return server.DialContext(ctx, network, address)
				}))
			require.NoError(t, client.WaitConnected(t.Context()))
			session := testbed.Session(t, client)
			lost := make(chan time.Time, 1)
			testbed.Listen(t, client, func(s connstate.State) {
				if s == connstate.Lost {
					lost <- time.Now()
				}
			})
			down.Store(true)
			server.Stop()
			<-session.Done()
			over := time.Now()
			require.ErrorIs(t, testbed.Err(client.In(session).Get(t.Context(), "/")), framework.ErrSessionLost)
			require.Equal(t, over, testbed.Receive(t, lost, "word of the loss"))
		})
	}
}

// TestOperationThatWaitsInASessionEndsWithIt has the caller wait for a connection in vain.
func TestOperationThatWaitsInASessionEndsWithIt(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		server.Stop()
		result := testbed.Go(func() error {
			return testbed.Err(client.In(session).Create(t.Context(), "/a", nil, framework.Protected()))
		})
		require.ErrorIs(t, <-result, framework.ErrSessionLost)
		require.ErrorIs(t, session.Err(), framework.ErrSessionLost)
		require.NoError(t, server.Restart())
		require.NoError(t, client.WaitConnected(t.Context()))
		require.Empty(t, server.Tree())
	}, framework.WithConnectionTimeout(time.Hour), framework.WithRetryPolicy(retry.Forever(time.Second)))
}

// TestSickServerIsPassedOver has one good server and one server that fails, in every way.
func TestSickServerIsPassedOver(t *testing.T) {
	for name, say := range map[string][]byte{
		"silent":    nil,
		"HTTP":      []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"truncated": {0, 0, 0, 36, 0, 0},
		"hangs up":  {},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory())
			client := testbed.NewClient(t, []string{"good:1", "sick:1"}, framework.WithSessionTimeout(10*time.Second),
				framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					if address == "good:1" {
						return server.DialContext(ctx, network, address)
					}
					mine, theirs := net.Pipe()
					t.Cleanup(func() { theirs.Close() })
					go func() { // ends with the pipe
						_, _ = theirs.Read(make([]byte, 100))
						_, _ = theirs.Write(say)
						if say != nil && len(say) == 0 {
							theirs.Close()
						}
					}()
					return mine, nil
				}))
			require.NoError(t, client.WaitConnected(t.Context()))
			session := testbed.Session(t, client)
			for range 20 {
				server.CutConnections()
				time.Sleep(5 * time.Second) // virtual time between two cuts
				require.NoError(t, client.WaitConnected(t.Context()))
				require.Same(t, session, testbed.Session(t, client), "there was time enough for every server")
			}
		})
	}
}

// TestEnsembleThatWasWipedIsUsedAgain has the servers know less than the client has seen.
func TestEnsembleThatWasWipedIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current atomic.Pointer[zktest.Server]
		old := zktest.NewServer(t, zktest.WithInMemory())
		current.Store(old)
		client := testbed.NewClient(t, []string{"server:1"}, framework.WithSessionTimeout(10*time.Second),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return current.Load().DialContext(ctx, network, address)
			}))
		for range 10 {
			testbed.Create(t, client, "/n-", nil, framework.As(framework.PersistentSequential))
		}
		states := heard(t, client)
		current.Store(zktest.NewServer(t, zktest.WithInMemory()))
		old.Stop()
		time.Sleep(12 * time.Second) // virtual time, more than the session timeout
		require.Equal(t, []connstate.State{connstate.Suspended, connstate.Lost, connstate.Reconnected}, states())
		path := testbed.Create(t, client, "/n-", nil, framework.As(framework.PersistentSequential))
		require.Equal(t, "/n-0000000000", path)
	})
}

// TestCloseDuringAnOutage has Close meet what the client does without a working connection.
func TestCloseDuringAnOutage(t *testing.T) { // CUR-CLI-05, -06, KZ-CLI-02
	for name, outage := range map[string]func(*zktest.Server){
		"stopped": (*zktest.Server).Stop,
		"frozen":  func(s *zktest.Server) { s.Freeze() },
		"paused":  (*zktest.Server).Pause,
	} {
		for _, after := range []time.Duration{0, 7 * time.Second, time.Minute} {
			testbed.RunVirtual(t, fmt.Sprintf("%s for %v", name, after), func(t *testing.T) {
				server, client := virtual(t)
				session := testbed.Session(t, client)
				outage(server)
				time.Sleep(after) // virtual time: the length of the outage varies
				waits := make(chan error, 3)
				go func() { waits <- client.Sync(context.Background()) }()
				go func() { waits <- client.WaitConnected(context.Background()) }()
				go func() {
					waits <- client.Delete(context.Background(), "/n", framework.IfExists(), framework.Guaranteed())
				}()
				synctest.Wait()
				began := time.Now()
				require.NoError(t, client.Close())
				require.LessOrEqual(t, time.Since(began), 3*time.Second)
				for range 3 {
					if err := <-waits; err != nil { // WaitConnected may have been content
						require.ErrorIs(t, err, framework.ErrClosed)
					}
				}
				require.Error(t, session.Err())
				server.Thaw()
				server.Resume()
			})
		}
	}
}

// TestCloseEndsTheSessionBetweenConnections: a server can be reached, and the node must not stay
// for the session's time.
func TestCloseEndsTheSessionBetweenConnections(t *testing.T) {
	for name, cut := range map[string]func(*zktest.Server){
		"just cut":            (*zktest.Server).CutConnections,
		"before the next one": func(s *zktest.Server) { s.CutConnections(); synctest.Wait() },
		"after an outage": func(s *zktest.Server) {
			s.RefuseConnections(true)
			s.CutConnections()
			time.Sleep(5 * time.Second) // virtual time: the pauses between tries are long by now
			s.RefuseConnections(false)
		},
	} {
		runInBubble(t, name, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			testbed.Create(t, client, "/held", nil, framework.As(framework.Ephemeral))
			testbed.Create(t, client, "/next", nil)
			cut(server)
			require.NoError(t, client.Close())
			synctest.Wait()
			require.False(t, server.Exists("/held"))
			require.Empty(t, server.Sessions())
		})
	}
}

// TestARefusalOfCredentialsIsNotTheReasonForGood: when the server that has refused them cannot be
// reached any more, operations wait for it, as in any outage.
func TestARefusalOfCredentialsIsNotTheReasonForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithAuth("digest", []byte("user:password")))
		refuses := testbed.RefuseCredentials(server)
		refuses.Store(true)
		server.CutConnections()
		synctest.Wait()
		require.ErrorIs(t, client.WaitConnected(t.Context()), zk.ErrAuthFailed)
		server.RefuseConnections(true)
		// Virtual time: the last try failed since no server could be reached, and not by a refusal.
		time.Sleep(2 * time.Second)
		refuses.Store(false)
		time.AfterFunc(time.Second, func() { server.RefuseConnections(false) })
		require.NoError(t, client.Sync(t.Context()))
	})
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestManyReconnectsLeaveNothingBehind: each connection had watches of all kinds, a dependent of
// its session, and a protected create.
func TestManyReconnectsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory()) // without a timeline, which grows
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext))
		require.NoError(t, server.Create("/a", nil))
		reconnect := func() {
			stop := testbed.Depend(t, testbed.Session(t, client), connstate.LostEndsHold, func(error) {})
			for _, mode := range []framework.WatchMode{framework.WatchPersistent, framework.WatchRecursive} {
				testbed.AddWatch(t, client, "/a", mode, func(zk.Event) {})
			}
			data := testbed.GetW(t, client, "/a")
			missing := testbed.ExistsW(t, client, "/none")
			testbed.ChildrenW(t, client, "/a")
			node := testbed.Create(t, client, "/a/n-", nil, framework.Protected(), framework.As(framework.PersistentSequential))
			require.NoError(t, client.Delete(t.Context(), node))
			server.CutConnections()
			<-data.Done()
			<-missing.Done()
			stop()
		}
		use := func(n int) (bytes int64, goroutines int) {
			for range n {
				reconnect()
			}
			testbed.Session(t, client)
			return heap(), runtime.NumGoroutine()
		}
		bytes, goroutines := use(200)
		later, more := use(2000)
		require.Less(t, later-bytes, int64(2000*50), "bytes")
		require.InDelta(t, goroutines, more, 5)
	})
}
