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

// record keeps the events of an observer.
type record struct {
	mu         sync.Mutex
	operations []framework.OperationEvent
	states     []framework.StateEvent
}

func (r *record) observer() framework.Observer {
	return framework.Observer{
		Operation: func(_ context.Context, e framework.OperationEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.operations = append(r.operations, e)
		},
		State: func(e framework.StateEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.states = append(r.states, e)
		},
	}
}

// last is the latest operation.
func (r *record) last() framework.OperationEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.operations[len(r.operations)-1]
}

func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.operations)
}

func (r *record) notified() []framework.StateEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]framework.StateEvent(nil), r.states...)
}

func TestEveryOperationIsObserved(t *testing.T) {
	server := zktest.NewServer(t)
	seen := &record{}
	client := newClient(t, server, framework.WithObserver(seen.observer()), framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	for _, c := range []struct {
		op, path string
		err      error
		do       func() error
	}{
		{"connect", "/", nil, func() error { _, err := client.Session(ctx); return err }},
		{"create", "/a/b", zk.ErrNoNode, func() error { _, err := client.Create(ctx, "/a/b", nil); return err }},
		{"create", "/a/b", nil, func() error { _, err := client.Create(ctx, "/a/b", nil, framework.ContainerParents()); return err }},
		{"create", "/a/c", nil, func() error { _, err := client.Create(ctx, "/a/c", nil, framework.Protected()); return err }},
		{"get", "/a/b", nil, func() error { _, _, err := client.Get(ctx, "/a/b"); return err }},
		{"get", "/a/x", zk.ErrNoNode, func() error { _, _, err := client.Get(ctx, "/a/x"); return err }},
		{"get", "/a/b", nil, func() error { _, _, w, err := client.GetW(ctx, "/a/b"); defer stopped(w); return err }},
		{"set", "/a/b", zk.ErrBadVersion, func() error { _, err := client.Set(ctx, "/a/b", nil, framework.IfVersion(7)); return err }},
		{"children", "/a", nil, func() error { _, _, err := client.Children(ctx, "/a"); return err }},
		{"children", "/a", nil, func() error { _, _, w, err := client.ChildrenW(ctx, "/a"); defer stopped(w); return err }},
		{"exists", "/a/x", nil, func() error { _, _, err := client.Exists(ctx, "/a/x"); return err }},
		{"exists", "/a/x", nil, func() error { _, _, w, err := client.ExistsW(ctx, "/a/x"); defer stopped(w); return err }},
		{"sync", "/", nil, func() error { return client.Sync(ctx) }},
		{"getACL", "/a/b", nil, func() error { _, _, err := client.GetACL(ctx, "/a/b"); return err }},
		{"setACL", "/a/b", nil, func() error { _, err := client.SetACL(ctx, "/a/b", zk.WorldACL(zk.PermAll)); return err }},
		{"multi", "/a/b", nil, func() error {
			_, err := client.Multi(ctx, &zk.CheckVersionRequest{Path: "/a/b", Version: -1})
			return err
		}},
		{"delete", "/a/x", zk.ErrNoNode, func() error { return client.Delete(ctx, "/a/x") }},
		{"delete", "/a/b", nil, func() error {
			err := client.Delete(ctx, "/a/b", framework.IfExists(), framework.Guaranteed())
			return err
		}},
	} {
		before := seen.count()
		err := c.do()
		require.Equal(t, before+1, seen.count(), "%s %s", c.op, c.path)
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
	before := seen.count()
	_, _, err := client.Get(ctx, "a")
	assert.ErrorIs(t, err, framework.ErrBadPath)
	assert.Equal(t, before, seen.count(), "what is wrong to begin with is no operation")
}

func stopped(*framework.Watch) {}

func TestAttemptsAreCounted(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, client *framework.Client) error{
		"create": func(ctx context.Context, client *framework.Client) error {
			_, err := client.Create(ctx, "/new", nil, framework.Protected())
			return err
		},
		"get": func(ctx context.Context, client *framework.Client) error {
			_, _, err := client.Get(ctx, "/a")
			return err
		},
		"delete": func(ctx context.Context, client *framework.Client) error {
			err := client.Delete(ctx, "/a", framework.IfExists(), framework.Guaranteed())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			seen := &record{}
			client := newClient(t, server, framework.WithObserver(seen.observer()))
			ctx := testbed.Context(t)
			testbed.Create(t, client, "/a", nil)
			lost := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create", "getData", "delete"))
			require.NoError(t, do(ctx, client))
			require.True(t, lost.Met())
			assert.Equal(t, name, seen.last().Op)
			assert.Equal(t, 2, seen.last().Attempts)
			assert.NoError(t, seen.last().Err)
		})
	}
}

func TestADeleteThatIsLeftToTheBackgroundIsNotObserved(t *testing.T) {
	server := zktest.NewServer(t)
	seen := &record{}
	client := newClient(t, server, framework.WithObserver(seen.observer()))
	ctx := testbed.Context(t)
	testbed.Create(t, client, "/a", nil)
	before := seen.count()
	done, cancel := context.WithCancel(ctx)
	cancel()
	err := client.Delete(done, "/a", framework.IfExists(), framework.Guaranteed())
	require.ErrorIs(t, err, context.Canceled)
	testbed.Eventually(t, func() bool { return !server.Exists("/a") }, "the node goes")
	assert.Equal(t, before, seen.count())
}

func TestObserversAreNotifiedOfEachStateAndOfTheEnd(t *testing.T) {
	server := zktest.NewServer(t)
	seen := &record{}
	client := newClient(t, server, framework.WithObserver(seen.observer()))
	server.CutConnections()
	testbed.Eventually(t, func() bool { return len(seen.notified()) == 3 }, "cut off and back")
	require.NoError(t, client.Close())
	require.NoError(t, client.Close())
	states := []connstate.State{0, connstate.Connected, connstate.Suspended, connstate.Reconnected, 0}
	var want []framework.StateEvent
	for i, from := range states[:len(states)-1] {
		want = append(want, framework.StateEvent{From: from, To: states[i+1]})
	}
	assert.Equal(t, want, seen.notified())
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
	server := zktest.NewServer(t)
	operations, states := make(chan string, 100), make(chan string, 100)
	report := func(name string) framework.Option {
		return framework.WithObserver(framework.Observer{
			Operation: func(_ context.Context, e framework.OperationEvent) { operations <- name + " " + e.Op },
			State:     func(e framework.StateEvent) { states <- name + " " + e.To.String() },
		})
	}
	client := newClient(t, server, report("a"), framework.WithObserver(framework.Observer{}), report("b"))
	_, _, err := client.Exists(testbed.Context(t), "/a")
	require.NoError(t, err)
	for _, want := range []string{"a exists", "b exists"} {
		assert.Equal(t, want, testbed.Receive(t, operations, want))
	}
	for _, want := range []string{"a connected", "b connected"} {
		assert.Equal(t, want, testbed.Receive(t, states, want))
	}
}
