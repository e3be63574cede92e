package framework_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// TestRecipesOnAViewOfALostSession: no recipe waits for a session that its client never uses.
func TestRecipesOnAViewOfALostSession(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, view *framework.Client, expire func()) error{
		"mutex": func(ctx context.Context, view *framework.Client, expire func()) error {
			m := testbed.Must(mutex.New(view, "/x"))
			expire()
			return testbed.Err(m.Acquire(ctx))
		},
		"election": func(ctx context.Context, view *framework.Client, expire func()) error {
			e := testbed.Must(leader.New(view, "/x"))
			expire()
			return testbed.Err(e.Campaign(ctx))
		},
		"Keep": func(ctx context.Context, view *framework.Client, expire func()) error {
			expire()
			return testbed.Err(node.Keep(ctx, view, "/x", nil))
		},
		"kept node": func(ctx context.Context, view *framework.Client, expire func()) error {
			n := testbed.Must(node.Keep(ctx, view, "/x", nil))
			expire()
			return n.Err()
		},
		"persistent kept node": func(ctx context.Context, view *framework.Client, expire func()) error {
			n := testbed.Must(node.Keep(ctx, view, "/x", nil, node.WithPersistence()))
			expire()
			return n.Close()
		},
		"Join": func(ctx context.Context, view *framework.Client, expire func()) error {
			expire()
			return testbed.Err(node.Join(ctx, view, "/x", "a", nil))
		},
		"cache": func(ctx context.Context, view *framework.Client, expire func()) error {
			c := testbed.Must(cache.New(view, "/x"))
			defer c.Close()
			expire()
			return c.Sync(ctx)
		},
		"Register": func(ctx context.Context, view *framework.Client, expire func()) error {
			d := testbed.Must(discovery.New[int](view, "/x"))
			expire()
			return testbed.Err(d.Register(ctx, discovery.Instance[int]{Name: "s", Address: "10.0.0.1", Port: 1}))
		},
		"Watch": func(ctx context.Context, view *framework.Client, expire func()) error {
			d := testbed.Must(discovery.New[int](view, "/x"))
			expire()
			return testbed.Err(d.Watch(ctx, "s"))
		},
	} {
		runInBubble(t, name, func(t *testing.T, server *zktest.Server, client *framework.Client) {
			ctx := testbed.Timeout(t, 10*time.Minute)
			session := testbed.Must(client.Session(ctx))
			began := time.Now()
			err := use(ctx, client.In(session), func() {
				require.NoError(t, server.ExpireSession(session.ID()))
				time.Sleep(30 * time.Second) // virtual time, in which the recipe notices it
			})
			require.ErrorIs(t, err, framework.ErrSessionLost)
			require.Less(t, time.Since(began), time.Minute)
		})
	}
}
