package cache_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// What a cache costs, on a server in the same process, which takes its share of the machine.

func benchClient(b *testing.B, server *zktest.Server) *framework.Client {
	b.Helper()
	client, err := framework.New(server.Servers())
	require.NoError(b, err)
	b.Cleanup(func() { client.Close() })
	return client
}

// BenchmarkLoad loads nodes of 100 bytes. heap-B/node is what the heap has grown by when all is
// loaded.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		for _, mode := range modes {
			b.Run(fmt.Sprintf("%s/%d", mode, n), func(b *testing.B) {
				server := zktest.NewServer(b)
				plant(b, benchClient(b, server), "/r", n, make([]byte, 100))
				var heap, reads int64
				for b.Loop() {
					b.StopTimer()
					client := benchClient(b, server)
					before := heapInUse()
					b.StartTimer()
					c, err := cache.New(mode.of(client), "/r")
					require.NoError(b, err)
					require.NoError(b, c.Sync(b.Context()))
					b.StopTimer()
					require.Equal(b, n+1, c.Stats().Nodes)
					heap, reads = heapInUse()-before, c.Stats().Reads
					require.NoError(b, c.Close())
					require.NoError(b, client.Close())
					b.StartTimer()
				}
				b.ReportMetric(float64(heap)/float64(n), "heap-B/node")
				b.ReportMetric(float64(reads)/float64(n), "reads/node")
			})
		}
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) + int64(m.StackInuse)
}

// BenchmarkDelay is the time from the moment at which a write is sent to its change, at 1,000
// writes a second to 100 nodes.
func BenchmarkDelay(b *testing.B) {
	for _, mode := range modes {
		b.Run(string(mode), func(b *testing.B) {
			server := zktest.NewServer(b)
			writer := benchClient(b, server)
			plant(b, writer, "/r", 100, nil)
			c, err := cache.New(mode.of(benchClient(b, server)), "/r")
			require.NoError(b, err)
			defer c.Close()
			require.NoError(b, c.Sync(b.Context()))
			loaded, arrived := make(chan struct{}), make(chan time.Time)
			go func() { // ends with the cache
				for ch := range c.Changes(context.Background()) {
					switch ch.Kind {
					case cache.Loaded:
						close(loaded)
					case cache.Changed:
						arrived <- time.Now()
					}
				}
			}()
			<-loaded // an earlier write would be reported as Created
			var delays []time.Duration
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for n := 0; b.Loop(); n++ {
				<-tick.C
				sent := time.Now()
				_, err := writer.Set(b.Context(), fmt.Sprintf("/r/node-%07d", n%100), nil)
				require.NoError(b, err)
				delays = append(delays, (<-arrived).Sub(sent))
			}
			slices.Sort(delays)
			b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkBurst writes one node 10,000 times, 16 at a time, and counts the reads that the cache
// makes.
func BenchmarkBurst(b *testing.B) {
	for _, mode := range modes {
		b.Run(string(mode), func(b *testing.B) {
			server := zktest.NewServer(b)
			writer := benchClient(b, server)
			plant(b, writer, "/r", 0, nil)
			c, err := cache.New(mode.of(benchClient(b, server)), "/r")
			require.NoError(b, err)
			defer c.Close()
			require.NoError(b, c.Sync(b.Context()))
			before, bursts := c.Stats().Reads, int64(0)
			for b.Loop() {
				burst(b, writer, "/r", 10_000)
				require.NoError(b, c.Sync(b.Context()))
				bursts++
			}
			b.ReportMetric(float64((c.Stats().Reads-before)/bursts), "reads/burst")
		})
	}
}
