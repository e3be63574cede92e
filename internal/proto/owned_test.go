package proto

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// allocated is how many bytes f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// TestAListKeepsNoMoreThanItself: a list does not keep the rest of its frame in memory.
func TestAListKeepsNoMoreThanItself(t *testing.T) {
	const lists = 1000
	names := []string{"instance-1", "", "instance-3"}
	var frame []byte
	for range lists {
		frame = AppendStrings(frame, names)
	}
	d := NewDecoder(frame)
	var read [lists][]string
	require.Less(t, allocated(func() {
		for i := range read {
			read[i] = d.Strings()
		}
	}), 10*len(frame))
	for i := range read {
		require.Equal(t, names, read[i])
	}
	require.NoError(t, d.Err())
	require.Zero(t, d.Len())
}

// TestALargeBufferIsAPartOfItsFrame, and a small one is a copy.
func TestALargeBufferIsAPartOfItsFrame(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 1<<20-100)
	frame := Seal(AppendBytes(AppendBytes(Begin(0), []byte("small")), data))
	in := NewFrameReader(bytes.NewReader(frame), 4<<20)
	var small, large []byte
	require.Less(t, allocated(func() {
		body, err := in.Next()
		require.NoError(t, err)
		require.True(t, in.Owned())
		d := NewOwnedDecoder(body)
		small, large = d.Bytes(), d.Bytes()
		require.NoError(t, d.Err())
		body[4] = 'S'
		body[len(body)-1] = 'X'
	}), 5<<18, "the frame and little else")
	require.Equal(t, "small", string(small))
	require.Equal(t, byte('X'), large[len(large)-1])
	require.Equal(t, len(large), cap(large), "an append cannot change the frame")

	in = NewFrameReader(bytes.NewReader(Seal(AppendBytes(Begin(0), []byte("small")))), 4<<20)
	_, err := in.Next()
	require.NoError(t, err)
	require.False(t, in.Owned(), "the reader uses its buffer again")
}
