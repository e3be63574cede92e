package pictures

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/shard"
)

// TestShards restarts the members of a group one after the other. With WithGrace no shard moves to
// another member.
func TestShards(t *testing.T) {
	play(t, "shards", "A rolling restart of three members with six shards and WithGrace: no shard moves", func(s *stage) {
		servers := s.Members()
		var mu sync.Mutex
		owners := make(map[int]map[string]bool) // members that have run a shard
		member := func(i int) (stop func()) {
			id := fmt.Sprintf("member %d", i+1)
			client := s.client(id, servers[i])
			m, err := shard.New(client, "/g", fmt.Sprint(i+1), 6, shard.WithGrace(time.Minute), shard.WithSettling(500*time.Millisecond))
			require.NoError(s, err)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() {
				ended <- m.Run(ctx, func(ctx context.Context, n int) error {
					mu.Lock()
					if owners[n] == nil {
						owners[n] = make(map[string]bool)
					}
					owners[n][id] = true
					mu.Unlock()
					<-ctx.Done()
					return nil
				})
			}()
			return func() {
				cancel()
				<-ended
				require.NoError(s, client.Close())
			}
		}
		var stops []func()
		for i := range servers {
			stops = append(stops, member(i))
		}
		time.Sleep(4 * time.Second) // virtual time: a healthy group
		for i := range servers {
			stops[i]()
			time.Sleep(time.Second) // virtual time: a restart
			stops[i] = member(i)
			time.Sleep(2 * time.Second) // virtual time: until the next restart
		}
		mu.Lock()
		defer mu.Unlock()
		require.Len(s, owners, 6)
		for n, all := range owners {
			assert.Len(s, all, 1, "shard %d has moved", n)
		}
		for _, stop := range stops {
			stop()
		}
	})
}
