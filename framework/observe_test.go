package framework_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// operations keeps what observers are told of the operations of one goroutine.
type operations []framework.OperationEvent

func (o *operations) observe() framework.Option {
	return framework.WithObserver(framework.Observer{
		Operation: func(_ context.Context, e framework.OperationEvent) { *o = append(*o, e) },
	})
}

// last is the latest operation.
func (o operations) last() framework.OperationEvent { return o[len(o)-1] }

func TestEveryOperationIsObserved(t *testing.T) {
	var seen operations
	_, client := start(t, seen.observe(), framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	for _, c := range []struct {
		op, path string
		err      error
		do       func() error
	}{
		{"connect", "/", nil, func() error { return testbed.Err(client.Session(ctx)) }},
		{"create", "/a/b", zk.ErrNoNode, func() error { return testbed.Err(client.Create(ctx, "/a/b", nil)) }},
		{"create", "/a/b", nil, func() error { _, err := client.Create(ctx, "/a/b", nil, framework.ContainerParents()); return err }},
		{"create", "/a/c", nil, func() error { _, err := client.Create(ctx, "/a/c", nil, framework.Protected()); return err }},
		{"get", "/a/b", nil, func() error { return testbed.Err(client.Get(ctx, "/a/b")) }},
		{"get", "/a/x", zk.ErrNoNode, func() error { return testbed.Err(client.Get(ctx, "/a/x")) }},
		{"get", "/a/b", nil, func() error { _, _, w, err := client.GetW(ctx, "/a/b"); defer stopped(w); return err }},
		{"set", "/a/b", zk.ErrBadVersion, func() error { _, err := client.Set(ctx, "/a/b", nil, framework.IfVersion(7)); return err }},
		{"children", "/a", nil, func() error { return testbed.Err(client.Children(ctx, "/a")) }},
		{"children", "/a", nil, func() error { _, _, w, err := client.ChildrenW(ctx, "/a"); defer stopped(w); return err }},
		{"exists", "/a/x", nil, func() error { return testbed.Err(client.Exists(ctx, "/a/x")) }},
		{"exists", "/a/x", nil, func() error { _, _, w, err := client.ExistsW(ctx, "/a/x"); defer stopped(w); return err }},
		{"sync", "/", nil, func() error { return client.Sync(ctx) }},
		{"getACL", "/a/b", nil, func() error { return testbed.Err(client.GetACL(ctx, "/a/b")) }},
		{"setACL", "/a/b", nil, func() error { return testbed.Err(client.SetACL(ctx, "/a/b", zk.WorldACL(zk.PermAll))) }},
		{"multi", "/a/b", nil, func() error {
			return testbed.Err(client.Multi(ctx, &zk.CheckVersionRequest{Path: "/a/b", Version: -1}))
		}},
		{"delete", "/a/x", zk.ErrNoNode, func() error { return client.Delete(ctx, "/a/x") }},
		{"delete", "/a/b", nil, func() error {
			return client.Delete(ctx, "/a/b", framework.IfExists(), framework.Guaranteed())
		}},
	} {
		before := len(seen)
		err := c.do()
		require.Len(t, seen, before+1, "%s %s", c.op, c.path)
		e := seen.last()
		assert.Equal(t, c.op, e.Op)
		assert.Equal(t, c.path, e.Path, c.op)
		assert.Equal(t, 1, e.Attempts, c.op)
		assert.False(t, e.Began.IsZero(), c.op)
		assert.Positive(t, e.Duration, c.op)
		assert.ErrorIs(t, e.Err, c.err, c.op)
		var caller *framework.OpError
		if errors.As(err, &caller) {
			assert.Equal(t, *caller, framework.OpError{Op: e.Op, Path: e.Path, Err: e.Err}, "what the caller got")
		} else {
			assert.NoError(t, e.Err, c.op)
		}
	}
	before := len(seen)
	assert.ErrorIs(t, testbed.Err(client.Get(ctx, "a")), framework.ErrBadPath)
	assert.Len(t, seen, before, "what is wrong to begin with is no operation")
}

func stopped(*framework.Watch) {}

func TestAttemptsAreCounted(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, client *framework.Client) error{
		"create": func(ctx context.Context, client *framework.Client) error {
			return testbed.Err(client.Create(ctx, "/new", nil, framework.Protected()))
		},
		"get": func(ctx context.Context, client *framework.Client) error { return testbed.Err(client.Get(ctx, "/a")) },
		"delete": func(ctx context.Context, client *framework.Client) error {
			return client.Delete(ctx, "/a", framework.IfExists(), framework.Guaranteed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen operations
			server, client := start(t, seen.observe())
			testbed.Create(t, client, "/a", nil)
			lost := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create", "getData", "delete"))
			require.NoError(t, do(testbed.Context(t), client))
			require.True(t, lost.Met())
			assert.Equal(t, name, seen.last().Op)
			assert.Equal(t, 2, seen.last().Attempts)
			assert.NoError(t, seen.last().Err)
		})
	}
}

