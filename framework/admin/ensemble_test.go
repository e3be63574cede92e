package admin_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

const threeMembers = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888|[::1]:2888:3888:observer;2181\n" +
	"server.3=c:2888:3888\ngroup.1=1:2\nversion=1000000ab"

var three = admin.Ensemble{Version: 0x1000000ab, Members: []admin.Member{
	{ID: 1, Addresses: []string{"a:2888:3888"}, Client: "0.0.0.0:2181"},
	{ID: 2, Addresses: []string{"b:2888:3888", "[::1]:2888:3888"}, Observer: true, Client: "2181"},
	{ID: 3, Addresses: []string{"c:2888:3888"}},
}}

func TestConfigReadsTheMembersWhateverTheNamespace(t *testing.T) {
	server := zktest.NewServer(t)
	change := func(text string) { require.NoError(t, server.Set("/zookeeper/config", []byte(text))) }
	change(threeMembers)
	// which the path begins with
	client := testbed.On(server).Client(t, framework.WithNamespace("zookeeper"))
	ctx := testbed.Context(t)
	config, watch, err := admin.WatchConfig(ctx, client)
	require.NoError(t, err)
	require.Equal(t, three, config)
	change("server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=2")
	testbed.Receive(t, watch.Done(), "the change")
	require.Equal(t, "/zookeeper/config", watch.Event().Path)
	config = testbed.Must(admin.Config(ctx, client))
	require.Equal(t, admin.Ensemble{Version: 2, Members: three.Members[:1]}, config)
	for _, text := range []string{"server.x=a:2888:3888", "version=xyz"} {
		change(text)
		require.ErrorIs(t, testbed.Err(admin.Config(ctx, client)), proto.ErrMalformed)
	}
}

func TestConfigOfAServerThatRunsAloneHasNoMembers(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	require.Equal(t, admin.Ensemble{}, testbed.Must(admin.Config(testbed.Context(t), client)))
}

func TestAKeeperHasNoConfigurationOfZooKeepers(t *testing.T) {
	server := zktest.NewServer(t, zktest.LikeKeeper("old"))
	require.NoError(t, server.Create("/zookeeper/config", []byte("server.1=gone:2888:3888\nversion=1")))
	client := testbed.On(server).Client(t)
	ctx := testbed.Context(t)
	session := testbed.Session(t, client)
	require.ErrorIs(t, testbed.Err(admin.Config(ctx, client)), framework.ErrUnimplemented)
	require.ErrorIs(t, testbed.Err(admin.WatchConfig(ctx, client)), framework.ErrUnimplemented)
	_, err := admin.Reconfig(ctx, client, admin.Change{Leaving: []int64{1}}, -1)
	require.ErrorIs(t, err, framework.ErrUnimplemented)
	require.NoError(t, client.Sync(ctx))
	require.NoError(t, session.Err())
}

// written is a connection that records the bytes written to it.
type written struct {
	net.Conn
	mu    sync.Mutex
	bytes []byte
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes = append(w.bytes, b...)
	return w.Conn.Write(b)
}

// reconfig returns the reconfiguration among the written requests.
func (w *written) reconfig(t *testing.T) (r proto.ReconfigRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := bytes.NewReader(w.bytes); ; {
		frame, err := proto.ReadFrame(rest, 1<<20)
		require.NoError(t, err, "there is none")
		d := proto.NewDecoder(frame)
		var h proto.RequestHeader
		if h.Decode(&d); h.Op == proto.OpReconfig {
			r.Decode(&d)
			return r
		}
	}
}

