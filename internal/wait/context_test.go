package wait_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/wait"
)

func TestBothReasonsAreFoundAndNoneTwice(t *testing.T) {
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, context.Canceled, wait.Err(plain))

	reason := errors.New("the boss said so")
	because, cancelBecause := context.WithCancelCause(t.Context())
	cancelBecause(reason)
	assert.ErrorIs(t, wait.Err(because), context.Canceled)
	assert.ErrorIs(t, wait.Err(because), reason)

	wrapped, cancelWrapped := context.WithCancelCause(t.Context())
	cancelWrapped(fmt.Errorf("inner: %w", context.Canceled))
	assert.EqualError(t, wait.Err(wrapped), "inner: context canceled")

	late, cancelLate := context.WithCancelCause(t.Context())
	cancelLate(context.DeadlineExceeded)
	assert.EqualError(t, wait.Err(late), "context deadline exceeded")
	assert.ErrorIs(t, wait.Err(late), context.Canceled)
	assert.ErrorIs(t, wait.Err(late), context.DeadlineExceeded)
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, wait.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		require.ErrorIs(t, wait.Sleep(ctx, time.Minute), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.Error(t, wait.Sleep(ctx, 0), "both are over: the context counts")
	})
}

type key string

func TestJoinHasTheLifeOfOneAndTheValuesOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values, end := context.WithCancelCause(context.WithValue(t.Context(), key("a"), "values"))
		life, cancel := context.WithCancelCause(context.WithValue(context.WithValue(t.Context(), key("a"), "life"), key("b"), "life"))
		defer cancel(nil)
		ctx := wait.Join(life, values)
		require.Equal(t, "values", ctx.Value(key("a")))
		require.Equal(t, "life", ctx.Value(key("b")))
		require.Nil(t, ctx.Value(key("c")))

		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		end(errors.New("of no effect"))
		synctest.Wait()
		require.NoError(t, ctx.Err())
		require.NoError(t, child.Err())

		reason := errors.New("the end")
		cancel(reason)
		<-child.Done()
		require.Equal(t, reason, context.Cause(ctx))
		require.Equal(t, reason, context.Cause(child))
	})
}
