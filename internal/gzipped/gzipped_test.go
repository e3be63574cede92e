package gzipped

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/verdict"
)

// A few bytes must not take all memory, whatever their trailer claims.
func TestDecodeHasALimit(t *testing.T) {
	const limit = 100_000
	for n, want := range map[int]error{limit: nil, 2 * limit: ErrTooLarge} {
		data, err := Encode(make([]byte, n), n)
		require.NoError(t, err)
		plain, err := Decode(data, limit)
		require.ErrorIs(t, err, want)
		if want == nil {
			require.Len(t, plain, n)
			continue
		}
		binary.LittleEndian.PutUint32(data[len(data)-4:], 10)
		_, err = Decode(data, limit)
		require.ErrorIs(t, err, ErrTooLarge, "the trailer claims 10 bytes")
	}
	require.ErrorIs(t, ErrTooLarge, ErrNotCompressed)
}

// A node whose trailer claims more than the limit is not decompressed.
func TestDecodeBelievesALargeClaim(t *testing.T) {
	data, err := Encode(make([]byte, 64<<20), 64<<20)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Decode(data, MaxDecoded)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrTooLarge)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestEncodeHasALimit(t *testing.T) {
	_, err := Encode(make([]byte, 11), 10)
	require.ErrorIs(t, err, ErrTooLarge)
}

// Data that end early are a fact about the node. A request is not repeated because of them.
func TestDecode_IsNotRetried(t *testing.T) {
	whole, err := Encode([]byte("data"), 100)
	require.NoError(t, err)
	for _, data := range [][]byte{nil, []byte("x"), whole[:12], whole[:len(whole)-1]} {
		_, err := Decode(data, 100)
		require.ErrorIs(t, err, ErrNotCompressed)
		require.Equal(t, verdict.Answered, verdict.Of(err), "%v", err)
		require.False(t, verdict.Unknown(err), "%v", err)
	}
}
