package shared

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachVersionIsThatOfANode: after 2^32 - 2 writes a node has version -2, which stood for "no
// node". Each Update and Swap then failed to create the node, for ever.
func TestEachVersionIsThatOfANode(t *testing.T) { // CURATOR-688, at another number
	for _, number := range []int32{math.MinInt32, -3, -2, 0, math.MaxInt32} {
		version := Version{czxid: 1, mzxid: 2, number: number}
		require.True(t, version.Exists())
		require.False(t, version.expected() == noNode, number)
		require.EqualValues(t, number, version.expected())
	}
	require.True(t, Version{}.expected() == noNode)
}
