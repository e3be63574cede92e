package zktest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

func TestCredentialsAreRefusedForAWhile(t *testing.T) {
	s := zktest.NewServer(t)
	present := func(c *rawClient) int32 {
		return ask(t, c, opAuth, digest("user:secret")).code
	}
	before := raw(t, s, nil)
	require.Zero(t, present(before))

	s.RefuseCredentials(true)
	c := raw(t, s, nil)
	require.EqualValues(t, codeAuthFailed, present(c))
	over(t, c)
	ping(t, before)
	ping(t, raw(t, s, nil)) // without credentials

	s.RefuseCredentials(false)
	c = raw(t, s, c)
	require.Zero(t, present(c), "the session goes on")
	s.RefuseCredentials(true)
	s.ClearFaults()
	require.Zero(t, present(raw(t, s, nil)))
}
