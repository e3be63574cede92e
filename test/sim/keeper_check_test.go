package sim

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// pretended is a node that exists when the test says so.
type pretended struct {
	kept
	mu      sync.Mutex // guards what follows
	there   bool
	changed chan struct{}
}

func (p *pretended) Present() (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.there, p.changed
}

func (p *pretended) set(there bool) {
	p.mu.Lock()
	p.there = there
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	synctest.Wait()
}

// withKeeper calls f with a keeper of a pretended node, whose client is connected to a cluster of
// one.
func withKeeper(t *testing.T, f func(k *keeper, n *pretended)) {
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 1, zktest.WithInMemory())
		client, err := framework.New(cluster.Servers(), framework.WithDialer(cluster.DialContext), framework.WithSessionTimeout(4*time.Second))
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.WaitConnected(context.Background()))
		w := &world{monitor: newMonitor(1, false), cluster: cluster, rivals: newMonitor(1, false)}
		w.rivals.base = w.monitor
		n := &pretended{changed: make(chan struct{})}
		f(&keeper{
			world: w, keeperPlan: keeperPlan{Name: "n"}, user: &user{client: client, clientPlan: clientPlan{Session: 4 * time.Second}},
			rivals: w.rivals, current: n,
		}, n)
	})
}

func TestATermOfARivalEndsForEver(t *testing.T) {
	withKeeper(t, func(k *keeper, n *pretended) {
		done := make(chan struct{})
		go k.claim(n, done) // ends with done
		end := func() {
			session := k.user.session()
			require.NotZero(t, session)
			k.monitor.end(session)
			require.NoError(t, k.cluster.ExpireSession(session))
		}
		n.set(true)
		end()
		n.set(false)
		time.Sleep(time.Minute) // what excuses the first term is over
		n.set(true)
		end()
		k.rivals.enter(&held{owner: -1, ctx: context.Background()})
		require.Empty(t, k.rivals.wrong, "its session was ended a moment ago")
		require.Equal(t, 3, k.rivals.counts["holds"])
		close(done)
		synctest.Wait()
	})
}

func TestKeeperFindsWhatIsWrong(t *testing.T) {
	path := framework.Join(groupPath, "n")
	for name, c := range map[string]struct {
		report func(k *keeper, leader *zktest.Server)
		set    bool
		wrong  bool
	}{
		"all is well":              {func(*keeper, *zktest.Server) {}, true, false},
		"it is gone":               {func(_ *keeper, leader *zktest.Server) { _ = leader.Delete(path) }, false, true},
		"it has other data":        {func(_ *keeper, leader *zktest.Server) { _ = leader.Set(path, []byte("other")) }, true, true},
		"it has other data so far": {func(_ *keeper, leader *zktest.Server) { _ = leader.Set(path, []byte("other")) }, false, false},
		"of another session": {func(_ *keeper, leader *zktest.Server) {
			_ = leader.Delete(path)
			_ = leader.Create(path, []byte("data"))
		}, false, true},
		"deleted with a session that was ended": {func(k *keeper, leader *zktest.Server) {
			k.user.end()
			_ = leader.Delete(path)
		}, false, false},
		"was deleted with a session that was ended": {func(k *keeper, leader *zktest.Server) {
			k.user.end()
			time.Sleep(15 * time.Second)
			_ = leader.Delete(path)
		}, false, true},
		"it does not seem to be there": {func(k *keeper, leader *zktest.Server) {
			_ = leader.Delete(path)
			k.current.(*pretended).set(false)
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			withKeeper(t, func(k *keeper, n *pretended) {
				k.data = []byte("data")
				_, err := k.user.client.Create(context.Background(), path, k.data, framework.As(framework.Ephemeral), framework.ContainerParents())
				require.NoError(t, err)
				n.set(true)
				c.report(k, k.leader())
				k.check(c.set)
				require.Equal(t, c.wrong, len(k.monitor.wrong) > 0, "%v", k.monitor.wrong)
			})
		})
	}
}
