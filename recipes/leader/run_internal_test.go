package leader

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

func TestRepeats(t *testing.T) {
	ended := fmt.Errorf("%w: %w", context.Canceled, framework.ErrSessionLost)
	other := errors.New("disk full")
	for _, err := range []error{
		context.Canceled, framework.ErrSessionLost, ended, fmt.Errorf("work: %w", context.Canceled),
		&framework.OpError{Op: "get", Path: "/", Err: framework.ErrSessionLost}, errors.Join(context.Canceled, framework.ErrSessionLost),
		// the last attempt's
		&framework.OpError{Op: "get", Path: "/", Err: fmt.Errorf("%w: %w", ended, zk.ErrConnectionClosed)},
	} {
		require.True(t, repeats(err, ended), err)
	}
	for _, err := range []error{nil, other, context.DeadlineExceeded, errors.Join(other, context.Canceled), fmt.Errorf("work: %w", other),
		&framework.OpError{Op: "get", Path: "/", Err: context.DeadlineExceeded}, fmt.Errorf("%w: %w", ended, other),
	} {
		require.False(t, repeats(err, ended), err)
	}
	require.False(t, repeats(context.Canceled, nil), "the context has not ended")
}
