package framework_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestAnEmptyServerListSaysSo: a registry may have no servers yet. The client continues to ask it.
func TestAnEmptyServerListSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		var there atomic.Bool
		client := testbed.NewClient(t, nil, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.Never()),
			framework.WithDialer(server.DialContext), framework.WithServerList(func(context.Context) ([]string, error) {
				if there.Load() {
					return []string{"", "a,b", server.Addr()}, nil
				}
				return nil, nil
			}))
		require.EqualError(t, client.Sync(t.Context()), "sync /: zk: could not connect to a server: server list: the list is empty")
		there.Store(true)
		require.NoError(t, client.WaitConnected(t.Context()))
	})
}

func TestConnectStringsAreParsedOrRefused(t *testing.T) { // issues 10, B7, and 11
	for s, want := range map[string]struct {
		servers []string
		chroot  string
	}{
		"zk1":                      {[]string{"zk1:2181"}, ""},
		"zk1:2182,zk2:2181":        {[]string{"zk1:2182", "zk2:2181"}, ""},
		" zk1 , zk2:2181/app/a ":   {[]string{"zk1:2181", "zk2:2181"}, "app/a"},
		"[::1]:2181,10.0.0.1,/":    {[]string{"[::1]:2181", "10.0.0.1:2181"}, ""},
		"zk1:2181,zk2:2181/app/a/": {[]string{"zk1:2181", "zk2:2181"}, "app/a"},
	} {
		servers, chroot, err := framework.ParseConnectString(s)
		require.NoError(t, err, s)
		require.Equal(t, want.servers, servers, s)
		require.Equal(t, want.chroot, chroot, s)
	}
	for _, s := range []string{"", "/app", ",", "zk1:port", "zk1:0"} {
		require.ErrorIs(t, testbed.Err(framework.ParseConnectString(s)), framework.ErrBadArgument, s)
	}
	require.ErrorIs(t, testbed.Err(framework.ParseConnectString("zk1/a//b")), framework.ErrBadPath)
	for _, s := range []string{"zk1:2181/app,zk2:2181/app", "zk1/app,zk2", "zk1/,zk2"} {
		_, _, err := framework.ParseConnectString(s)
		require.ErrorIs(t, err, framework.ErrBadArgument, s)
		require.ErrorContains(t, err, "only the last server may have a chroot, without a comma")
	}
	for _, server := range []string{"zk1,zk2", "zk1:2181,zk2:2181", "zk1/app"} {
		_, err := framework.New([]string{server})
		require.ErrorIs(t, err, framework.ErrBadArgument)
		require.ErrorContains(t, err, "ParseConnectString")
	}
}

// TestServerListCanGrow has the only server that was known stop.
func TestServerListCanGrow(t *testing.T) { // KZ-CLI-04
	synctest.Test(t, func(t *testing.T) {
		cluster := zktest.NewCluster(t, 3, zktest.WithInMemory())
		var grown atomic.Bool
		client := testbed.NewClient(t, nil, framework.WithDialer(cluster.DialContext), framework.WithSessionTimeout(10*time.Second),
			framework.WithServerList(func(context.Context) ([]string, error) {
				if grown.Load() {
					return cluster.Servers(), nil
				}
				return cluster.Servers()[:1], nil
			}))
		session := testbed.Session(t, client)
		grown.Store(true)
		cluster.Members()[0].Stop()
		synctest.Wait() // it has noticed
		require.NoError(t, client.WaitConnected(t.Context()))
		require.NoError(t, session.Err())
		require.NoError(t, client.Sync(t.Context()))
	})
}
