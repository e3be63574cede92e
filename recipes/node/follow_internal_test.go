package node

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// alone is a group whose client reaches no server. It ends with the test.
func alone(t *testing.T) *group {
	client, err := framework.New([]string{"localhost:1"})
	require.NoError(t, err)
	g := &group{client: client, path: "/g", reads: make(chan struct{}, 1), entries: map[string]*entry{},
		changed: make(chan struct{}), asked: make(chan struct{})}
	g.ctx, g.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		g.stop()
		g.wg.Wait()
		client.Close()
	})
	return g
}

// TestAGroupNeverGoesBackInTime shows it what a server that lags behind would.
func TestAGroupNeverGoesBackInTime(t *testing.T) {
	g := alone(t)
	g.adopt([]string{"a", "b"}, &zk.Stat{Pzxid: 7})
	a := g.entries["a"]
	require.NotNil(t, a)
	g.adopt([]string{"a"}, &zk.Stat{Pzxid: 6})
	require.Len(t, g.entries, 2, "b came later")
	require.False(t, g.listed, "and the list is not up to date")
	g.adopt([]string{"a"}, &zk.Stat{Pzxid: 8})
	require.True(t, g.listed)
	require.Len(t, g.entries, 1)
	require.Same(t, a, g.entries["a"])

	g.take(a, []byte("new"), &zk.Stat{Mzxid: 7})
	fresh, changed := g.fresh()
	require.True(t, fresh)
	g.take(a, []byte("old"), &zk.Stat{Mzxid: 6})
	require.Equal(t, "new", string(a.data))
	fresh, _ = g.fresh()
	require.False(t, fresh)
	<-changed
	g.take(a, []byte("newer"), &zk.Stat{Mzxid: 9})
	require.Equal(t, "newer", string(a.data))
}

// TestAMemberThatCameBackIsNotWhoItWasBefore shows a group, after a member has left and come back, what a server that lags behind
// knows of the one that left.
func TestAMemberThatCameBackIsNotWhoItWasBefore(t *testing.T) {
	g := alone(t)
	g.adopt([]string{"a"}, &zk.Stat{Pzxid: 5})
	g.take(g.entries["a"], []byte("old"), &zk.Stat{Mzxid: 5})
	g.adopt(nil, &zk.Stat{Pzxid: 7})
	g.adopt([]string{"a"}, &zk.Stat{Pzxid: 8})
	a := g.entries["a"]
	g.take(a, []byte("old"), &zk.Stat{Mzxid: 5})
	require.False(t, a.loaded, "it was gone by then")
	fresh, _ := g.fresh()
	require.False(t, fresh)
	g.take(a, []byte("new"), &zk.Stat{Mzxid: 8})
	require.Equal(t, "new", string(a.data))
	fresh, _ = g.fresh()
	require.True(t, fresh)
}

// TestAGroupThatWasGoneIsNotWhatItWasBefore shows a group, after its parent has gone, what a server that lags behind knows of the time
// before, and what it knows of a member of then when there is another parent.
func TestAGroupThatWasGoneIsNotWhatItWasBefore(t *testing.T) {
	g := alone(t)
	g.adopt([]string{"a"}, &zk.Stat{Czxid: 1, Pzxid: 5})
	g.take(g.entries["a"], []byte("old"), &zk.Stat{Mzxid: 6})
	g.adopt(nil, nil)
	g.adopt([]string{"a"}, &zk.Stat{Czxid: 1, Pzxid: 5})
	require.Empty(t, g.entries, "it was gone by then")
	fresh, _ := g.fresh()
	require.False(t, fresh)
	g.adopt([]string{"a"}, &zk.Stat{Czxid: 9, Pzxid: 10})
	a := g.entries["a"]
	g.take(a, []byte("old"), &zk.Stat{Mzxid: 6})
	require.False(t, a.loaded, "it was gone by then")
	g.take(a, []byte("new"), &zk.Stat{Mzxid: 10})
	require.Equal(t, "new", string(a.data))
	fresh, _ = g.fresh()
	require.True(t, fresh)
}
