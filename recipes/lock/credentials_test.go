package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestHolderThatPresentsCredentialsEndsFirst has a client present credentials, acquire a lock, and
// lose its server to a partition. The answer to the credentials does not prolong the session: it
// expires a timeout after the leader last heard of it.
func TestHolderThatPresentsCredentialsEndsFirst(t *testing.T) {
	for phase := time.Duration(0); phase < 2*time.Second; phase += 100 * time.Millisecond {
		for late := 2 * time.Second; late < 4*time.Second; late += 200 * time.Millisecond {
			testbed.RunVirtual(t, fmt.Sprintf("phase %v, late %v", phase, late), func(t *testing.T) {
				ended, next := cutOffAfterCredentials(t, phase, late)
				require.LessOrEqual(t, ended, next, "two holders")
			})
		}
	}
}

// cutOffAfterCredentials returns when the hold ended and when the next one began, both since the
// connection of the first holder.
func cutOffAfterCredentials(t *testing.T, phase, late time.Duration) (ended, next time.Duration) {
	const timeout = 40 * time.Second
	cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
	ctx := testbed.Timeout(t, 5*time.Minute)
	leader, followers := testbed.Leader(t, cluster)
	client := func(server *zktest.Server) *framework.Client {
		return patientClient(t, timeout, server.Servers(), framework.WithDialer(cluster.DialContext))
	}
	b := newQueue(t, client(leader), "/lock")
	time.Sleep(phase) // virtual time
	began := time.Now()
	a := client(followers[0])
	time.Sleep(late) // virtual time
	require.NoError(t, a.AddAuth(ctx, "digest", []byte("user:password")))
	// Virtual time: the next write proves the answers until then.
	time.Sleep(timeout*9/32 + 10*time.Millisecond)
	hold := acquireIn(t, ctx, newQueue(t, a, "/lock"))
	require.NoError(t, cluster.Partition(followers[0]))
	acquired := acquiredAt(t, ctx, b)
	<-hold.Done()
	ended = time.Since(began)
	return ended, (<-acquired).Sub(began)
}
