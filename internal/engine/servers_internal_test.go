package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/opt"
)

// TestANameStandsForAllItsAddresses requires the preferred family first, each family in random
// order.
func TestANameStandsForAllItsAddresses(t *testing.T) {
	lookup := func(_ context.Context, host string) ([]string, error) {
		switch host {
		case "six":
			return []string{"fe80::1%eth0", "10.0.0.1", "fd00::2"}, nil
		case "none":
			return nil, nil
		}
		return []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, nil
	}
	first := make(map[string]bool)
	for range 100 {
		targets, err := resolve(t.Context(), lookup, "zk")
		require.NoError(t, err)
		require.ElementsMatch(t, []target{{"zk", "zk", "10.0.0.1:2181"}, {"zk", "zk", "10.0.0.2:2181"}, {"zk", "zk", "[fd00::1]:2181"}}, targets)
		require.Equal(t, "[fd00::1]:2181", targets[2].address)
		first[targets[0].address] = true
	}
	require.Len(t, first, 2)
	targets, err := resolve(t.Context(), lookup, "six:1")
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:1", targets[2].address)
	_, err = resolve(t.Context(), lookup, "none")
	require.ErrorContains(t, err, "no address")
	_, err = resolve(t.Context(), lookup, "zk:0")
	require.ErrorIs(t, err, opt.ErrBadArgument)
}

// TestAnAddressIsNotResolved, and without a resolver no name is.
func TestAnAddressIsNotResolved(t *testing.T) {
	never := func(context.Context, string) ([]string, error) { return nil, errors.New("resolved") }
	for _, server := range []string{"10.0.0.1:5", "[fd00::1]:5"} {
		targets, err := resolve(t.Context(), never, server)
		require.NoError(t, err)
		require.Equal(t, server, targets[0].address)
	}
	targets, err := resolve(t.Context(), nil, "zk:5")
	require.NoError(t, err)
	require.Equal(t, []target{{"zk:5", "zk", "zk:5"}}, targets)
	_, err = resolve(t.Context(), never, "zk:5")
	require.ErrorContains(t, err, "resolved")
}
