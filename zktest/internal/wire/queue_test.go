package wire

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, stop := NewQueue(), make(chan struct{})
		got := make(chan string)
		go func() {
			defer close(got)
			for {
				item, more := q.Next(stop)
				if !more {
					return
				}
				got <- string(item)
			}
		}()
		q.Push([]byte("a"))
		q.Push([]byte("b"))
		require.Equal(t, "a", <-got)
		synctest.Wait()
		require.Zero(t, q.Len(), "b is on its way")
		require.Equal(t, "b", <-got)
		q.Push([]byte("c"))
		q.End()
		q.Push([]byte("too late"))
		require.Equal(t, "c", <-got)
		_, more := <-got
		require.False(t, more)
	})
}

func TestQueueStops(t *testing.T) {
	q, stop := NewQueue(), make(chan struct{})
	q.Push([]byte("a"))
	close(stop)
	item, more := q.Next(stop)
	require.True(t, more, "what waits is still returned")
	require.Equal(t, "a", string(item))
	_, more = q.Next(stop)
	require.False(t, more)
}
