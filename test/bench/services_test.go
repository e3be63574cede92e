package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestServicesAreCompared(t *testing.T) {
	server := zktest.NewServer(t)
	s := &servers{addresses: server.Servers()}
	relays := testbed.Must(s.relays(t.Context(), 2))
	var peers []*peer
	for _, r := range relays {
		t.Cleanup(r.close)
		peers = append(peers, ourCaches(t, &servers{addresses: []string{r.address()}}))
	}
	b := serviceBench{servers: s, relays: relays, rounds: 2, services: 5, instances: 3, registered: 4, quiet: 200 * time.Millisecond}
	columns := testbed.Must(b.run(t.Context(), peers))
	require.Len(t, columns, 2)
	require.NotContains(t, server.Tree(), "services", "nothing stays on servers that are not ours")
	for _, c := range columns {
		require.Len(t, c.rounds, 2, "the first round is not counted")
		require.Positive(t, c.rounds[1][0].value)
		got := map[string]float64{}
		for _, f := range c.rounds[1] {
			got[f.name] = f.value
		}
		require.GreaterOrEqual(t, got["requests for each service"], 4.0, "each instance is read")
		require.Greater(t, got["bytes on the wire for each instance"], 200.0, "its data have as many")
		require.Greater(t, got["requests at a reconnect, for each service that is watched"], 4.0, "each instance is read again")
		require.LessOrEqual(t, got["writes among them"], 1.0, "one proves that the session lives, and none is for an instance")
	}
}