func TestADeleteThatIsLeftToTheBackgroundIsNotObserved(t *testing.T) {
	var seen operations
	server, client := start(t, seen.observe())
	testbed.Create(t, client, "/a", nil)
	before := len(seen)
	err := client.Delete(testbed.Cancelled(t), "/a", framework.IfExists(), framework.Guaranteed())
	require.ErrorIs(t, err, context.Canceled)
	testbed.Eventually(t, func() bool { return !server.Exists("/a") }, "the node goes")
	assert.Len(t, seen, before)
}

func TestObserversAreNotifiedOfEachStateAndOfTheEnd(t *testing.T) {
	var seen []framework.StateEvent // complete when Close returns
	inBubble(t, func(t *testing.T, server *zktest.Server, client *framework.Client) {
		synctest.Wait()
		server.CutConnections()
		synctest.Wait()
		require.NoError(t, client.WaitConnected(t.Context()))
		require.NoError(t, client.Close())
		require.NoError(t, client.Close())
	}, framework.WithObserver(framework.Observer{State: func(e framework.StateEvent) { seen = append(seen, e) }}))
	states := []connstate.State{0, connstate.Connected, connstate.Suspended, connstate.Reconnected, 0}
	var want []framework.StateEvent
	for i, from := range states[:len(states)-1] {
		want = append(want, framework.StateEvent{From: from, To: states[i+1]})
	}
	assert.Equal(t, want, seen)
}

// TestTheEndIsReportedAfterTheStateBefore has a listener close the client while the observer is
// still being notified of a state. Close does not wait for it then.
func TestTheEndIsReportedAfterTheStateBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var notified []framework.StateEvent
		server := zktest.NewServer(t, zktest.WithInMemory())
		client := testbed.On(server).Client(t, framework.WithDialer(server.DialContext), framework.WithObserver(framework.Observer{
			State: func(e framework.StateEvent) {
				if !assert.True(t, mu.TryLock(), "one at a time") {
					return
				}
				defer mu.Unlock()
				time.Sleep(time.Second) // virtual time: it takes its time
				notified = append(notified, e)
			},
		}))
		testbed.Listen(t, client, func(connstate.State) { client.Close() })
		// virtual time, in which the observer is notified of the first state
		time.Sleep(time.Minute)
		server.CutConnections()
		time.Sleep(time.Minute) // virtual time, in which nothing may follow the end
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []framework.StateEvent{
			{To: connstate.Connected},
			{From: connstate.Connected, To: connstate.Suspended},
			{From: connstate.Suspended},
		}, notified)
	})
}

func TestSeveralObserversAreNotifiedInOrder(t *testing.T) {
	operations, states := make(chan string, 100), make(chan string, 100)
	report := func(name string) framework.Option {
		return framework.WithObserver(framework.Observer{
			Operation: func(_ context.Context, e framework.OperationEvent) { operations <- name + " " + e.Op },
			State:     func(e framework.StateEvent) { states <- name + " " + e.To.String() },
		})
	}
	_, client := start(t, report("a"), framework.WithObserver(framework.Observer{}), report("b"))
	require.NoError(t, testbed.Err(client.Exists(testbed.Context(t), "/a")))
	for _, want := range []string{"a exists", "b exists"} {
		assert.Equal(t, want, testbed.Receive(t, operations, want))
	}
	for _, want := range []string{"a connected", "b connected"} {
		assert.Equal(t, want, testbed.Receive(t, states, want))
	}
}
