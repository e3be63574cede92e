package testbed

import (
	"errors"
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
