package zktest_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

// TestReplacedLeaderServesItsClientsUntilItLooks cuts a leader off. Its followers elect another
// one. The old one notices when it looks for them, once per tick. Until then it answers alone, also
// when they reach each other again.
func TestReplacedLeaderServesItsClientsUntilItLooks(t *testing.T) {
	const tick, election, step = 2 * time.Second, 100 * time.Millisecond, 20 * time.Millisecond
	var served []time.Duration
	for seed := range uint64(20) {
		virtual(t, 3, func(t *testing.T, c *zktest.Cluster) {
			old := leader(t, c)
			a, b := raw(t, old, nil), raw(t, old, nil)
			mustCreate(t, a, "/n", 0)
			time.Sleep(time.Second)
			require.NoError(t, c.Partition(old))
			next := elected(t, c)
			require.NotEqual(t, old, next)
			replaced := time.Now()
			set(t, raw(t, next, nil), "/n", "new")
			c.Heal()
			var conn net.Conn
			for err := error(nil); err == nil; conn, err = old.Dial("", "", 0) {
				if conn != nil {
					_ = conn.Close()
					answersAlone(t, old, a, b)
				}
				time.Sleep(step)
			}
			served = append(served, time.Since(replaced))
			over(t, a)
			time.Sleep(2 * election)
			require.Equal(t, "new", get(t, raw(t, old, a), "/n"), "it follows")
		}, zktest.WithElectionTime(election), zktest.WithSeed(seed))
	}
	require.LessOrEqual(t, slices.Max(served), tick+step)
	require.Greater(t, slices.Max(served), tick*3/4)
	require.Less(t, slices.Min(served), tick/4)
}

// answersAlone requires that a replaced leader answers all that it can without a majority. a and b
// are clients of it.
func answersAlone(t *testing.T, old *zktest.Server, a, b *rawClient) {
	t.Helper()
	ask(t, a, opPing, nil)
	ask(t, a, opSync, *new(buffer).text("/n"))
	require.Equal(t, "", get(t, a, "/n"), "it does not know of its successor's writes")
	require.Equal(t, b.id, raw(t, old, b).id, "a session that comes back")
}
