package framework_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// TestARequestThatTheServerHasForgottenIsAnsweredSoon is ZOOKEEPER-4537, with and without nudges.
func TestARequestThatTheServerHasForgottenIsAnsweredSoon(t *testing.T) {
	for _, op := range []string{"create", "delete", "getData"} {
		for name, want := range map[string]struct {
			opts []framework.Option
			took time.Duration
		}{
			"nudges":                         {nil, 50 * time.Millisecond},
			"no nudges, until the next ping": {[]framework.Option{engine.Configure[framework.Option](func(c *engine.Config) { c.Nudges = false })}, 10 * time.Second},
		} {
			testbed.RunVirtual(t, fmt.Sprint(op, ", ", name), func(t *testing.T) {
				server, client := virtual(t, append(want.opts, framework.WithSessionTimeout(30*time.Second))...)
				lost := server.Inject(zktest.LoseWakeup, 0, zktest.OnOp(op))
				began := time.Now()
				testbed.Create(t, client, "/n", nil)
				testbed.Get(t, client, "/n")
				require.NoError(t, client.Delete(t.Context(), "/n"))
				require.True(t, lost.Met())
				require.Equal(t, want.took, time.Since(began))
			})
		}
	}
}

// TestAQuickServerGetsNoNudges has writes of 1 ms.
func TestAQuickServerGetsNoNudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithLatency(time.Millisecond))
		client := testbed.ClientOf(t, server)
		began := time.Now()
		for range 5_000 {
			testbed.Create(t, client, "/n", nil)
			require.NoError(t, client.Delete(t.Context(), "/n"))
		}
		require.GreaterOrEqual(t, time.Since(began), 10*time.Second)
		require.Zero(t, server.Requests().Requests["sync"])
	})
}

// TestAServerThatAnswersNothingGetsOneNudge from each connection, however many requests it does not
// answer.
func TestAServerThatAnswersNothingGetsOneNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var nudges []int // of each connection
		l := &scripted{}
		l.welcome = func(r proto.ConnectRequest) []byte {
			mu.Lock()
			defer mu.Unlock()
			nudges = append(nudges, 0)
			return welcome(7, 10*time.Second)(r)
		}
		l.answer = func(h proto.RequestHeader, _ []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			if h.Op == proto.OpSync {
				nudges[len(nudges)-1]++
			}
			return []byte{}
		}
		client := l.client(t, framework.WithRetryPolicy(retry.NTimes(2, 0)))
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() {
				// Virtual time: the callers arrive one after the other.
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				assert.Error(t, client.Delete(t.Context(), "/n"))
			})
		}
		callers.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.GreaterOrEqual(t, len(nudges), 3)
		for _, n := range nudges {
			require.LessOrEqual(t, n, 1)
		}
		require.Equal(t, 1, nudges[0])
	})
}

// TestNudgesDoNotBringTheDeadlineNear has a leader that is slow, and takes almost all the time for
// heartbeats that the session's deadline leaves. A nudge behind each write must not add to that.
func TestNudgesDoNotBringTheDeadlineNear(t *testing.T) {
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		testbed.Create(t, client, "/n", nil)
		session := testbed.Session(t, client)
		server.Delay(500*time.Millisecond, zktest.OnOp("sync", "multi"))
		stop := testbed.Depend(t, session, connstate.LostEndsHold, func(err error) { t.Errorf("notified %v", err) })
		defer stop()
		for i := range 1000 {
			slow := server.Delay(time.Duration(i%7)*20*time.Millisecond, zktest.OnOp("setData"))
			_, err := client.Set(t.Context(), "/n", nil)
			slow()
			require.NoError(t, err)
			// Virtual time: the pauses between writes vary.
			time.Sleep(time.Duration(i%11) * 300 * time.Millisecond)
		}
		require.NoError(t, session.Err())
	}, framework.WithSessionTimeout(4*time.Second))
}
