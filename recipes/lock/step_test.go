package lock

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// TestStep has every cell of the table: what a node in this state becomes by an event, and what the
// event leaves to do. A cell without a text changes nothing.
func TestStep(t *testing.T) {
	columns := []state{waiting, held, stranded, kept, leaving, gone}
	rows := map[event][6]string{
		granted:    {"held"},
		suspended:  {1: "stranded"},
		unreadable: {1: "leaving discard"},
		overdue:    {1: "leaving discard", 2: "leaving discard"},
		over:       {"gone passOn", "gone passOn", "gone passOn", "gone passOn", "gone passOn", ""},
		expired:    {2: "gone passOn"},
		rested:     {1: "kept offer"},
		unneeded:   {"leaving remove", "leaving remove", "leaving remove", "leaving remove", "leaving remove", "gone remove"},
		lapsed:     {"leaving discard", "leaving discard", "leaving discard", "leaving discard", "leaving discard", "gone discard"},
		unwanted:   {3: "leaving discard"},
		taken:      {3: "waiting"},
		resolved:   {},
	}
	states := map[state]string{waiting: "waiting", held: "held", stranded: "stranded", kept: "kept", leaving: "leaving", gone: "gone"}
	actions := map[action]string{nothing: "", offer: " offer", remove: " remove", discard: " discard", passOn: " passOn"}
	require.Len(t, rows, len(steps), "a row for each event")
	for e, row := range rows {
		for i, from := range columns {
			want := row[i]
			if want == "" {
				want = states[from]
			}
			to, a := step(from, e)
			require.Equal(t, want, states[to]+actions[a], "event %d in state %s", e, states[from])
		}
	}
}

// TestStep_AnyEvents: whatever happens, a node is held only by a grant, a node that is leaving
// or gone does not return, and other goroutines continue once.
func TestStep_AnyEvents(t *testing.T) {
	var follow func(s state, passed, left int)
	follow = func(s state, passed, left int) {
		require.LessOrEqual(t, passed, 1)
		require.Equal(t, s == gone, passed == 1, "who waits in the Queue continues exactly when the node is gone")
		if left == 0 {
			return
		}
		for e := granted; int(e) < len(steps); e++ {
			to, a := step(s, e)
			if to == held && s != held {
				require.Equal(t, []any{waiting, granted}, []any{s, e})
			}
			if s >= leaving {
				require.GreaterOrEqual(t, to, s)
			}
			if a == discard || a == remove {
				require.GreaterOrEqual(t, to, leaving)
			}
			now := passed
			if a == passOn {
				now++
			}
			follow(to, now, left-1)
		}
	}
	follow(waiting, 0, 5)
}

// TestLosses has the event of each way in which a term ends.
func TestLosses(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("%w: why", err) }
	for cause, want := range map[error]event{
		framework.ErrSuspended: suspended, framework.ErrShutdown: suspended,
		framework.ErrSessionLost: over, framework.ErrClosed: over, ErrNodeDeleted: over,
		ErrMaxHold: overdue, zk.ErrNoAuth: unreadable,
	} {
		require.Equal(t, want, lossBy(wrapped(cause)), cause)
	}
	for lost, want := range map[error]event{
		framework.ErrSuspended: unneeded, framework.ErrShutdown: unneeded, framework.ErrSessionLost: lapsed,
		framework.ErrClosed: resolved, ErrNodeDeleted: resolved, ErrMaxHold: resolved,
	} {
		require.Equal(t, want, releaseOf(wrapped(lost), true), lost)
	}
	require.Equal(t, rested, releaseOf(nil, true))
	require.Equal(t, unneeded, releaseOf(nil, false))
}
