package ctxerr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/internal/ctxerr"
)

func TestBothReasonsAreFoundAndNoneTwice(t *testing.T) {
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, context.Canceled, ctxerr.Of(plain))

	reason := errors.New("the boss said so")
	because, cancelBecause := context.WithCancelCause(t.Context())
	cancelBecause(reason)
	assert.ErrorIs(t, ctxerr.Of(because), context.Canceled)
	assert.ErrorIs(t, ctxerr.Of(because), reason)

	wrapped, cancelWrapped := context.WithCancelCause(t.Context())
	cancelWrapped(fmt.Errorf("inner: %w", context.Canceled))
	assert.EqualError(t, ctxerr.Of(wrapped), "inner: context canceled")

	late, cancelLate := context.WithCancelCause(t.Context())
	cancelLate(context.DeadlineExceeded)
	assert.EqualError(t, ctxerr.Of(late), "context deadline exceeded", "issue 10, B8")
	assert.ErrorIs(t, ctxerr.Of(late), context.Canceled)
	assert.ErrorIs(t, ctxerr.Of(late), context.DeadlineExceeded)
}
