package sim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// checked tells a monitor of holders, and returns what it complains of.
func checked(t *testing.T, most int, tell func(m *monitor, hold func(h held) (end func()))) (wrong []string) {
	synctest.Test(t, func(*testing.T) {
		m := newMonitor(most, false)
		owner := 0
		tell(m, func(h held) func() {
			var end context.CancelCauseFunc
			h.ctx, end = context.WithCancelCause(context.Background())
			if h.owner == 0 {
				owner++
				h.owner = owner
			}
			h.timeout = 4 * time.Second
			m.enter(&h)
			return func() { end(errors.New("released")) }
		})
		m.tokens()
		wrong = m.wrong
	})
	return wrong
}

func TestMonitorFindsWhatIsWrong(t *testing.T) {
	type hold = func(held) func()
	for name, c := range map[string]struct {
		most int
		tell func(*monitor, hold)
		want string // empty: nothing
	}{
		"one after the other":      {1, func(_ *monitor, hold hold) { hold(held{known: 1})(); hold(held{known: 2}) }, ""},
		"two at a time":            {1, func(_ *monitor, hold hold) { hold(held{}); hold(held{}) }, "overlap"},
		"readers":                  {1, func(_ *monitor, hold hold) { hold(held{shared: true}); hold(held{shared: true}) }, ""},
		"a writer beside a reader": {1, func(_ *monitor, hold hold) { hold(held{shared: true}); hold(held{}) }, "overlap"},
		"a reader beside a writer": {1, func(_ *monitor, hold hold) { hold(held{}); hold(held{shared: true}) }, "overlap"},
		"a downgrade": {1, func(_ *monitor, hold hold) {
			hold(held{owner: 7, known: 3})
			hold(held{owner: 7, shared: true, known: 3})
		}, ""},
		"two of two":               {2, func(_ *monitor, hold hold) { hold(held{}); hold(held{}) }, ""},
		"three of two":             {2, func(_ *monitor, hold hold) { hold(held{}); hold(held{}); hold(held{}) }, "overlap"},
		"a token that falls":       {1, func(_ *monitor, hold hold) { hold(held{known: 2})(); hold(held{known: 1}) }, "token falls"},
		"a token that stays":       {1, func(_ *monitor, hold hold) { hold(held{known: 2})(); hold(held{known: 2}) }, "token falls"},
		"a session ended by force": {1, func(m *monitor, hold hold) { hold(held{session: 5}); m.end(5); hold(held{}) }, ""},
		"an excuse that has ended": {1, func(m *monitor, hold hold) {
			hold(held{session: 5})
			m.end(5)
			time.Sleep(15 * time.Second)
			hold(held{})
		}, "overlap"},
		"a node deleted by hand": {1, func(m *monitor, hold hold) { hold(held{node: "/l/a"}); m.delete("/l/a"); hold(held{}) }, ""},
		"another node deleted":   {1, func(m *monitor, hold hold) { hold(held{node: "/l/a"}); m.delete("/l/b"); hold(held{}) }, "overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := checked(t, c.most, c.tell)
			if c.want == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.True(t, strings.HasPrefix(wrong[0], c.want), wrong[0])
		})
	}
}

func TestMonitorFindsStaleAndLostWrites(t *testing.T) {
	old, late := &held{known: 1}, &held{known: 2}
	for name, c := range map[string]struct {
		writes []write
		value  int
		want   string
	}{
		"in order":              {[]write{{1, old}, {2, late}}, 2, ""},
		"a stale holder writes": {[]write{{1, late}, {2, old}}, 2, "stale write"},
		"the same number twice": {[]write{{1, old}, {1, late}}, 2, "update lost"},
		"a counter that is low": {[]write{{1, old}, {2, late}}, 1, "update lost"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMonitor(1, false)
			m.writes = c.writes
			m.conclude(c.value)
			if c.want == "" {
				require.Empty(t, m.wrong)
				return
			}
			require.Len(t, m.wrong, 1)
			require.True(t, strings.HasPrefix(m.wrong[0], c.want), m.wrong[0])
		})
	}
}
