package semaphore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// TestWorkStopsWithTheEnsembleAndGoesOnWithAQuorum stops all servers, and restarts two of three.
func TestWorkStopsWithTheEnsembleAndGoesOnWithAQuorum(t *testing.T) { // CUR-SEM-09
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		bed := testbed.OnCluster(cluster)
		var inside, work atomic.Int64
		var workers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer workers.Wait()
		defer cancel()
		worker := func(s *semaphore.Semaphore) {
			hold, err := s.Acquire(ctx)
			if err != nil {
				time.Sleep(time.Second) // virtual time between two tries
				return
			}
			assert.EqualValues(t, 1, inside.Add(1), "two work")
			for range 5 {
				select {
				case <-hold.Done():
				case <-time.After(100 * time.Millisecond):
					work.Add(1)
				}
			}
			inside.Add(-1)
			_ = hold.Release() // in an outage it is lost
		}
		for range 6 {
			client := bed.Client(t, framework.WithDialer(cluster.DialContext))
			s, err := semaphore.New(client, "/pool", 1)
			require.NoError(t, err)
			workers.Go(func() {
				for ctx.Err() == nil {
					worker(s)
				}
			})
		}
		observer := bed.Client(t, framework.WithDialer(cluster.DialContext))
		lost := make(chan connstate.State, 10)
		_, err := observer.Listen(func(s connstate.State) {
			if s == connstate.Lost {
				lost <- s
			}
		})
		require.NoError(t, err)
		time.Sleep(time.Minute) // virtual time, in which they work
		require.Greater(t, work.Load(), int64(100))

		for _, member := range cluster.Members() {
			member.Stop()
		}
		<-lost
		synctest.Wait()
		during := work.Load()
		time.Sleep(time.Minute) // virtual time, in which nobody may work
		require.Equal(t, during, work.Load())
		for _, member := range cluster.Members()[:2] {
			require.NoError(t, member.Restart())
		}
		time.Sleep(time.Minute) // virtual time, in which they work again
		require.Greater(t, work.Load(), during+100)
	})
}
