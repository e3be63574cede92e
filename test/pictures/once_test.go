package pictures

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/once"
)

// TestOnce is a job that cron starts on three machines at 2 s. The machine that runs it is cut off,
// the second machine runs it with success, and the third machine finds it done.
func TestOnce(t *testing.T) {
	play(t, "once", "A job once per firing: the first machine is cut off, the second one runs it, the third one finds it done", func(s *stage) {
		servers := s.Members()
		var runs, successes, before atomic.Int32
		var firing sync.WaitGroup
		for i, name := range []string{"machine 1", "machine 2", "machine 3"} {
			client := s.client(name, servers[i])
			job, err := once.New(client, "/invoices")
			require.NoError(s, err)
			firing.Go(func() {
				time.Sleep(2*time.Second + time.Duration(i)*50*time.Millisecond) // virtual time: cron, which is not exact
				done, err := job.Do(context.Background(), "2026-11-28", func(ctx context.Context) error {
					n := runs.Add(1)
					if n == 1 {
						servers[i].Freeze() // the network of the machine fails
					}
					pause(2 * time.Second)(ctx)
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					successes.Add(1)
					return nil
				})
				if err == nil && !done.Ran {
					before.Add(1)
				}
			})
		}
		time.Sleep(12 * time.Second) // virtual time: until all machines know
		for _, server := range servers {
			server.ClearFaults()
		}
		firing.Wait()
		assert.EqualValues(s, 2, runs.Load())
		assert.EqualValues(s, 1, successes.Load())
		assert.EqualValues(s, 1, before.Load())
	})
}
