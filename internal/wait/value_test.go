package wait_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/wait"
)

func TestAChangeClosesTheChannelOfEachGetBefore(t *testing.T) {
	var v wait.Value[int]
	n, changed := v.Get()
	_, same := v.Get()
	require.Zero(t, n)
	require.False(t, wait.Closed(changed))
	v.Set(func(n *int) { *n = 7 })
	require.True(t, wait.Closed(changed))
	require.True(t, wait.Closed(same))
	n, changed = v.Get()
	require.Equal(t, 7, n)
	require.False(t, wait.Closed(changed))
}

func TestUntilReturnsTheFirstValueThatWillDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v wait.Value[int]
		var done sync.WaitGroup
		for range 3 {
			done.Go(func() {
				n, err := v.Until(t.Context(), func(n int) bool { return n > 1 })
				require.NoError(t, err)
				require.Equal(t, 2, n)
			})
		}
		for range 2 {
			synctest.Wait()
			v.Set(func(n *int) { *n++ })
		}
		done.Wait()
	})
}

func TestUntilEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v wait.Value[string]
		v.Set(func(s *string) { *s = "a" })
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		last, err := v.Until(ctx, func(s string) bool { return s == "b" })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "a", last)
		require.Equal(t, time.Second, time.Since(began))
		_, err = v.Until(ctx, func(s string) bool { return s == "a" })
		require.NoError(t, err, "what is there already needs no wait")
	})
}
