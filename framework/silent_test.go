package framework_test

import (
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestAWatchThatWasUsedUpInSilenceIsSetAgain has a node change, or go, while the client may not read it. Servers do not tell of that, and
// use up the watches that fire once all the same.
func TestAWatchThatWasUsedUpInSilenceIsSetAgain(t *testing.T) {
	mine := zk.DigestACL(zk.PermAll, "owner", "secret")
	open := func(t *testing.T, owner *framework.Client) {
		_, err := owner.SetACL(t.Context(), "/a", zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
	}
	for name, silence := range map[string]func(t *testing.T, owner, subject *framework.Client){
		"refused": func(t *testing.T, owner, subject *framework.Client) {
			change(t, owner, "silent")
			_, _, _, err := subject.GetW(t.Context(), "/a")
			require.ErrorIs(t, err, zk.ErrNoAuth)
			open(t, owner)
		},
		"list refused": func(t *testing.T, owner, subject *framework.Client) {
			change(t, owner, "silent")
			_, _, _, err := subject.ChildrenW(t.Context(), "/a")
			require.ErrorIs(t, err, zk.ErrNoAuth)
			open(t, owner)
		},
		"gone": func(t *testing.T, owner, subject *framework.Client) {
			require.NoError(t, owner.Delete(t.Context(), "/a", -1))
			_, _, _, err := subject.GetW(t.Context(), "/a")
			require.ErrorIs(t, err, zk.ErrNoNode)
			_, err = owner.Create(t.Context(), "/a", nil)
			require.NoError(t, err)
		},
		"not noticed": func(t *testing.T, owner, subject *framework.Client) {
			change(t, owner, "silent")
			open(t, owner)
		},
		"found to be gone": func(t *testing.T, owner, subject *framework.Client) {
			require.NoError(t, owner.Delete(t.Context(), "/a", -1))
			there, _, err := subject.Exists(t.Context(), "/a")
			require.NoError(t, err)
			require.False(t, there)
			_, err = owner.Create(t.Context(), "/a", nil)
			require.NoError(t, err)
		},
		"found to be gone with a watch for the next": func(t *testing.T, owner, subject *framework.Client) {
			require.NoError(t, owner.Delete(t.Context(), "/a", -1))
			there, _, _, err := subject.ExistsW(t.Context(), "/a")
			require.NoError(t, err)
			require.False(t, there)
			_, err = owner.Create(t.Context(), "/a", nil)
			require.NoError(t, err)
		},
	} {
		for _, way := range ways {
			if !way.once {
				continue
			}
			t.Run(name+", "+way.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := zktest.NewServer(t, zktest.WithInMemory())
					bed, dial := testbed.On(server), framework.WithDialer(server.DialContext)
					subject, owner := bed.Client(t, dial), bed.Client(t, dial, framework.WithAuth("digest", []byte("owner:secret")))
					_, err := owner.Create(t.Context(), "/a", nil)
					require.NoError(t, err)
					before, _ := way.begin(t, subject)
					_, err = owner.SetACL(t.Context(), "/a", mine, -1)
					require.NoError(t, err)
					silence(t, owner, subject)
					synctest.Wait()
					after, _ := way.begin(t, subject)
					synctest.Wait()
					require.Empty(t, after())
					change(t, owner, "told")
					synctest.Wait()
					require.Len(t, after(), 1)
					require.Len(t, before(), 1)
				})
			})
		}
	}
}
