package framework_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// logged is a log that tests read.
type logged struct{ testbed.Output }

// lines are the lines that contain text.
func (l *logged) lines(text string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// keep is the option that writes to the log.
func (l *logged) keep(level slog.Level) framework.Option {
	return framework.WithLogger(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level})))
}

// TestServerThatAnswersOnlyPings has two servers. The first one grants sessions and answers pings,
// and no other request.
func TestServerThatAnswersOnlyPings(t *testing.T) {
	for name, zxid := range map[string]int64{
		"the other server grants a new session":                              0,
		"the other server refuses a client that has seen later transactions": 9,
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			well := zktest.NewServer(t, zktest.WithInMemory())
			sick := &scripted{answer: func(h proto.RequestHeader, _ []byte) []byte {
				if h.Op != proto.OpPing {
					return []byte{} // no answer
				}
				return packet(&proto.ReplyHeader{Xid: h.Xid, Zxid: zxid})
			}}
			t.Cleanup(sick.wg.Wait) // after the client is closed
			var first string        // only the goroutine that connects dials
			var sessions int64
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				time.Sleep(time.Millisecond) // virtual time: so failures have an order
				if first == "" {
					first = address
				}
				if address == first {
					sessions++
					sick.welcome = welcome(sessions, 9*time.Second)
					return sick.dial(ctx, network, address)
				}
				return well.DialContext(ctx, network, well.Addr())
			}
			client := testbed.NewClient(t, []string{"a", "b"}, framework.WithDialer(dial), framework.WithSessionTimeout(9*time.Second))
			began := time.Now()
			require.NoError(t, testbed.Err(client.Get(testbed.Timeout(t, time.Minute), "/")))
			require.Less(t, time.Since(began), 7*time.Second, "two thirds of the session timeout, and a pause")
		})
	}
}

// TestManyRequestsInARowAreNotASilentServer: each waits for the requests ahead of it, for longer
// than a server may be silent.
func TestManyRequestsInARowAreNotASilentServer(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		session := testbed.Session(t, client)
		defer server.Delay(time.Second, zktest.OnOp("getData"))()
		var group sync.WaitGroup
		for range 9 {
			group.Go(func() {
				if _, _, err := client.Get(t.Context(), "/"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.NoError(t, session.Err())
	}, framework.WithRetryPolicy(retry.Never()))
}

// TestSlowHandshake: nothing is gained by leaving the only server that there is.
func TestSlowHandshake(t *testing.T) {
	testbed.RunVirtual(t, "of a new session", func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		defer server.Delay(12*time.Second, zktest.OnOp("connect"))()
		client := testbed.ClientOf(t, server)
		began := time.Now()
		require.NoError(t, client.WaitConnected(testbed.Timeout(t, time.Hour)))
		require.Equal(t, 12*time.Second, time.Since(began), "at the first attempt")
	})
	testbed.RunVirtual(t, "of a session with a hold", func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.ClientOf(t, server, framework.WithErrorPolicy(connstate.LostEndsHold))
		_, hold := held(t, client, "/lock")
		defer server.Delay(25*time.Second, zktest.OnOp("connect"))()
		server.CutConnections()
		time.Sleep(2 * time.Minute) // virtual time: longer than the connect requests take
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Release())
	})
	testbed.RunVirtual(t, "while there are others", func(t *testing.T) {
		slow, well := zktest.NewServer(t, zktest.WithInMemory()), zktest.NewServer(t, zktest.WithInMemory())
		defer slow.Delay(time.Hour, zktest.OnOp("connect"))()
		tried := map[string]bool{} // only the goroutine that connects dials
		client := testbed.NewClient(t, []string{"a", "b", "c"}, framework.WithDialer(
			func(ctx context.Context, network, address string) (net.Conn, error) {
				tried[address] = true
				server := slow
				if len(tried) == 3 {
					server = well
				}
				return server.DialContext(ctx, network, server.Addr())
			}))
		began := time.Now()
		require.NoError(t, client.WaitConnected(t.Context()))
		require.LessOrEqual(t, time.Since(began), 20*time.Second)
	})
}

// TestWritesThatAreTooSlowForTheSessionAreAReason: the answers are too late to confirm the session.
func TestWritesThatAreTooSlowForTheSessionAreAReason(t *testing.T) {
	for name, test := range map[string]struct{ latency, idle time.Duration }{
		"nothing can be held":                    {time.Second, 0},
		"nothing can be held in an idle session": {time.Second, time.Minute},
		"no hold lasts":                          {700 * time.Millisecond, 0},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(test.latency))
			var log logged
			client := testbed.ClientOf(t, server, log.keep(slog.LevelWarn),
				framework.WithSessionTimeout(4*time.Second))
			time.Sleep(test.idle) // virtual time: how long the client has no server
			ctx := testbed.Timeout(t, time.Minute)
			ended := make(chan error, 1)
			err := client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
				session, err := in.Session(ctx)
				if err == nil {
					_, err = session.Depend(connstate.LostEndsHold, func(cause error) { ended <- cause })
				}
				return nil, err
			})
			if err == nil {
				select {
				case err = <-ended:
				case <-ctx.Done():
				}
			}
			require.NoError(t, ctx.Err(), "it ends by itself")
			require.ErrorIs(t, err, framework.ErrSessionLost)
			require.ErrorContains(t, err, "a write takes "+test.latency.String()+", and the session timeout allows 473ms")
			require.Len(t, log.lines("writes take too long"), 1, "once a minute")
		})
	}
	testbed.RunVirtual(t, "not if they are fast enough", func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(400*time.Millisecond))
		var log logged
		client := testbed.ClientOf(t, server, log.keep(slog.LevelWarn),
			framework.WithSessionTimeout(4*time.Second))
		_, hold := held(t, client, "/lock")
		time.Sleep(time.Hour) // virtual time, in which nothing may happen
		require.NoError(t, hold.Err())
		require.Empty(t, log.lines(""))
	})
}

// TestALongOutageIsLoggedAboutOnceAMinute with its duration and the last reason.
func TestALongOutageIsLoggedAboutOnceAMinute(t *testing.T) {
	testbed.RunVirtual(t, "after a session", func(t *testing.T) {
		var log logged
		server, client := virtual(t, log.keep(slog.LevelWarn))
		server.Stop()
		time.Sleep(time.Minute) // virtual time: longer than the session timeout
		require.Len(t, log.lines("session lost"), 1)
		require.Contains(t, log.lines("session lost")[0], "unreachable=")
		time.Sleep(time.Hour) // virtual time: a reminder a minute is counted
		reminders := log.lines("no server can be used")
		require.InDelta(t, 60, len(reminders), 1)
		require.Contains(t, reminders[len(reminders)-1], "for=1h0m")
		require.Contains(t, reminders[0], "refused")
		require.NoError(t, server.Restart())
		require.NoError(t, client.WaitConnected(t.Context()))
		time.Sleep(time.Hour) // virtual time, in which nothing more may be logged
		require.Len(t, log.lines("no server can be used"), len(reminders))
	})
	testbed.RunVirtual(t, "from the beginning", func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		server.RefuseConnections(true)
		var log logged
		testbed.ClientOf(t, server, framework.WithSessionTimeout(10*time.Second),
			log.keep(slog.LevelWarn))
		time.Sleep(10*time.Minute + time.Second) // virtual time: the tenth reminder has been logged
		require.Len(t, log.lines("no server reached yet"), 1, "not for both states at one moment")
		require.InDelta(t, 10, len(log.lines("no server can be used")), 1)
	})
}
