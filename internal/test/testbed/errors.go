package testbed

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// OneOp checks that err is a framework.OpError with op and path, and names no other operation.
func OneOp(t *testing.T, err error, op, path string) {
	t.Helper()
	require.IsType(t, &framework.OpError{}, err)
	e := err.(*framework.OpError)
	require.Equal(t, op+" "+path, e.Op+" "+e.Path)
	var inner *framework.OpError
	require.False(t, errors.As(e.Err, &inner), "%v", err)
}

// Err returns the error of a call, its last result. Use it for calls whose other results a test
// does not need:
//
//	require.ErrorIs(t, testbed.Err(client.Get(ctx, "/a")), zk.ErrNoNode)
func Err(results ...any) error {
	switch last := results[len(results)-1].(type) {
	case nil:
		return nil
	case error:
		return last
	default:
		panic(fmt.Sprintf("the last result is no error: %v", last))
	}
}
