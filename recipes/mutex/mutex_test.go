package mutex_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMutex has CUR-MTX-01 to -11, KZ-MTX-01 to -08 and CURATOR-43, most of them in the suite.
func TestMutex(t *testing.T) {
	locksuite.Run(t, locksuite.Kind{
		New: contender, Op: "mutex", Reentrant: true,
		Foreign: []string{"lock-", "lock-12", "lock-abcdefghij", "x-lock-00000000001"},
	},
		testbed.Case{Name: "goroutines that pass their node on never overlap", Test: handedOn},
		testbed.Case{Name: "tokens rise from holder to holder", Test: tokensRise},
	)
}

func contender(client *framework.Client, path string, opts ...lock.Option) (locksuite.Contender, error) {
	m, err := mutex.New(client, path, opts...)
	if err != nil {
		return locksuite.Contender{}, err
	}
	return locksuite.Of(m, m.Participants), nil
}

// handedOn has the goroutines of two processes that pass their node on, and of one that does not.
func handedOn(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	plain, err := contender(bed.Client(t), path)
	require.NoError(t, err)
	all := []locksuite.Contender{plain}
	for range 2 {
		c, err := contender(bed.Client(t), path, lock.WithRetention(time.Millisecond))
		require.NoError(t, err)
		all = append(all, slices.Repeat([]locksuite.Contender{c}, 10)...)
	}
	locksuite.Contend(t, all, 5)
}

func tokensRise(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	path, client := testbed.Path(t), bed.Client(t)
	m, err := mutex.New(client, path)
	require.NoError(t, err)
	var last int64
	for round := range 4 {
		hold := testbed.Acquire(t, m)
		token, err := hold.FencingToken(ctx)
		require.NoError(t, err)
		require.Greater(t, token, last, "round %d", round)
		again, err := hold.FencingToken(ctx)
		require.NoError(t, err)
		require.Equal(t, token, again)
		last = token
		require.NoError(t, hold.Release())
		if round == 1 {
			// Numbers start again with the parent; tokens do not. A real
			// server may have reaped it by itself.
			if err := client.Delete(ctx, path); err != nil {
				require.ErrorIs(t, err, zk.ErrNoNode)
			}
		}
	}
}

// TestLostReplyUnderAHoldsContextIsUnknown: the lost connection fails the write, and a moment later
// it ends the context of the hold. The error must say that the write may have been carried out.
func TestLostReplyUnderAHoldsContextIsUnknown(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		require.NoError(t, w.Server.Create("/n", nil))
		for range 200 {
			client := w.Client()
			m, err := mutex.New(client, "/lock")
			require.NoError(t, err)
			hold := testbed.Acquire(t, m)
			before := testbed.Stat(t, client, "/n")
			w.Server.Inject(zktest.LoseReply, 0, zktest.OnOp("multi"))
			_, failed := client.Multi(hold.Context(), hold.Guard(), &zk.SetDataRequest{Path: "/n", Data: []byte("x"), Version: -1})
			after := testbed.Stat(t, client, "/n")
			if failed != nil && after.Version != before.Version {
				require.True(t, retry.Unknown(failed), "%v", failed)
			}
			_ = hold.Release()
			require.NoError(t, client.Close())
		}
	})
}
