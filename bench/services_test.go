package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

func TestServicesAreCompared(t *testing.T) {
	server := zktest.NewServer(t)
	s := &servers{addresses: server.Servers()}
	b := serviceBench{servers: s, rounds: 2, services: 5, instances: 3}
	columns, err := b.run(t.Context(), []*peer{ourCaches(t, s), ourCaches(t, s)})
	require.NoError(t, err)
	require.Len(t, columns, 2)
	require.NotContains(t, server.Tree(), "services", "nothing stays on servers that are not ours")
	for _, c := range columns {
		require.Len(t, c.rounds, 2, "the first round is not counted")
		require.Positive(t, c.rounds[1][0].value)
		require.Positive(t, c.rounds[1][2].value)
	}
}
