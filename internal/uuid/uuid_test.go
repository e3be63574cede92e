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

func TestValid(t *testing.T) {
	require.True(t, Valid(New()))
	require.True(t, Valid("EAECB28B-24d5-4a5c-865e-e14186f83a63"))
	for _, text := range []string{"", "eaecb28b", "eaecb28b-24d5-4a5c-865e-e14186f83a6",
		"eaecb28b-24d5-4a5c-865e-e14186f83a63-", "eaecb28b024d5-4a5c-865e-e14186f83a63",
		"gaecb28b-24d5-4a5c-865e-e14186f83a63", "eaecb28b-24d5-4a5c-865e-e14186f83a6-"} {
		require.False(t, Valid(text), text)
	}
}
