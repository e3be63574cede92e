package framework_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// BenchmarkGet reads one small node, alone and with many at once, from an in-process server, whose
// allocations are counted as well.
func BenchmarkGet(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			server, err := zktest.Start()
			require.NoError(b, err)
			defer server.Close()
			client, err := framework.New(server.Servers())
			require.NoError(b, err)
			defer client.Close()
			_, err = client.Create(b.Context(), "/a", []byte("data"))
			require.NoError(b, err)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					for j := i; j < b.N; j += n {
						if _, _, err := client.Get(b.Context(), "/a"); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
