package lock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

// TestAcquire_BesideAnotherKind warns once for each path and client, if nodes of another kind of
// lock are at the path.
func TestAcquire_BesideAnotherKind(t *testing.T) {
	const id = "_c_6e5d3f4e-0d5c-4a51-8b7c-0123456789ab-"
	acquires := map[string]func(t *testing.T, q *lock.Queue) *lock.Hold{"Acquire": acquire, "TryAcquire": try}
	for name, test := range map[string]struct {
		own      string // name of the queue's nodes
		children []string
		other    string // "": no warning
	}{
		"alone":                  {"lock-", nil, ""},
		"a latch":                {"lock-", []string{id + "latch-0000000000"}, "leader latch"},
		"a read/write lock":      {"lock-", []string{id + "__WRIT__0000000000"}, "read/write lock"},
		"a semaphore":            {"lock-", []string{"leases", "locks"}, "semaphore"},
		"a mutex":                {"latch-", []string{id + "lock-0000000000"}, "mutex"},
		"kazoo":                  {"lock-", []string{"6e5d3f4e0d5c4a518b7c0123456789ab__lock__0000000000"}, "kazoo lock"},
		"kazoo beside a custom":  {"job-", []string{"6e5d3f4e0d5c4a518b7c0123456789ab__rlock__0000000000"}, "kazoo lock"},
		"kazoo's own readers":    {"__lock__", []string{"6e5d3f4e0d5c4a518b7c0123456789ab__rlock__0000000000"}, ""},
		"half of a semaphore":    {"lock-", []string{"leases"}, ""},
		"other nodes":            {"lock-", []string{"config", "a-0000000001", "latch-", "held-mark.6c.1s"}, ""},
		"custom locks of a path": {"job-", []string{id + "task-0000000000"}, ""},
	} {
		for how, acquire := range acquires {
			for _, opts := range [][]lock.Option{nil, {lock.WithRetention(time.Millisecond)}, {lock.WithLockDelay(time.Second)}} {
				testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
					require.NoError(t, w.Server.Create("/lock", nil))
					for _, child := range test.children {
						require.NoError(t, w.Server.Create("/lock/"+child, nil))
					}
					const text = "another kind of lock"
					for range 2 { // for each client
						var log testbed.Output
						client := w.Client(framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
						for range 2 {
							q := testbed.Must(lock.New(client, "/lock", test.own, nil, opts...))
							require.NoError(t, acquire(t, q).Release())
						}
						if test.other == "" {
							require.NotContains(t, log.String(), text, name)
							continue
						}
						require.Equal(t, 1, strings.Count(log.String(), text), "%s, %s, %v: %s", name, how, len(opts), log.String())
						require.Contains(t, log.String(), "level=WARN")
						require.Contains(t, log.String(), test.other)
					}
				})
			}
		}
	}
}

func TestWithDataFunc(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		type reason struct{}
		client := w.Client()
		f := func(ctx context.Context) []byte {
			why, _ := ctx.Value(reason{}).([]byte)
			return why
		}
		data := func(ctx context.Context, opts ...lock.Option) string {
			hold := acquireIn(t, ctx, newQueue(t, client, "/lock", opts...))
			data := testbed.ServerData(t, w.Server, hold.Path())
			require.NoError(t, hold.Release())
			return data
		}
		why := context.WithValue(testbed.Context(t), reason{}, []byte("nightly"))
		require.Equal(t, "nightly", data(why, lock.WithDataFunc(f)))
		require.Equal(t, "nightly", data(why, lock.WithDataFunc(f), lock.WithData([]byte("always"))))
		require.Equal(t, "always", data(testbed.Context(t), lock.WithDataFunc(f), lock.WithData([]byte("always"))))
		require.Equal(t, data(testbed.Context(t)), data(testbed.Context(t), lock.WithDataFunc(f)), "the default")
		require.Empty(t, data(context.WithValue(testbed.Context(t), reason{}, []byte{}), lock.WithDataFunc(f)))
	})
}
