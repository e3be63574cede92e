package opt_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/opt"
)

type option func(*[]int) error

func add(n int) option {
	return func(list *[]int) error {
		*list = append(*list, n)
		return nil
	}
}

func TestOptionsAreAppliedInOrderUpToTheFirstError(t *testing.T) {
	var list []int
	require.NoError(t, opt.Apply(&list, []option{add(1), add(2)}))
	require.NoError(t, opt.Apply(&list, []func(*[]int) error{add(3)}))
	require.Equal(t, []int{1, 2, 3}, list)

	list = nil
	require.NoError(t, opt.Apply(&list, []option{opt.All(add(1), add(2)), add(3)}))
	require.Equal(t, []int{1, 2, 3}, list)

	bad := errors.New("bad")
	list = nil
	err := opt.Apply(&list, []option{add(1), func(*[]int) error { return bad }, add(2)})
	require.Equal(t, bad, err)
	require.Equal(t, []int{1}, list)
}

func TestANilOptionIsABadArgument(t *testing.T) {
	var list []int
	err := opt.Apply(&list, []option{nil})
	require.ErrorIs(t, err, opt.ErrBadArgument)
	require.EqualError(t, err, "bad argument: nil option")
}

func TestCheckedAndSet(t *testing.T) {
	var n int
	set := func(n *int) { *n++ }
	require.NoError(t, opt.Apply(&n, []func(*int) error{opt.Checked(true, set, "bad %d", 7), opt.Set(set)}))
	require.Equal(t, 2, n)
	err := opt.Checked(false, set, "bad %d", 7)(&n)
	require.ErrorIs(t, err, opt.ErrBadArgument)
	require.EqualError(t, err, "bad argument: bad 7")
	require.Equal(t, 2, n)
}
