package session_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/session"
	"github.com/gocurator/curator/internal/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	connected   = connstate.Connected
	suspended   = connstate.Suspended
	reconnected = connstate.Reconnected
	lost        = connstate.Lost
)

// record listens and keeps what it hears.
type record struct {
	mu    sync.Mutex
	heard []connstate.State
}

func (r *record) hear(s connstate.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, s)
}

func (r *record) states() []connstate.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]connstate.State(nil), r.heard...)
}

// listening returns a machine with these listeners, which is closed when the test ends.
func listening(t *testing.T, listeners ...func(connstate.State)) *session.Machine {
	t.Helper()
	m := session.NewMachine(nil)
	t.Cleanup(m.Close)
	for _, listener := range listeners {
		require.NoError(t, testbed.Err(m.Listen(listener)))
	}
	return m
}

func TestTransitions(t *testing.T) {
	for name, c := range map[string]struct{ set, heard []connstate.State }{
		"server goes away":         {[]connstate.State{connected, suspended, lost}, []connstate.State{connected, suspended, lost}},                                                           // CUR-CST-01
		"full cycle":               {[]connstate.State{connected, suspended, lost, connected, suspended, lost}, []connstate.State{connected, suspended, lost, reconnected, suspended, lost}}, // CUR-CST-02
		"short outage":             {[]connstate.State{connected, suspended, connected}, []connstate.State{connected, suspended, reconnected}},                                               // CUR-CST-03
		"lost from connected":      {[]connstate.State{connected, lost, connected}, []connstate.State{connected, suspended, lost, reconnected}},                                              // CURATOR-367
		"connected only once":      {[]connstate.State{connected, connected, connected}, []connstate.State{connected}},                                                                       // CUR-CST-16
		"nothing before connected": {[]connstate.State{suspended, lost, connected}, []connstate.State{connected}},
		"lost stays lost":          {[]connstate.State{connected, lost, suspended, lost}, []connstate.State{connected, suspended, lost}},
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			var r record
			m := listening(t, r.hear)
			for _, s := range c.set {
				m.Set(s)
			}
			synctest.Wait()
			assert.Equal(t, c.heard, r.states())
			assert.Equal(t, c.heard[len(c.heard)-1], m.State())
		})
	}
}

func TestBlockedListenerHarmsNobodyAndMissesNoLoss(t *testing.T) { // CURATOR-495, -36
	for name, loses := range map[string]bool{"with a loss": true, "without": false} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			release := make(chan struct{})
			var slow, fast record
			m := listening(t, func(s connstate.State) {
				<-release
				slow.hear(s)
			}, fast.hear)
			m.Set(connected)
			if loses {
				m.Set(lost)
			}
			const flaps = 10_000
			for range flaps {
				m.Set(connected)
				m.Set(suspended)
			}
			m.Set(connected)
			synctest.Wait()
			require.Equal(t, reconnected, m.State())
			close(release)
			synctest.Wait()
			heard := slow.states()
			require.Less(t, len(heard), 50, "memory is bounded")
			require.Equal(t, loses, slices.Contains(heard, lost))
			require.Equal(t, reconnected, heard[len(heard)-1], "the latest")
		})
	}
}

func TestStatesAreHeardInOrderAndNoLossIsLeftOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sets := rapid.SliceOfN(rapid.SampledFrom([]connstate.State{connected, suspended, lost}), 0, 100).Draw(rt, "sets")
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			var r record
			m := listening(t, func(s connstate.State) {
				<-release
				r.hear(s)
			})
			var all []connstate.State
			for _, s := range sets {
				before := m.State()
				if m.Set(s); s == lost && before.IsConnected() {
					all = append(all, suspended)
				}
				if now := m.State(); now != before {
					all = append(all, now)
				}
			}
			close(release)
			synctest.Wait()
			heard := r.states()
			if len(all) <= 10 {
				require.Equal(rt, all, heard, "a few are all heard")
			}
			if len(all) > 0 {
				require.Equal(rt, all[len(all)-1], heard[len(heard)-1], "the latest")
			}
			require.Equal(rt, slices.Contains(all, lost), slices.Contains(heard, lost), "%v of %v", heard, all)
			for _, s := range heard { // in order
				i := slices.Index(all, s)
				require.GreaterOrEqual(rt, i, 0, "%v of %v", heard, all)
				all = all[i+1:]
			}
		})
	})
}

func TestListenerThatFailsStaysAndHarmsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		fail   func()
		logged int
	}{
		"it panics":             {func() { panic("listener") }, 2},
		"it ends its goroutine": {runtime.Goexit, 0}, // as t.FailNow does
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			var log bytes.Buffer
			m := session.NewMachine(slog.New(slog.NewTextHandler(&log, nil)))
			defer m.Close()
			var bad, good record
			for _, listener := range []func(connstate.State){func(s connstate.State) { bad.hear(s); c.fail() }, good.hear} {
				require.NoError(t, testbed.Err(m.Listen(listener)))
			}
			m.Set(connected)
			m.Set(suspended)
			synctest.Wait()
			require.Equal(t, []connstate.State{connected, suspended}, bad.states())
			require.Equal(t, bad.states(), good.states())
			require.Equal(t, c.logged, strings.Count(log.String(), "state listener panicked"))
		})
	}
}

func TestCloseWaitsForNoListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var r record
		m := listening(t, func(s connstate.State) {
			r.hear(s)
			<-goOn
		})
		m.Set(connected)
		synctest.Wait()
		m.Set(suspended)
		m.Close()
		close(goOn)
		synctest.Wait()
		require.Equal(t, []connstate.State{connected}, r.states(), "nothing follows")
	})
}

func TestListenersMayCallTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := session.NewMachine(nil)
		var remove func()
		var r record
		remove, err := m.Listen(func(s connstate.State) {
			r.hear(s)
			m.Set(suspended)
			assert.NoError(t, testbed.Err(m.Listen(func(connstate.State) {})))
			remove()
			m.Close()
		})
		require.NoError(t, err)
		m.Set(connected)
		synctest.Wait()
		require.Equal(t, []connstate.State{connected}, r.states(), "removed, and closed")
		require.Equal(t, suspended, m.State())
		m.Close()
		m.Set(connected)
		require.Equal(t, suspended, m.State(), "closed")
	})
}

// TestAnObserverHearsOfTheStateBeforeAndOfTheEnd, for which Close waits unless the observer is
// busy.
func TestAnObserverHearsOfTheStateBeforeAndOfTheEnd(t *testing.T) {
	for name, busy := range map[string]bool{"idle": false, "busy": true} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			m := session.NewMachine(nil)
			var heard [][2]connstate.State
			free := make(chan struct{})
			m.Observe(func(from, to connstate.State) {
				<-free
				heard = append(heard, [2]connstate.State{from, to})
				if to == 0 {
					m.Close()
				}
				panic("observer")
			})
			m.Set(connstate.Connected)
			if busy {
				synctest.Wait()
				m.Set(connstate.Suspended) // is left out
				m.Close()
				close(free)
				synctest.Wait()
			} else {
				close(free)
				synctest.Wait()
				m.Close()
			}
			require.Equal(t, [][2]connstate.State{{0, connstate.Connected}, {connstate.Connected, 0}}, heard)
		})
	}
}

func TestAbsenceIsReportedOnlyBeforeTheFirstConnection(t *testing.T) {
	m := session.NewMachine(nil)
	m.Set(connstate.Suspended)
	require.Zero(t, m.State(), "there was no connection to be suspended")
	require.True(t, m.Absent(connstate.Suspended))
	require.True(t, m.Absent(connstate.Lost))
	require.Equal(t, connstate.Lost, m.State())
	m.Set(connstate.Connected)
	require.Equal(t, connstate.Connected, m.State(), "the first connection")
	require.False(t, m.Absent(connstate.Suspended))
	require.Equal(t, connstate.Connected, m.State())
	m.Set(connstate.Suspended)
	m.Set(connstate.Connected)
	require.Equal(t, connstate.Reconnected, m.State(), "comes once")
	m.Close()
	require.False(t, m.Absent(connstate.Suspended))
	require.ErrorIs(t, testbed.Err(m.Listen(func(connstate.State) {})), session.ErrClosed)
}
