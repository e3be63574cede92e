package lock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// driven returns a queue with a driver of a user.
func driven(client *framework.Client, driver lock.Driver, opts ...lock.Option) *lock.Queue {
	return testbed.Must(lock.New(client, "/lock", "lock-", driver, opts...))
}

// TestNamesOfDigitsAreLocks: the number that the server adds is not taken for a part of the name.
func TestNamesOfDigitsAreLocks(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	for _, name := range []string{"0", "1", "00", "7-", "-"} {
		q := testbed.Must(lock.New(client, "/of-"+name, name, nil))
		for range 12 {
			require.NoError(t, acquire(t, q).Release(), name)
		}
	}
}

// other is a driver that embeds Standard and decides in another way: everybody holds.
type other struct{ lock.Standard }

func (other) Decide(lock.Line) (lock.Decision, error) {
	return lock.Decision{Held: true}, nil
}

// TestADriverThatEmbedsStandardDoesNotInheritItsAnswer to whether a new node would have to wait.
func TestADriverThatEmbedsStandardDoesNotInheritItsAnswer(t *testing.T) {
	q := driven(testbed.InProcess(t).Client(t), other{})
	first, second := try(t, q), try(t, q)
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
}

// stranger is a driver whose SortKey does not count its own nodes.
type stranger struct{ lock.Standard }

func (stranger) SortKey(string, string) (key string, ours bool) { return "", false }

// undecided is a driver that says nothing.
type undecided struct{ lock.Standard }

func (undecided) Decide(lock.Line) (lock.Decision, error) { return lock.Decision{}, nil }

type badDriver struct{ lock.Standard }

func (badDriver) Decide(lock.Line) (lock.Decision, error) {
	return lock.Decision{}, assert.AnError
}

// TestDriver_Refused: an Acquire with a driver that fails or breaks a rule ends at once, and leaves
// no node.
func TestDriver_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		driver lock.Driver
		want   error
		text   string
	}{
		"it fails":                       {badDriver{}, assert.AnError, ""},
		"it says nothing":                {undecided{}, framework.ErrBadArgument, "lock_test.undecided neither grants"},
		"it does not count its own node": {stranger{}, framework.ErrBadArgument, "lock_test.stranger does not count"},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			q := driven(testbed.On(server).Client(t), c.driver)
			_, err := q.Acquire(testbed.Context(t))
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
			length(t, server, q, 0)
		})
	}
}

type createFunc func(ctx context.Context, client *framework.Client, n lock.Node) (string, error)

// creator is a driver that creates nodes in its own way.
type creator struct {
	lock.Standard
	create createFunc
}

// createAs returns a function that creates nodes of a kind.
func createAs(mode framework.Mode, opts ...framework.CreateOption) createFunc {
	return func(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
		return client.Create(ctx, n.Base+"/"+n.Name, n.Data, append(opts, framework.As(mode), framework.ContainerParents())...)
	}
}

func (d creator) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	return d.create(ctx, client, n)
}

// TestDriver_NodeOfAnotherKind has a node that is not an ephemeral one of the session be refused at
// once. It is deleted, unless another session owns it.
func TestDriver_NodeOfAnotherKind(t *testing.T) {
	var other *framework.Client
	for name, test := range map[string]struct {
		create createFunc
		stays  int
	}{
		"persistent":               {create: createAs(framework.PersistentSequential)},
		"persistent and protected": {create: createAs(framework.PersistentSequential, framework.Protected())},
		"of another client": {stays: 1, create: func(ctx context.Context, _ *framework.Client, n lock.Node) (string, error) {
			return lock.Standard{}.Create(ctx, other, n)
		}},
		"somewhere else": {create: func(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
			n.Base += "/below"
			return lock.Standard{}.Create(ctx, client, n)
		}},
		"not a path": {create: func(context.Context, *framework.Client, lock.Node) (string, error) { return "", nil }},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			other = w.Client()
			q := driven(w.Client(), creator{create: test.create})
			for _, acquire := range []func(context.Context) (*lock.Hold, error){q.Acquire, q.TryAcquire} {
				_, err := acquire(t.Context())
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
	}
}

// TestDriver_UnprotectedNode accepts an ephemeral node of the session, which one request proves.
func TestDriver_UnprotectedNode(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := driven(w.Client(), creator{create: createAs(framework.EphemeralSequential)})
		watched(t, q)
		w.Server.ResetCounts()
		require.NoError(t, acquire(t, q).Release())
		require.Equal(t, map[string]int{"create": 1, "exists": 1, "delete": 1}, counted(w.Server))
	})
}
