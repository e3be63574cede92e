package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check runs the program and checks its output.
func check(t *testing.T, servers []string) {
	t.Helper()
	var out bytes.Buffer
	j := job{out: &out, path: "/room", workers: 3, rounds: 5, work: time.Millisecond}
	require.NoError(t, j.run(testbed.Context(t), servers), "%s", &out)
	require.Contains(t, out.String(), "exports   15 of 15")
	require.Contains(t, out.String(), "imports   15 of 15")
	require.Contains(t, out.String(), "meetings  0\n")
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

func TestOneGroupAtATimeInTheOrderOfArrival(t *testing.T) {
	ctx := testbed.Context(t)
	client := testbed.InProcess(t).Client(t)
	a, b := testbed.Must(NewRoom(client, "/room", "a")), testbed.Must(NewRoom(client, "/room", "b"))
	first, err := a.Acquire(ctx)
	require.NoError(t, err)
	second, err := a.TryAcquire(ctx)
	require.NoError(t, err, "its own group is in")
	require.ErrorIs(t, testbed.Err(b.TryAcquire(ctx)), lock.ErrNotAcquired)

	other := testbed.Go(func() *lock.Hold {
		hold, err := b.Acquire(ctx)
		assert.NoError(t, err)
		return hold
	})
	testbed.Eventually(t, func() bool {
		ps, err := a.Participants(ctx)
		return err == nil && len(ps) == 3
	}, "the other group waits")
	require.ErrorIs(t, testbed.Err(a.TryAcquire(ctx)), lock.ErrNotAcquired, "it would overtake")
	require.NoError(t, first.Release())
	require.Empty(t, other, "two groups in one room")
	require.NoError(t, second.Release())
	hold := testbed.Receive(t, other, "the room")
	require.ErrorIs(t, testbed.Err(a.TryAcquire(ctx)), lock.ErrNotAcquired)
	require.NoError(t, hold.Release())
}

func TestNonsenseIsRefused(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for _, group := range []string{"", "a/b", "a.room-"} {
		require.ErrorIs(t, testbed.Err(NewRoom(client, "/room", group)), framework.ErrBadArgument, group)
	}
	require.Error(t, job{workers: 1, rounds: 0}.run(t.Context(), nil))
}

func TestAMeetingIsAnError(t *testing.T) {
	db := &database{out: &bytes.Buffer{}, inside: map[string]int{}, most: map[string]int{}, done: map[string]int{"export": 1, "import": 1}}
	require.NoError(t, db.summary(1))
	require.Error(t, db.summary(2))
	db.enter("export")
	db.enter("import")
	require.Error(t, db.summary(1))
}
