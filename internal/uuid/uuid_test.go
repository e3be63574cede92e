package uuid

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewIsAUUIDAsJavaPrintsIt(t *testing.T) {
	a, b := New(), New()
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, a)
	require.NotEqual(t, a, b)
}
