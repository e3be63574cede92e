package cluster

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest/internal/tree"
)

func TestAgendaRunsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu Monitor
		a, done := NewAgenda(), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { a.Run(&mu, done) })
		begin := time.Now()
		var ran []string
		add := func(after time.Duration, name string) {
			a.Add(begin.Add(after), func() { ran = append(ran, name+" "+time.Since(begin).String()) })
		}
		mu.Lock()
		add(2*time.Second, "second")
		add(time.Second, "first")
		add(time.Second, "first again")
		a.Add(begin.Add(time.Second), func() { add(0, "added by another") })
		a.Settle() // wakes Run
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		require.Equal(t, []string{"first 1s", "first again 1s", "added by another 1s", "second 2s"}, ran)

		add(time.Minute, "due at once")
		a.Settle()
		require.Len(t, ran, 5, "Settle runs what is due")
		mu.Unlock()
		close(done)
		wg.Wait()
	})
}

func TestSessionsExpireAtTheEndOfATick(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	s := NewTracker(2*time.Second, began)
	s.Open(1, 3*time.Second, at(0))
	s.Open(2, 5*time.Second, at(500*time.Millisecond))
	require.Empty(t, s.Due(at(4*time.Second-1)))
	require.Equal(t, []int64{1}, s.Due(at(4*time.Second)))
	require.Equal(t, []int64{1, 2}, s.Due(at(6*time.Second)))
	require.True(t, s.Touch(1, 3*time.Second, at(3*time.Second)))
	require.Empty(t, s.Due(at(4*time.Second)))
	require.True(t, s.Touch(1, 3*time.Second, at(0)))
	require.Empty(t, s.Due(at(4*time.Second)), "an earlier sign of life changes nothing")
	require.Equal(t, 500*time.Millisecond, s.UntilTick(at(3500*time.Millisecond)))

	s.Shift(10 * time.Second)
	require.Empty(t, s.Due(at(10*time.Second)))
	require.Equal(t, []int64{1, 2}, s.Due(at(18*time.Second)))
	s.sessions[1].ending = true
	require.Equal(t, []int64{2}, s.Due(at(18*time.Second)), "its end is chosen")
	require.False(t, s.Touch(1, 3*time.Second, at(18*time.Second)))
	s.Close(2)
	require.False(t, s.Touch(2, 3*time.Second, at(18*time.Second)))
}

// host is a server that runs.
type host struct{}

func (host) Runs() bool                 { return true }
func (host) Notify(int64, []tree.Event) {}
func (host) Ended(int64, int64, bool)   {}
func (host) Leads(bool)                 {}
func (host) Hear()                      {}
func (host) HangUp()                    {}
func (host) Address() string            { return "" }
func (host) Done() <-chan struct{}      { return nil }

// TestMessagesStayInOrderAtTheEndOfABlock has one message arrive at the instant at which the block
// ends.
func TestMessagesStayInOrderAtTheEndOfABlock(t *testing.T) {
	c := New(Config{SyncTimeout: time.Minute}, tree.Rules{Version: tree.Newest})
	leader, err := c.NewMember()
	require.NoError(t, err)
	follower, err := c.NewMember()
	require.NoError(t, err)
	leader.Attach(host{})
	follower.Attach(host{})
	follower.apart = true
	l := &link{term: &term{cluster: c, leader: leader}, follower: follower}
	l.look()
	var order []int
	message := func(n int) { l.send(&l.down, func() { order = append(order, n) }) }
	message(1)
	c.agenda.Settle()
	require.Empty(t, order, "the link is blocked")
	follower.apart = false
	message(2)
	l.look()
	c.agenda.Settle()
	require.Equal(t, []int{1, 2}, order)
}
