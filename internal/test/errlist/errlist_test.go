package errlist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/retry"
)

const comment = `Acquire acquires.

Errors are
  - the error of ctx if ctx is done. It wraps zk.ErrNoServer or
    [lock.ErrNotAcquired] if another client was ahead;
  - [framework.ErrClosed] if the client is closed;
  - [framework.MultiError] with the index of an operation;
  - the error of f;
  - the server's errors, such as zk.ErrNoAuth.

More text.
`

func TestFind(t *testing.T) {
	l, found := Parse(comment)
	require.True(t, found)
	require.Len(t, l.Bullets, 5)
	f := Function{Name: "example", folder: "recipes/mutex", list: l}
	notFree, err := text("recipes/lock", "ErrNotAcquired")
	require.NoError(t, err)
	own := errors.New("of f")

	for _, good := range []error{
		nil,
		context.Canceled,
		fmt.Errorf("%w: %w", errors.New(notFree), context.DeadlineExceeded),
		framework.ErrClosed,
		framework.ErrShutdown, // which wraps ErrClosed
		&framework.OpError{Op: "x", Err: &framework.MultiError{Err: zk.ErrNoNode}},
		own,
		operr.Join(own, framework.ErrClosed),
		zk.ErrNoAuth,
		framework.ErrThrottled,
	} {
		assert.NoError(t, Find(f, good, own), "%v", good)
	}
	for _, bad := range []error{
		errors.New("unknown"),
		errors.New(notFree), // only with the error of ctx
		zk.ErrNoServer,
		zk.ErrNoNode,
		framework.ErrSessionLost,
		fmt.Errorf("%w: %w", retry.ErrExhausted, context.Canceled),
		operr.Join(own, framework.ErrSessionLost),
	} {
		assert.Error(t, Find(f, bad, own), "%v", bad)
	}
	assert.Error(t, Find(f, own), "the test has named no error of f")
}

func TestFind_WithoutABullet(t *testing.T) {
	l, _ := Parse(comment)
	f := Function{Name: "example", folder: "recipes/mutex"}
	own := errors.New("of f")
	for i, err := range []error{context.Canceled, framework.ErrClosed, &framework.MultiError{Err: zk.ErrNoNode}, own, zk.ErrNoAuth} {
		f.list.Bullets = append(append([]string{}, l.Bullets[:i]...), l.Bullets[i+1:]...)
		assert.Error(t, Find(f, err, own), l.Bullets[i])
		f.list = l
		assert.NoError(t, Find(f, err, own), l.Bullets[i])
	}
}

func TestTexts(t *testing.T) {
	for name, want := range map[string]string{
		"recipes/rwlock.ErrUpgrade":  "held by the caller already: a reader cannot become a writer",
		"recipes/lock.ErrMaxHold":    "held for too long",
		"framework.ErrClosed":        framework.ErrClosed.Error(),
		"framework.ErrSessionLost":   framework.ErrSessionLost.Error(),
		"framework.ErrTooLong":       framework.ErrTooLong.Error(),
		"retry.ErrExhausted":         retry.ErrExhausted.Error(),
		"framework.ErrQuotaExceeded": framework.ErrQuotaExceeded.Error(),
	} {
		f := Function{folder: "."}
		got, err := f.value(name[strings.LastIndex(name, "/")+1:])
		assert.NoError(t, err)
		assert.Equal(t, want, got)
	}
	assert.Equal(t, "framework.ErrLost", nameOf(framework.ErrLost))
}
