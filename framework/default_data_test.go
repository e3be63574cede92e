package framework_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// ownDriver writes the data that it is handed.
type ownDriver struct{ lock.Standard }

func (d ownDriver) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	return client.Create(ctx, framework.Join(n.Base, "own-"+n.Name), append([]byte("own "), n.Data...),
		framework.As(framework.EphemeralSequential), framework.Protected(), framework.ContainerParents())
}

// TestWithDefaultData_EachKindOfNode: a node of a recipe without other data has the default data.
// Each kind returns the path of such a node.
func TestWithDefaultData_EachKindOfNode(t *testing.T) {
	kinds := []struct {
		name string
		node func(t *testing.T, ctx context.Context, c *framework.Client) string
		own  string // before the data
	}{
		{"a mutex", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return testbed.Acquire(t, testbed.Must(mutex.New(c, "/mutex"))).Path()
		}, ""},
		{"a mutex with retention", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return testbed.Acquire(t, testbed.Must(mutex.New(c, "/retention", lock.WithRetention(time.Minute)))).Path()
		}, ""},
		{"a custom driver", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return testbed.Acquire(t, testbed.Must(lock.New(c, "/driver", "n-", ownDriver{}))).Path()
		}, "own "},
		{"a writer", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return testbed.Acquire(t, testbed.Must(rwlock.New(c, "/rw")).Write()).Path()
		}, ""},
		{"a reader", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return testbed.Acquire(t, testbed.Must(rwlock.New(c, "/ro")).Read()).Path()
		}, ""},
		{"a lease", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return testbed.Acquire(t, testbed.Must(semaphore.New(c, "/sem", 2))).Path()
		}, ""},
		{"a LeaderSelector", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			e := testbed.Must(leader.New(c, "/selector", leader.WithSelector()))
			return testbed.Must(e.Campaign(ctx)).Path()
		}, ""},
		{"a barrier", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			b := testbed.Must(barrier.New(c, "/barrier"))
			require.NoError(t, b.Set(ctx))
			return b.Path()
		}, ""},
		{"a member of a double barrier", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			d := testbed.Must(barrier.NewDouble(c, "/member", 1))
			testbed.Must(d.Enter(ctx))
			for _, name := range testbed.Children(t, c, "/member") {
				if name != "ready" {
					return "/member/" + name
				}
			}
			return ""
		}, ""},
		{"ready of a double barrier", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			d := testbed.Must(barrier.NewDouble(c, "/double", 1))
			testbed.Must(d.Enter(ctx))
			return "/double/ready"
		}, ""},
		{"a kept node", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return testbed.Must(node.Keep(ctx, c, "/kept", nil)).Path()
		}, ""},
		{"a kept node after Set", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			n := testbed.Must(node.Keep(ctx, c, "/set", []byte("first")))
			require.NoError(t, n.Set(ctx, nil))
			return n.Path()
		}, ""},
		{"a member of a group", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			return "/group/" + testbed.Must(node.Join(ctx, c, "/group", "id", nil)).ID()
		}, ""},
		{"the touch child of a node with a TTL", func(t *testing.T, ctx context.Context, c *framework.Client) string {
			n := testbed.Must(node.Keep(ctx, c, "/ttl", []byte("x"), node.WithTTL(time.Second)))
			time.Sleep(time.Minute) // virtual time, in which the node is touched
			return n.Path() + "/touch"
		}, ""},
	}
	host := testbed.Must(os.Hostname())
	for want, opts := range map[string][]framework.Option{
		host + ":" + strconv.Itoa(os.Getpid()): nil,
		"default":                              {framework.WithDefaultData([]byte("default"))},
		"":                                     {framework.WithDefaultData(nil)},
	} {
		for _, kind := range kinds {
			testbed.RunWorld(t, kind.name+"/"+want, func(t *testing.T, w *testbed.World) {
				data := testbed.Must(w.Server.Get(kind.node(t, t.Context(), w.Client(opts...))))
				require.NotNil(t, data, "Java's recipes fail on null")
				require.Equal(t, kind.own+want, string(data))
			}, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
		}
		testbed.RunWorld(t, "compressed/"+want, func(t *testing.T, w *testbed.World) {
			require.NoError(t, testbed.Err(compressed.Create(t.Context(), w.Client(opts...), "/compressed", nil)))
			data := testbed.Must(w.Server.Get("/compressed"))
			require.Equal(t, want, string(testbed.Must(compressed.Decode(data))))
		})
	}
}