func TestReconfigSendsTheChangeAndReturnsTheConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		change admin.Change
		want   proto.ReconfigRequest
	}{
		"joining and leaving": {
			admin.Change{Joining: three.Members[:2], Leaving: []int64{4, 5}},
			proto.ReconfigRequest{
				Joining: []byte("server.1=a:2888:3888:participant;0.0.0.0:2181,server.2=b:2888:3888|[::1]:2888:3888:observer;2181"),
				Leaving: []byte("4,5"), Config: 7,
			},
		},
		"all": {
			admin.Change{Members: three.Members[2:]},
			proto.ReconfigRequest{Members: []byte("server.3=c:2888:3888:participant"), Config: 7},
		},
	} {
		server := zktest.NewServer(t)
		testbed.Answer(server, proto.OK, &proto.DataResponse{Data: []byte(threeMembers)}, zktest.OnOp("reconfig"))
		var sent *written
		client := testbed.On(server).Client(t, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := server.DialContext(ctx, network, address)
			sent = &written{Conn: c}
			return sent, err
		}))
		config, err := admin.Reconfig(testbed.Context(t), client, test.change, 7)
		require.NoError(t, err, name)
		require.Equal(t, three, config)
		require.Equal(t, test.want, sent.reconfig(t), name)
	}
}

// TestAConfigurationThatCannotBeReadMayBeInForce: the servers have answered that they have changed
// it.
func TestAConfigurationThatCannotBeReadMayBeInForce(t *testing.T) {
	server := zktest.NewServer(t)
	testbed.Answer(server, proto.OK, &proto.DataResponse{Data: []byte("version=xyz")}, zktest.OnOp("reconfig"))
	ensemble, err := admin.Reconfig(testbed.Context(t), testbed.On(server).Client(t), admin.Change{Leaving: []int64{1}}, -1)
	testbed.OneOp(t, err, "reconfig", "/zookeeper/config")
	require.ErrorIs(t, err, proto.ErrMalformed)
	require.True(t, retry.Unknown(err))
	require.Zero(t, ensemble)
}

func TestReconfigNamesWhyItFailed(t *testing.T) {
	leave := admin.Change{Leaving: []int64{1}}
	for code, want := range map[proto.Code]error{
		proto.NewConfigNoQuorum: admin.ErrNewConfigNoQuorum, proto.ReconfigInProgress: admin.ErrReconfigInProgress,
		proto.ReconfigDisabled: zk.ErrReconfigDisabled, proto.BadVersion: zk.ErrBadVersion, proto.NoAuth: zk.ErrNoAuth,
		proto.Unimplemented: framework.ErrUnimplemented,
	} {
		server := zktest.NewServer(t)
		testbed.Answer(server, code, nil, zktest.OnOp("reconfig"))
		client := testbed.On(server).Client(t, framework.WithRetryPolicy(retry.Never()))
		for range 2 {
			_, err := admin.Reconfig(testbed.Context(t), client, leave, -1)
			require.ErrorIs(t, err, want)
			testbed.OneOp(t, err, "reconfig", "/zookeeper/config")
			require.False(t, retry.Unknown(err))
		}
		require.Equal(t, 2, server.Requests().Requests["reconfig"], "the next call may succeed")
	}
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	ctx := testbed.Context(t)
	require.ErrorIs(t, testbed.Err(admin.Reconfig(ctx, client, leave, -1)), zk.ErrReconfigDisabled)
	server.ResetCounts()
	bad := map[string]admin.Change{
		"nothing":       {},
		"both":          {Leaving: []int64{1}, Members: three.Members},
		"no address":    {Joining: []admin.Member{{ID: 1}}},
		"empty address": {Joining: []admin.Member{{ID: 1, Addresses: []string{""}}}},
	}
	for _, separator := range []string{"|", ";", ",", "=", " ", "\n"} {
		bad[separator+" in an address"] = admin.Change{Members: []admin.Member{{ID: 1, Addresses: []string{"a:1:2" + separator + "b:1:2"}}}}
		if separator != ";" { // a second port, for TLS
			bad[separator+" in Client"] = admin.Change{Joining: []admin.Member{{ID: 1, Addresses: []string{"a:1:2"}, Client: "2181" + separator + "2182"}}}
		}
	}
	for name, change := range bad {
		require.ErrorIs(t, testbed.Err(admin.Reconfig(ctx, client, change, -1)), framework.ErrBadArgument, "%q", name)
	}
	require.ErrorIs(t, testbed.Err(admin.Reconfig(ctx, client, leave, -2)), framework.ErrBadArgument)
	counts := server.Requests().Requests
	delete(counts, "ping") // a slow machine may take so long
	require.Empty(t, counts)
}
