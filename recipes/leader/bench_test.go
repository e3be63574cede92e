package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/zktest"
)

// BenchmarkFailover is the time without a leader: from the resignation, or from the end of the
// leader's session on the server, to the next term. After a crash the server ends the session a
// session timeout, rounded up to its next tick, after it heard of it last; that is not in it.
func BenchmarkFailover(b *testing.B) {
	b.Run("resign", func(b *testing.B) {
		benchmarkFailover(b, func(_ *zktest.Server, term *leader.Term) (began time.Time) {
			began = time.Now()
			require.NoError(b, term.Release())
			return began
		})
	})
	b.Run("session", func(b *testing.B) {
		benchmarkFailover(b, func(server *zktest.Server, term *leader.Term) (began time.Time) {
			stat, err := server.Stat(term.Path())
			require.NoError(b, err)
			began = time.Now()
			require.NoError(b, server.ExpireSession(stat.EphemeralOwner))
			return began
		})
	})
}

func benchmarkFailover(b *testing.B, end func(*zktest.Server, *leader.Term) time.Time) {
	server, err := zktest.Start()
	require.NoError(b, err)
	defer server.Close()
	terms := make(chan *leader.Term)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	const candidates = 3
	for range candidates {
		client, err := framework.New(server.Servers())
		require.NoError(b, err)
		defer client.Close()
		e, err := leader.New(client, "/election")
		require.NoError(b, err)
		go func() {
			for {
				term, err := e.Campaign(ctx)
				if err != nil {
					ended <- err
					return
				}
				terms <- term
				<-term.Done()
				_ = term.Release()
			}
		}()
	}
	term := <-terms
	var without time.Duration
	for b.Loop() {
		for { // all others wait
			children, err := server.Children("/election")
			if err == nil && len(children) == candidates {
				break
			}
			time.Sleep(time.Millisecond) // the server gives no signal, and this is not measured
		}
		began := end(server, term)
		term = <-terms
		without += time.Since(began)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(without.Microseconds())/float64(b.N), "µs-without-leader")
	cancel()
	_ = term.Release()
	for range candidates {
		select {
		case term := <-terms: // was elected at the last moment
			_ = term.Release()
		case <-ended:
			continue
		}
		<-ended
	}
}
