package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestNames_ManyRequestsInFlight: with a round trip of 5 ms, one request after the other for 1,100
// nodes takes 6 s.
func TestNames_ManyRequestsInFlight(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		for i := range 100 {
			dir := fmt.Sprintf("/services/team/s%02d", i)
			require.NoError(t, w.Server.Create(dir, nil))
			for j := range 10 {
				require.NoError(t, w.Server.Create(fmt.Sprintf("%s/%d", dir, j), []byte("{}")))
			}
		}
		names := &tool{services: &services{base: "/services"}, client: w.Client()}
		began := time.Now()
		found, err := names.names(t.Context())
		require.NoError(t, err)
		require.Len(t, found, 100)
		require.Equal(t, "team/s00", found[0])
		require.Less(t, time.Since(began), 200*time.Millisecond, "virtual time")
	}, zktest.WithLatency(5*time.Millisecond))
}
