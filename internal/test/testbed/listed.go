package testbed

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/internal/test/errlist"
)

// Listed checks that the comment of the called method has a bullet for err: see package errlist.
// It returns err. on is the value with the method, or the function.
//
// own are errors that functions of the test have returned: bullets such as "the error of f" have
// them.
//
//	hold, err := m.Acquire(ctx)
//	testbed.Listed(t, m, "Acquire", err)
//	r, err := discovery.Register(ctx, ...)
//	testbed.Listed(t, dubbo.Register, "Register", err)
func Listed(t testing.TB, on any, name string, err error, own ...error) error {
	t.Helper()
	f, bad := errlist.Of(on, name)
	if bad == nil {
		bad = errlist.Find(f, err, own...)
	}
	assert.NoError(t, bad)
	return err
}
