package framework_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

const threeMembers = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888|[::1]:2888:3888:observer;2181\n" +
	"server.3=c:2888:3888\ngroup.1=1:2\nversion=1000000ab"

var three = framework.EnsembleConfig{Version: 0x1000000ab, Members: []framework.Member{
	{ID: 1, Addresses: []string{"a:2888:3888"}, Client: "0.0.0.0:2181"},
	{ID: 2, Addresses: []string{"b:2888:3888", "[::1]:2888:3888"}, Observer: true, Client: "2181"},
	{ID: 3, Addresses: []string{"c:2888:3888"}},
}}

func TestGetConfigReadsTheMembersWhateverTheNamespace(t *testing.T) {
	server := zktest.NewServer(t)
	change := func(text string) { require.NoError(t, server.Set("/zookeeper/config", []byte(text))) }
	change(threeMembers)
	client := newClient(t, server, framework.WithNamespace("ns"))
	ctx := testbed.Context(t)
	config, watch, err := client.GetConfigW(ctx)
	require.NoError(t, err)
	require.Equal(t, three, config)
	change("server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=2")
	testbed.Receive(t, watch.Done(), "the change")
	require.Equal(t, "/zookeeper/config", watch.Event().Path)
	config, err = client.GetConfig(ctx)
	require.NoError(t, err)
	require.Equal(t, framework.EnsembleConfig{Version: 2, Members: three.Members[:1]}, config)
	for _, text := range []string{"server.x=a:2888:3888", "version=xyz"} {
		change(text)
		_, err = client.GetConfig(ctx)
		require.ErrorIs(t, err, proto.ErrMalformed)
	}
}

func TestGetConfigOfAServerThatRunsAloneHasNoMembers(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	config, err := client.GetConfig(testbed.Context(t))
	require.NoError(t, err)
	require.Equal(t, framework.EnsembleConfig{}, config)
}

func TestAKeeperHasNoConfigurationOfZooKeepers(t *testing.T) {
	server := zktest.NewServer(t, zktest.LikeKeeper(zktest.KeeperOld))
	require.NoError(t, server.Create("/zookeeper/config", []byte("server.1=gone:2888:3888\nversion=1")))
	client := newClient(t, server)
	ctx := testbed.Context(t)
	session, err := client.Session(ctx)
	require.NoError(t, err)
	_, err = client.GetConfig(ctx)
	require.ErrorIs(t, err, framework.ErrUnimplemented)
	_, _, err = client.GetConfigW(ctx)
	require.ErrorIs(t, err, framework.ErrUnimplemented)
	_, err = client.Reconfig(ctx, framework.Reconfiguration{Leaving: []int64{1}}, -1)
	require.ErrorIs(t, err, framework.ErrUnimplemented)
	require.NoError(t, client.Sync(ctx))
	require.NoError(t, session.Err())
}

func TestReconfigSendsTheChangeAndReturnsTheConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		change framework.Reconfiguration
		want   proto.ReconfigRequest
	}{
		"joining and leaving": {
			framework.Reconfiguration{Joining: three.Members[:2], Leaving: []int64{4, 5}},
			proto.ReconfigRequest{
				Joining: []byte("server.1=a:2888:3888:participant;0.0.0.0:2181,server.2=b:2888:3888|[::1]:2888:3888:observer;2181"),
				Leaving: []byte("4,5"), Config: 7,
			},
		},
		"all": {
			framework.Reconfiguration{Members: three.Members[2:]},
			proto.ReconfigRequest{Members: []byte("server.3=c:2888:3888:participant"), Config: 7},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got proto.ReconfigRequest
			l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, body []byte) []byte {
				d := proto.NewDecoder(body)
				got.Decode(&d)
				return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.DataResponse{Data: []byte(threeMembers)})
			})}
			config, err := l.client(t).Reconfig(t.Context(), test.change, 7)
			require.NoError(t, err, name)
			require.Equal(t, three, config)
			require.Equal(t, test.want, got, name)
		})
	}
}

func TestReconfigNamesWhyItFailed(t *testing.T) {
	leave := framework.Reconfiguration{Leaving: []int64{1}}
	for code, want := range map[proto.Code]error{
		proto.NewConfigNoQuorum: framework.ErrNewConfigNoQuorum, proto.ReconfigInProgress: framework.ErrReconfigInProgress,
		proto.ReconfigDisabled: zk.ErrReconfigDisabled, proto.BadVersion: zk.ErrBadVersion, proto.NoAuth: zk.ErrNoAuth,
		proto.Unimplemented: framework.ErrUnimplemented,
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
				asked++
				return packet(&proto.ReplyHeader{Xid: h.Xid, Code: code})
			})}
			client := l.client(t)
			for range 2 {
				_, err := client.Reconfig(t.Context(), leave, -1)
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, "reconfig /zookeeper/config: ")
				require.False(t, retry.Unknown(err))
			}
			require.Equal(t, 2, asked, "the next one may succeed")
		})
	}
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)
	_, err := client.Reconfig(ctx, leave, -1)
	require.ErrorIs(t, err, zk.ErrReconfigDisabled)
	server.ResetCounts()
	for name, change := range map[string]framework.Reconfiguration{
		"nothing":          {},
		"both":             {Leaving: []int64{1}, Members: three.Members},
		"no address":       {Joining: []framework.Member{{ID: 1}}},
		"empty address":    {Joining: []framework.Member{{ID: 1, Addresses: []string{""}}}},
		"two in one":       {Members: []framework.Member{{ID: 1, Addresses: []string{"a:1:2,server.2=b:1:2"}}}},
		"a line in a port": {Joining: []framework.Member{{ID: 1, Addresses: []string{"a:1:2"}, Client: "2181\nversion=0"}}},
	} {
		_, err := client.Reconfig(ctx, change, -1)
		require.ErrorIs(t, err, framework.ErrBadArgument, name)
	}
	_, err = client.Reconfig(ctx, leave, -2)
	require.ErrorIs(t, err, framework.ErrBadArgument)
	require.Empty(t, server.Requests().Requests)
}
