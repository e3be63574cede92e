package docs_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// TestReport: an urgent client overtakes the clients at the door, and no two clients hold.
func TestReport(t *testing.T) {
	testbed.RunVirtual(t, "in order", func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		ctx := testbed.Context(t)
		turns, leave, ended := make(chan string, 4), make(chan struct{}), make(chan error)
		start := func(name string, urgent bool) {
			client := newClient(t, server, framework.WithDialer(server.DialContext))
			go func() {
				ended <- report(ctx, client, urgent, func(context.Context) error {
					turns <- name
					<-leave
					return nil
				})
			}()
			synctest.Wait()
		}
		start("first", false)
		require.Equal(t, "first", testbed.Receive(t, turns, "the first turn"))
		for _, name := range []string{"second", "third"} {
			start(name, false)
		}
		start("urgent", true)
		for _, name := range []string{"urgent", "second", "third"} {
			leave <- struct{}{}
			require.NoError(t, <-ended)
			require.Equal(t, name, testbed.Receive(t, turns, "the next turn"))
			synctest.Wait()
			require.Empty(t, turns)
		}
		leave <- struct{}{}
		require.NoError(t, <-ended)
	})
}

// byPriority is the driver that FROM-JAVA.md warns of: the priority is the beginning of the key.
type byPriority struct{ lock.Standard }

func (byPriority) SortKey(child, _ string) (key string, ours bool) {
	i := strings.LastIndex(child, "-job-")
	if i < 1 {
		return "", false
	}
	return child[i-1:], true
}

// TestPriority_OfADriverHasTwoHolders: the node of an urgent client is sorted before a holder's,
// and the holder is not asked again.
func TestPriority_OfADriverHasTwoHolders(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	var holds []*lock.Hold
	for _, name := range []string{"9-job-", "1-job-"} {
		q := testbed.Must(lock.New(client, "/jobs", name, byPriority{}))
		hold := testbed.Must(q.Acquire(testbed.Context(t)))
		holds = append(holds, hold)
	}
	for _, hold := range holds {
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Release())
	}
}
