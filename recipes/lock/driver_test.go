package lock_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestNamesOfDigitsAreLocks: the number that the server adds is not taken for a part of the name.
func TestNamesOfDigitsAreLocks(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for _, name := range []string{"0", "1", "00", "7-", "-"} {
		q, err := lock.New(client, "/of-"+name, name, nil)
		require.NoError(t, err)
		for range 12 {
			require.NoError(t, acquire(t, q).Release(), name)
		}
	}
}

// TestDriverThatCannotBeComparedAfterAll has a value that cannot be compared, or is not equal to
// itself.
func TestDriverThatCannotBeComparedAfterAll(t *testing.T) {
	for _, value := range []any{[]int{1}, math.NaN()} {
		q, err := lock.New(testbed.InProcess(t).Client(t), "/lock", "lock-", struct {
			lock.Standard
			any
		}{any: value})
		require.NoError(t, err)
		watched(t, q)
	}
}

// other is a driver that embeds Standard and decides in another way: everybody holds.
type other struct{ lock.Standard }

func (other) Decide(lock.Line) (lock.Decision, error) {
	return lock.Decision{Held: true}, nil
}

// TestADriverThatEmbedsStandardDoesNotInheritItsAnswer to whether a new node would have to wait.
func TestADriverThatEmbedsStandardDoesNotInheritItsAnswer(t *testing.T) {
	q, err := lock.New(testbed.InProcess(t).Client(t), "/lock", "lock-", other{})
	require.NoError(t, err)
	first, err := q.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	second, err := q.TryAcquire(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
}

// stranger is a driver whose SortKey does not count its own nodes.
type stranger struct{ lock.Standard }

func (stranger) SortKey(string, string) (key string, ours bool) { return "", false }

// TestADriverThatDoesNotCountItsOwnNode is refused at once, and leaves none.
func TestADriverThatDoesNotCountItsOwnNode(t *testing.T) {
	server := zktest.NewServer(t)
	q, err := lock.New(testbed.On(server).Client(t), "/lock", "lock-", stranger{})
	require.NoError(t, err)
	server.ResetCounts()
	_, err = q.Acquire(testbed.Context(t))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.ErrorContains(t, err, "driver lock_test.stranger does not count its own node")
	length(t, server, q, 0)
}

// creator is a driver that creates nodes in its own way.
type creator struct {
	lock.Standard
	create func(ctx context.Context, client *framework.Client, n lock.Node) (string, error)
}

func (d creator) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	return d.create(ctx, client, n)
}

// TestDriver_NodeOfAnotherKind has a node that is not an ephemeral one of the session be refused at
// once. It is deleted, unless another session owns it.
func TestDriver_NodeOfAnotherKind(t *testing.T) {
	for name, test := range map[string]struct {
		create func(other *framework.Client) func(context.Context, *framework.Client, lock.Node) (string, error)
		stays  int
	}{
		"persistent": {create: func(*framework.Client) func(context.Context, *framework.Client, lock.Node) (string, error) {
			return func(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
				return client.Create(ctx, n.Base+"/"+n.Name, n.Data, framework.As(framework.PersistentSequential), framework.ContainerParents())
			}
		}},
		"persistent and protected": {create: func(*framework.Client) func(context.Context, *framework.Client, lock.Node) (string, error) {
			return func(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
				return client.Create(ctx, n.Base+"/"+n.Name, n.Data, framework.As(framework.PersistentSequential), framework.Protected(), framework.ContainerParents())
			}
		}},
		"of another client": {stays: 1, create: func(other *framework.Client) func(context.Context, *framework.Client, lock.Node) (string, error) {
			return func(ctx context.Context, _ *framework.Client, n lock.Node) (string, error) {
				return lock.Standard{}.Create(ctx, other, n)
			}
		}},
		"somewhere else": {create: func(*framework.Client) func(context.Context, *framework.Client, lock.Node) (string, error) {
			return func(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
				n.Base += "/below"
				return lock.Standard{}.Create(ctx, client, n)
			}
		}},
		"not a path": {create: func(*framework.Client) func(context.Context, *framework.Client, lock.Node) (string, error) {
			return func(context.Context, *framework.Client, lock.Node) (string, error) { return "", nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
				q, err := lock.New(w.Client(), "/lock", "lock-", creator{create: test.create(w.Client())})
				require.NoError(t, err)
				for _, acquire := range []func(context.Context) (*lock.Hold, error){q.Acquire, q.TryAcquire} {
					_, err = acquire(t.Context())
					require.ErrorIs(t, err, framework.ErrBadArgument)
					require.ErrorContains(t, err, "driver lock_test.creator created")
				}
				time.Sleep(time.Minute) // virtual time
				children, _ := w.Server.Children("/lock")
				for _, n := range w.Server.Dump() {
					require.NotContains(t, n.Path, "/below/")
				}
				children = slices.DeleteFunc(children, func(name string) bool { return name == "below" })
				require.Len(t, children, 2*test.stays)
			})
		})
	}
}

// TestDriver_UnprotectedNode accepts an ephemeral node of the session, which one request proves.
func TestDriver_UnprotectedNode(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q, err := lock.New(w.Client(), "/lock", "lock-", creator{create: func(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
			return client.Create(ctx, n.Base+"/"+n.Name, n.Data, framework.As(framework.EphemeralSequential), framework.ContainerParents())
		}})
		require.NoError(t, err)
		watched(t, q)
		w.Server.ResetCounts()
		require.NoError(t, acquire(t, q).Release())
		require.Equal(t, map[string]int{"create": 1, "exists": 1, "delete": 1}, counted(w.Server))
	})
}
