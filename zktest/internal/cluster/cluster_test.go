package cluster

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
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

// host is a server that runs until it does not.
type host struct{ stopped bool }

func (h *host) Runs() bool               { return !h.stopped }
func (*host) Notify(int64, []tree.Event) {}
func (*host) Ended(int64, int64, bool)   {}
func (*host) Leads(bool)                 {}
func (*host) Hear()                      {}
func (*host) HangUp()                    {}
func (*host) Address() string            { return "" }
func (*host) Done() <-chan struct{}      { return nil }

// members returns a cluster with this many members, which run, and no leader.
func members(t *testing.T, n int, cfg Config) (*Cluster, []*Member, []*host) {
	t.Helper()
	c := New(cfg, tree.Rules{Version: tree.Newest})
	var list []*Member
	var hosts []*host
	for range n {
		m, err := c.NewMember()
		require.NoError(t, err)
		h := &host{}
		m.Attach(h)
		list, hosts = append(list, m), append(hosts, h)
	}
	return c, list, hosts
}

// TestMessagesStayInOrderAtTheEndOfABlock has one message arrive at the instant at which the block
// ends.
func TestMessagesStayInOrderAtTheEndOfABlock(t *testing.T) {
	c, m, _ := members(t, 2, Config{SyncTimeout: time.Minute})
	m[1].apart = true
	l := &link{term: &term{cluster: c, leader: m[0]}, follower: m[1]}
	l.look()
	var order []int
	message := func(n int) { l.send(&l.down, func() { order = append(order, n) }) }
	message(1)
	c.agenda.Settle()
	require.Empty(t, order, "the link is blocked")
	m[1].apart = false
	message(2)
	l.look()
	c.agenda.Settle()
	require.Equal(t, []int{1, 2}, order)
}

// TestCommittedTransactionsSurviveTheLeader commits a transaction, stops the leader and elects
// another one, without any connection.
func TestCommittedTransactionsSurviveTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, hosts := members(t, 3, Config{Tick: time.Second, ContainerScan: time.Minute, Election: time.Second, SyncTimeout: 2 * time.Second})
		c.Begin(m)
		var wg sync.WaitGroup
		wg.Go(c.Run)
		create := func(path string) func(*tree.Txn) proto.Code {
			return func(x *tree.Txn) proto.Code { return x.CreateAll(tree.NewNode{Path: path, ACL: tree.OpenACL}) }
		}
		first := c.leader()
		_, err := first.Edit(create("/a"))
		require.NoError(t, err)
		c.Lock()
		hosts[first.Number-1].stopped = true
		first.Halted()
		c.Release()
		_, err = first.Edit(create("/b"))
		require.ErrorIs(t, err, ErrNoLeader)
		time.Sleep(10 * time.Second)
		second := c.leader()
		require.NotEqual(t, first.Number, second.Number)
		require.True(t, has(second, "/a"))
		_, err = second.Edit(create("/b"))
		require.NoError(t, err)
		require.False(t, has(first, "/b"))

		c.Lock()
		hosts[first.Number-1].stopped = false
		first.Started()
		c.Release()
		time.Sleep(10 * time.Second)
		require.True(t, has(first, "/b"), "it has caught up")
		c.Close()
		wg.Wait()
	})
}

// TestElection_Votes elects among three members whose logs and epochs differ.
func TestElection_Votes(t *testing.T) {
	entry := func() *Entry {
		create := func(x *tree.Txn) proto.Code { return x.CreateAll(tree.NewNode{Path: "/a", ACL: tree.OpenACL}) }
		return &Entry{Request: tree.Request{Zxid: 1<<32 | 1, Time: time.Now(), Edit: create}}
	}
	for name, test := range map[string]struct {
		epochs    [3]int64
		leader    int
		committed bool
	}{
		"the longest log leads, and is thereby committed": {[3]int64{1, 1, 1}, 1, true},
		"the newest epoch precedes the longest log":       {[3]int64{1, 2, 1}, 2, false},
		"the highest number decides among equals":         {[3]int64{1, 2, 2}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, list, _ := members(t, 3, Config{Tick: time.Second, Election: time.Second})
			c.Lock()
			c.members, c.voters = list, list
			for i, m := range list {
				m.epoch = test.epochs[i]
			}
			list[0].tail = []*Entry{entry()}
			c.decide()
			c.Release()
			require.Equal(t, test.leader, c.leader().Number)
			for _, m := range list {
				require.Equal(t, test.committed, has(m, "/a"), m)
			}
		})
	}
}

// leader returns the leader, or nil. The lock is not held.
func (c *Cluster) leader() *Member {
	c.Lock()
	defer c.Release()
	return c.Leader()
}

// has reports whether a member has a node. The lock is not held.
func has(m *Member, path string) bool {
	m.Lock()
	defer m.Unlock()
	return m.Tree.Nodes[path] != nil
}
