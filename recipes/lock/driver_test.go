package lock_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestNamesOfDigitsAreLocks: the number that the server adds is not taken for a part of the name.
func TestNamesOfDigitsAreLocks(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for _, name := range []string{"0", "1", "00", "7-", "-"} {
		q, err := lock.New(client, "/of-"+name, name, nil)
		require.NoError(t, err)
		for range 12 {
			require.NoError(t, acquire(t, q).Release(), name)
		}
	}
}

// TestDriverThatCannotBeComparedAfterAll has a value that cannot be compared, or is not equal to
// itself.
func TestDriverThatCannotBeComparedAfterAll(t *testing.T) {
	for _, value := range []any{[]int{1}, math.NaN()} {
		q, err := lock.New(testbed.InProcess(t).Client(t), "/lock", "lock-", struct {
			lock.Standard
			any
		}{any: value})
		require.NoError(t, err)
		watched(t, q)
	}
}

// other is a driver that embeds Standard and decides in another way: everybody holds.
type other struct{ lock.Standard }

func (other) Decide([]string, string, int) (lock.Decision, error) {
	return lock.Decision{Held: true}, nil
}

// TestADriverThatEmbedsStandardDoesNotInheritItsAnswer to whether a new node would have to wait.
func TestADriverThatEmbedsStandardDoesNotInheritItsAnswer(t *testing.T) {
	q, err := lock.New(testbed.InProcess(t).Client(t), "/lock", "lock-", other{})
	require.NoError(t, err)
	first, err := q.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	second, err := q.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
}

// stranger is a driver whose SortKey does not count its own nodes.
type stranger struct{ lock.Standard }

func (stranger) SortKey(string, string) (key string, ours bool) { return "", false }

// TestADriverThatDoesNotCountItsOwnNode is refused at once, and leaves none.
func TestADriverThatDoesNotCountItsOwnNode(t *testing.T) {
	server := zktest.NewServer(t)
	q, err := lock.New(testbed.On(server).Client(t), "/lock", "lock-", stranger{})
	require.NoError(t, err)
	server.ResetCounts()
	_, err = q.Acquire(testbed.Context(t))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.ErrorContains(t, err, "driver lock_test.stranger does not count its own node")
	length(t, server, q, 0)
}
