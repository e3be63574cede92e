package barrier_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/zktest"
)

// Only UUIDs are members. A child of another program neither completes the barrier nor keeps a
// member inside, and is logged.
func TestDouble_AForeignChildIsNotAMember(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		var logged testbed.Output
		client := w.Client(framework.WithLogger(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		for _, name := range []string{"config", "_c_5a3fb5b1-8666-4ea0-97e3-cedcc039252f-lock-0000000000", "0123456789", "zz"} {
			require.NoError(t, w.Server.Create("/d/"+name, []byte("x")))
		}
		givesUp(t, newDouble(client, "/d", 2))
		require.Equal(t, 1, strings.Count(logged.String(), "path=/d/0123456789"), logged.String())

		one, two := enterBoth(t, client, w.Client(), "/d")
		leave(t, one, two)
		require.Len(t, left(t, w.Server, "/d"), 4, "the foreign children")
	})
}

// A member of kazoo has the digits of a UUID as its name.
func TestDouble_BesideKazoo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		require.NoError(t, w.Server.Create("/d/5a3fb5b186664ea097e3cedcc039252f", nil))
		entry := enter(t, w.Client(), "/d", 2)
		require.NoError(t, w.Server.Delete("/d/5a3fb5b186664ea097e3cedcc039252f"))
		leave(t, entry)
	})
}

// The session of the member that opens the barrier expires before the reply. The others pass and
// leave; the member does not wait alone. If they are still there, it passes with them.
func TestEnter_AfterAnOpeningOfUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		fault zktest.Fault
		stay  time.Duration // of the others
		want  error
	}{
		"the others have left":      {zktest.ExpireAfter, 0, barrier.ErrMissed},
		"the others are inside":     {zktest.ExpireAfter, time.Hour, nil},
		"the barrier did not open":  {zktest.ExpireBefore, 0, nil},
		"only the reply was lost":   {zktest.LoseReply, 0, nil},
		"only the request was lost": {zktest.FailBefore, 0, nil},
	} {
		testbed.RunWorld(t, name, func(t *testing.T, w *testbed.World) {
			ctx := testbed.Timeout(t, 5*time.Minute)
			for range 2 {
				others := entering(ctx, newDouble(w.Client(), "/d", 3))
				go func() { // ends with ctx
					if entered := <-others; entered.err == nil {
						select {
						case <-time.After(c.stay):
						case <-ctx.Done():
						}
						_ = entered.entry.Leave(ctx)
					}
				}()
			}
			time.Sleep(time.Second) // in virtual time
			w.Server.Inject(c.fault, 0, zktest.OnOp("multi"), zktest.OnPath("/d"))
			entered := <-entering(ctx, newDouble(w.Client(), "/d", 3))
			require.ErrorIs(t, entered.err, c.want)
			if c.want == nil && c.stay == 0 {
				leave(t, entered.entry)
			}
		}, zktest.WithLatency(time.Millisecond))
	}
}
