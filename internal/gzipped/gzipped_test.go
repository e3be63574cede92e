package gzipped

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A few bytes must not take all memory.
func TestDecodeHasALimit(t *testing.T) {
	const limit = 100_000
	for n, want := range map[int]error{limit: nil, limit + 1: ErrNotCompressed} {
		plain, err := Decode(Encode(make([]byte, n)), limit)
		require.ErrorIs(t, err, want)
		if want == nil {
			require.Len(t, plain, n)
		}
	}
}
