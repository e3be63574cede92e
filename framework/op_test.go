package framework_test

import (
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestOps_WithoutOptions match every version: a request of go-zookeeper without a Version matches
// only version 0, so that the first write succeeds and all later ones fail.
func TestOps_WithoutOptions(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := t.Context()
	_, err := client.Multi(ctx, framework.CreateOp("/a", []byte("0")), framework.CreateOp("/b", nil))
	require.NoError(t, err)
	for range 3 {
		_, err = client.Multi(ctx, framework.CheckOp("/a"), framework.SetOp("/a", []byte("1")), framework.SetOp("/b", nil))
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, testbed.Stat(t, client, "/a").Version)
	require.NoError(t, testbed.Err(client.Multi(ctx, framework.DeleteOp("/a"), framework.DeleteOp("/b"))))
	require.ErrorIs(t, testbed.Err(client.Multi(ctx, framework.CheckOp("/a"))), zk.ErrNoNode)
}

func TestOps_IfVersion(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	ctx := t.Context()
	testbed.Create(t, client, "/a", nil)
	for _, op := range []any{
		framework.SetOp("/a", nil, framework.IfVersion(1)), framework.DeleteOp("/a", framework.IfVersion(1)), framework.CheckOp("/a", framework.IfVersion(1)),
	} {
		require.ErrorIs(t, testbed.Err(client.Multi(ctx, op)), zk.ErrBadVersion, "%T", op)
	}
	_, err := client.Multi(ctx, framework.CheckOp("/a", framework.IfVersion(0)), framework.SetOp("/a", nil, framework.IfVersion(0)), framework.DeleteOp("/a", framework.IfVersion(1)))
	require.NoError(t, err)
}

func TestCreateOp(t *testing.T) {
	client := newClient(t, zktest.NewServer(t), framework.WithACLProvider(func(string) []zk.ACL { return zk.WorldACL(zk.PermAll) }))
	ctx := t.Context()
	acl := zk.WorldACL(zk.PermRead)
	responses, err := client.Multi(ctx,
		framework.CreateOp("/ephemeral-", []byte("x"), framework.As(framework.EphemeralSequential), framework.ACL(acl)),
		framework.CreateOp("/container", nil, framework.As(framework.Container)))
	require.NoError(t, err)
	path := responses[0].String
	data, stat, err := client.Get(ctx, path)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	require.NotZero(t, stat.EphemeralOwner)
	require.Equal(t, acl, testbed.ACL(t, client, path))
	require.Equal(t, zk.WorldACL(zk.PermAll), testbed.ACL(t, client, "/container"))
}

// TestOps_BadOptions are refused by Multi, without a request.
func TestOps_BadOptions(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client()
		testbed.Create(t, client, "/a", nil)
		synctest.Wait()
		w.Server.ResetCounts()
		for want, op := range map[string]any{
			"multi: bad argument: a nil operation in a multi":                              framework.CreateOp("/b", nil, nil),
			"multi /c: bad argument: create flags 77 in a multi":                           framework.CreateOp("/c", nil, framework.As(77)),
			"multi /d: bad argument: empty ACL":                                            framework.CreateOp("/d", nil, framework.ACL(nil)),
			"multi /e: bad argument: a nil option, or version -1, which means any version": framework.SetOp("/e", nil, framework.IfVersion(-1)),
			"multi /f: bad argument: a nil option, or version -1, which means any version": framework.DeleteOp("/f", framework.IfVersion(-1)),
			"multi /g: bad argument: a nil option, or version -1, which means any version": framework.CheckOp("/g", framework.IfVersion(-1)),
			"multi /h: bad argument: a nil option, or version -1, which means any version": framework.SetOp("/h", nil, nil),
			"multi bad: bad path: \"bad\" is not absolute":                                 framework.SetOp("bad", nil),
		} {
			require.ErrorContains(t, testbed.Err(client.Multi(t.Context(), framework.CheckOp("/a"), op)), want)
		}
		require.Empty(t, w.Server.Requests().Requests)
	})
}
