package cache_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

// TestRandomHistoryIsFollowedStepByStep waits for the change of each step before it takes the next
// one, and compares the whole copy after it.
func TestRandomHistoryIsFollowedStepByStep(t *testing.T) { // CUR-CCH-16, -18
	const steps = 500
	for _, depth := range []int{10, 3} {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode watchMode) {
				seed := rand.Uint64()
				random := rand.New(rand.NewPCG(seed, 0))
				subject, other, _ := pair(t, zktest.NewServer(t))
				create(t, other, "/r")
				c := load(t, mode.of(subject), "/r", cache.WithDepth(depth))
				changes := follow(t, c)
				changes.want("created /r=/r")
				tree := map[string]string{"/r": "/r"} // all that there is
				for n := range steps {
					path := slices.Sorted(maps.Keys(tree))[random.IntN(len(tree))]
					level := strings.Count(path, "/") - 1
					leaf := !slices.ContainsFunc(slices.Collect(maps.Keys(tree)), func(p string) bool { return strings.HasPrefix(p, path+"/") })
					var change string
					switch data := fmt.Sprint(n); {
					case random.IntN(3) == 0:
						set(t, other, path, data)
						tree[path] = data
						change = "changed " + path + "=" + data
					case random.IntN(2) == 0 && leaf && level > 0:
						remove(t, other, path)
						change = "deleted " + path + "=" + tree[path]
						delete(tree, path)
					case level < 10:
						path, level = fmt.Sprintf("%s/%d", path, n), level+1
						create(t, other, path)
						tree[path] = path
						change = "created " + path + "=" + path
					}
					if change != "" && level <= depth {
						changes.want(change)
					}
					var want []string
					for path, data := range tree {
						if strings.Count(path, "/")-1 <= depth {
							want = append(want, path+"="+data)
						}
					}
					require.ElementsMatch(t, want, show(c), "seed %d, step %d", seed, n)
					require.Equal(t, len(want), c.Stats().Nodes)
				}
			})
		})
	}
}

// TestEndOfTheParentIsSurvived follows the children of a node that is missing, is created, deleted
// and created again.
func TestEndOfTheParentIsSurvived(t *testing.T) { // CUR-CCH-20
	eachMode(t, func(t *testing.T, mode watchMode) {
		subject, other, _ := pair(t, zktest.NewServer(t))
		c := load(t, mode.of(subject), "/one/two/three", cache.WithDepth(1))
		changes := follow(t, c)
		for range 2 {
			create(t, other, "/one/two/three/a")
			changes.want("created /one/two/three=", "created /one/two/three/a=/one/two/three/a")
			create(t, other, "/one/two/three/b")
			changes.want("created /one/two/three/b=/one/two/three/b")
			remove(t, other, "/one/two/three/a")
			changes.want("deleted /one/two/three/a=/one/two/three/a")
			remove(t, other, "/one/two/three/b")
			changes.want("deleted /one/two/three/b=/one/two/three/b")
			remove(t, other, "/one/two/three", "/one/two", "/one")
			changes.want("deleted /one/two/three=")
		}
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.Empty(t, show(c))
	})
}

// TestANodeIsFollowedThroughAllOfItsLives is about a cache of one node, with children that do not
// matter.
func TestANodeIsFollowedThroughAllOfItsLives(t *testing.T) { // CUR-CCH-06, KZ-CCH-04
	eachMode(t, func(t *testing.T, mode watchMode) {
		subject, other, _ := pair(t, zktest.NewServer(t))
		create(t, other, "/dir")
		c := load(t, mode.of(subject), "/dir/n", cache.WithDepth(0))
		changes := follow(t, c)
		require.False(t, has(c, "/dir/n"))
		for range 3 {
			create(t, other, "/dir/n", "/dir/n/child")
			changes.want("created /dir/n=/dir/n")
			set(t, other, "/dir/n", "new")
			changes.want("changed /dir/n=new")
			n, there := c.Get("/dir/n")
			require.True(t, there)
			require.Equal(t, "new", string(n.Data))
			remove(t, other, "/dir/n/child", "/dir/n")
			changes.want("deleted /dir/n=new")
			require.False(t, has(c, "/dir/n"))
		}
	})
}

// TestCopyIsCompleteAfterTheLossOfItsServer stops the member that the client is connected to.
// Nothing has changed, so no change is reported.
func TestCopyIsCompleteAfterTheLossOfItsServer(t *testing.T) { // CUR-CCH-21
	eachModeVirtual(t, func(t *testing.T, w *testbed.World, mode watchMode) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		client := testbed.OnCluster(cluster).Client(t, framework.WithDialer(cluster.DialContext))
		other := testbed.OnCluster(cluster).Client(t, framework.WithDialer(cluster.DialContext))
		create(t, other, "/r", "/r/a", "/r/b", "/r/c")
		c := load(t, mode.of(client), "/r")
		changes := follow(t, c)
		changes.want("created /r=/r", "created /r/a=/r/a", "created /r/b=/r/b", "created /r/c=/r/c")
		for _, member := range cluster.Members() { // one of them serves the client
			member.Stop()
			time.Sleep(5 * time.Second) // virtual time, in which it must connect again
			require.NoError(t, c.Sync(t.Context()))
			require.Equal(t, []string{"/r=/r", "/r/a=/r/a", "/r/b=/r/b", "/r/c=/r/c"}, show(c))
			require.NoError(t, member.Restart())
			time.Sleep(5 * time.Second) // virtual time, in which it must catch up
		}
		require.Greater(t, c.Stats().Resyncs, int64(1), "it has met the loss")
		create(t, other, "/r/end")
		changes.want("created /r/end=/r/end")
	})
}
