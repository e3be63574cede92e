package main

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/examples/internal/exampletest"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inOrder are the contexts of orders with the profiles prod and eu.
var inOrder = []string{
	"/config/application", "/config/application,prod", "/config/application,eu",
	"/config/orders", "/config/orders,prod", "/config/orders,eu",
}

// tree is what Spring was given, with a key for each pair of contexts.
func tree() map[string]string {
	nodes := map[string]string{
		"/config/maxConns": "outside", "/config/application,other/only": "wrong", "/config/orders2/only": "wrong",
		"/config/application/only": "app", "/config/application/full": "text", "/config/application/x/y": "low",
		"/config/orders/db/url": "jdbc", "/config/orders/db.user": "u", "/config/orders/db/pool.max": "10",
		"/config/orders/two/key.x": "dots", "/config/orders/a": "v", "/config/orders/a/b": "w",
		"/config/orders/dir/x": "1", "/config/orders/empty": "", "/config/orders/full": "",
		"/config/orders/x.y": "high", "/config/orders/text": " å \n", "/config/orders/list[0]": "l0",
	}
	for i, weak := range inOrder {
		for j, strong := range inOrder[i+1:] {
			key := fmt.Sprintf("/pair.%d%d", i, i+1+j)
			nodes[weak+key], nodes[strong+key] = weak, strong
		}
	}
	return nodes
}

// answers are Spring's: the value of env.getProperty. It answered null for db, db.pool and dir.
func answers() map[string]string {
	want := map[string]string{
		"only": "app", "full": "", "x.y": "high", "db.url": "jdbc", "db.user": "u", "db.pool.max": "10",
		"two.key.x": "dots", "a": "v", "a.b": "w", "dir.x": "1", "empty": "", "text": " å \n", "list[0]": "l0",
	}
	for i := range inOrder {
		for j := i + 1; j < len(inOrder); j++ {
			want[fmt.Sprintf("pair.%d%d", i, j)] = inOrder[j]
		}
	}
	return want
}

// check compares the program with Spring's answers, and has it follow changes.
func check(t *testing.T, servers []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(testbed.Context(t))
	defer cancel()
	client := testbed.NewClient(t, servers)
	write := func(path, data string) {
		t.Helper()
		testbed.Create(t, client, path, []byte(data), framework.PersistentParents(), framework.OrSet())
	}
	for path, data := range tree() {
		write(path, data)
	}

	seen := make(chan map[string]string)
	ended := testbed.Go(func() error { // ends with ctx
		return run(ctx, servers, contexts("orders", "prod,eu"), func(now map[string]string) bool {
			select {
			case seen <- now:
			case <-ctx.Done():
			}
			return true
		})
	})
	want := answers()
	require.Equal(t, want, <-seen)
	follow := func() {
		t.Helper()
		for now := range seen {
			if maps.Equal(want, now) {
				return
			}
			require.NoError(t, ctx.Err())
		}
	}

	write("/config/orders,prod/db/url", "other")
	want["db.url"] = "other"
	follow()
	write("/config/orders/db", "parent")
	want["db"] = "parent"
	follow()
	require.NoError(t, client.Delete(t.Context(), "/config/orders,prod/db/url"))
	want["db.url"] = "jdbc"
	want["db"] = "" // /config/orders,prod/db has no data, and no children any more
	follow()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestOnServers(t *testing.T) { exampletest.OnServers(t, check) }

func TestWithoutATreeThereAreNoProperties(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, run(t.Context(), server.Servers(), contexts("orders", "default"), func(now map[string]string) bool {
		require.Empty(t, now)
		return false
	}))
}

func TestContexts(t *testing.T) {
	require.Equal(t, inOrder, contexts("orders", "prod,eu"))
	require.Equal(t, []string{
		"/config/application", "/config/application,default", "/config/orders", "/config/orders,default",
	}, contexts("orders", "default"))
}
