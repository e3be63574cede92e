package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
)

// lossy is one of some connections, which breaks if it makes their 30th read, their 60th and so on:
// a reply has come, and is lost.
type lossy struct {
	net.Conn
	reads, lost *atomic.Int64
}

func (l lossy) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err == nil && l.reads.Add(1)%30 == 0 {
		l.lost.Add(1)
		_ = l.Close()
		return 0, errors.New("a reply was lost")
	}
	return n, err
}

// javaCounts has 4 clients of ours and 2 of Java's increment one number. Ours lose replies and
// sessions, Java's do not, since Java counts an increment twice whose reply was lost. Each
// increment of ours that was confirmed counts once, and one of unknown outcome at most once.
func javaCounts(t *testing.T, s stage) {
	const clients = 4
	rounds := testlevel.Pick(20, 20, 1000)
	c := s.newScene(t)
	// 1,000 rounds with faults take a minute on a quiet machine
	ctx := testbed.Timeout(t, 4*testTimeout)
	java := s.javas(t, "atomic", c.path, fmt.Sprint(rounds))
	java.hear(t, ctx, "session")
	var reads, lost, confirmed, unknown, ended atomic.Int64
	var counting, killing sync.WaitGroup
	counts, stop := context.WithCancel(ctx)
	kills, spare := context.WithCancel(counts)
	t.Cleanup(func() {
		stop()
		counting.Wait()
		killing.Wait()
		t.Logf("ours: %d confirmed, %d unknown; %d replies lost, %d sessions ended", confirmed.Load(), unknown.Load(), lost.Load(), ended.Load())
	})
	for range clients {
		client := testbed.NewClient(t, s.ensemble.Servers(), framework.WithSessionTimeout(10*time.Second),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return lossy{conn, &reads, &lost}, err
			}))
		v := testbed.Must(shared.Int64(client, c.path, shared.WithMutex(c.path+"-mutex")))
		counting.Go(func() {
			for range rounds {
				_, err := v.Update(counts, func(n int64) (int64, error) { return n + 1, nil })
				switch {
				case err == nil:
					confirmed.Add(1)
				case counts.Err() != nil: // the test has failed, or its time is over
					return
				case retry.Unknown(err):
					unknown.Add(1)
				default:
					assert.NoError(t, err)
					return
				}
			}
		})
		killing.Go(func() {
			for wait.Sleep(kills, time.Second+rand.N(2*time.Second)) == nil {
				session, err := client.Session(kills)
				if err == nil {
					err = s.ensemble.ExpireSession(kills, session.ID())
				}
				if kills.Err() == nil && assert.NoError(t, err) {
					ended.Add(1)
				}
			}
		})
	}
	java.hear(t, ctx, "done")
	counting.Wait()
	require.NoError(t, ctx.Err())
	spare()
	killing.Wait()
	v := testbed.Must(shared.Int64(c.client, c.path))
	testbed.CatchUp(t, c.client)
	n, _, err := v.Get(ctx)
	require.NoError(t, err)
	ours := n - int64(others*rounds)
	t.Logf("Java has counted %d times, we have %d times", others*rounds, ours)
	require.GreaterOrEqual(t, ours, confirmed.Load(), "a confirmed increment is missing")
	require.LessOrEqual(t, ours, confirmed.Load()+unknown.Load(), "an increment counted twice")
	require.Positive(t, lost.Load())
	testbed.Eventually(t, func() bool {
		children, _, err := c.client.Children(ctx, c.path)
		return err == nil && len(children) == 0
	}, "no mark of a write is left")
}
