package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/node"
)

func TestBadArgumentsAreRefusedAtOnce(t *testing.T) { // CUR-NOD-06
	client := testbed.NewClient(t, []string{"localhost:1"})
	for name, opts := range map[string][]node.Option{
		"nil option": {nil}, "taken": {node.WithIfTaken(node.Fail + 1)}, "negative": {node.WithIfTaken(-1)},
		"error policy": {node.WithErrorPolicy(connstate.LostEndsHold + 1)},
		"ttl":          {node.WithTTL(time.Millisecond)}, "ttl and protected": {node.WithTTL(time.Second), node.WithProtection()},
		"ttl and sequential": {node.WithTTL(time.Second), node.WithSequence()}, "sequential without protected": {node.WithSequence()},
	} {
		_, err := node.Keep(testbed.Context(t), client, "/a", nil, opts...)
		require.ErrorIs(t, err, framework.ErrBadArgument, name)
	}
	require.ErrorIs(t, testbed.Err(node.Keep(testbed.Context(t), nil, "/a", nil)), framework.ErrBadArgument)
	for _, path := range []string{"", "a", "/", "/a/", "/a//b"} {
		require.ErrorIs(t, testbed.Err(node.Keep(testbed.Context(t), client, path, nil)), framework.ErrBadPath, path)
	}
	require.ErrorIs(t, testbed.Err(node.Keep(testbed.Cancelled(t), client, "/a", nil)), context.Canceled)
}
