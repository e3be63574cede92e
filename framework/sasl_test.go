package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/sasl"
	"github.com/gocurator/curator/zktest"
)

var bob = map[string]string{"bob": "secret"}

func TestASASLUserHasItsRightsOnEachConnection(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithSASL(bob), zktest.WithProperties(map[string]string{"sessionRequireClientSASLAuth": "true"}))
	client := newClient(t, server, framework.WithSASL(sasl.DigestMD5("bob", "secret")), framework.WithAuth("digest", []byte("eve:other")))
	who := testbed.Must(admin.WhoAmI(testbed.Context(t), client))
	require.Equal(t, []admin.Identity{{Scheme: "ip", User: "127.0.0.1"}, {Scheme: "sasl", User: "bob"}, {Scheme: "digest", User: "eve"}}, who)
	testbed.Create(t, client, "/a", nil, framework.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}}))
	testbed.Create(t, client, "/b", nil, framework.ACL(zk.AuthACL(zk.PermAll)))
	require.Contains(t, testbed.ACL(t, client, "/b"), zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"})
	for _, end := range []func(){func() {}, server.CutConnections, func() { testbed.On(server).ExpireSession(t, client) }} {
		end()
		testbed.Get(t, client, "/a")
	}
}

func TestSASLInACluster(t *testing.T) {
	cluster := zktest.NewCluster(t, 3, zktest.WithSASL(bob), zktest.WithProperties(map[string]string{"sessionRequireClientSASLAuth": "true"}))
	client := testbed.OnCluster(cluster).Client(t, framework.WithSASL(sasl.DigestMD5("bob", "secret")))
	testbed.Create(t, client, "/a", nil, framework.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}}))
}

// broken is a mechanism that does not begin.
func broken(err error) sasl.Mechanism {
	return sasl.Mechanism{Name: "BROKEN", Start: func(context.Context, sasl.Server) (sasl.Exchange, error) { return sasl.Exchange{}, err }}
}

func TestSASLThatFailsIsAuthFailedWithTheMechanismsName(t *testing.T) {
	noTicket := errors.New("no ticket")
	for name, test := range map[string]struct {
		server    *zktest.Server
		mechanism sasl.Mechanism
		text      string
		also      error
	}{
		"a wrong password":           {zktest.NewServer(t, zktest.WithSASL(bob)), sasl.DigestMD5("bob", "wrong"), "SASL DIGEST-MD5: ", nil},
		"where it is required":       {zktest.NewServer(t, zktest.WithSASL(bob), zktest.WithProperties(map[string]string{"sessionRequireClientSASLAuth": "true"})), sasl.DigestMD5("bob", "wrong"), "SASL DIGEST-MD5: ", framework.ErrAuthRequired},
		"a server without SASL":      {zktest.NewServer(t), sasl.DigestMD5("bob", "secret"), "the server might not be configured for SASL", nil},
		"an exchange without Next":   {zktest.NewServer(t), broken(nil), "SASL BROKEN: zk: client authentication failed: exchange without Next", nil},
		"a mechanism without ticket": {zktest.NewServer(t), broken(noTicket), "SASL BROKEN: ", noTicket},
	} {
		t.Run(name, func(t *testing.T) {
			client := testbed.NewClient(t, []string{test.server.Addr()}, framework.WithSASL(test.mechanism))
			err := client.WaitConnected(testbed.Context(t))
			require.ErrorIs(t, err, zk.ErrAuthFailed)
			require.ErrorContains(t, err, test.text)
			require.NotContains(t, err.Error(), "secret")
			if test.also != nil {
				require.ErrorIs(t, err, test.also)
			}
		})
	}
	require.NotContains(t, fmt.Sprintf("%v %+v", sasl.DigestMD5("bob", "secret"), sasl.DigestMD5("bob", "secret")), "secret")
}

// outOfReach is DIGEST-MD5 as if it needed another server, which cannot be reached the first times.
func outOfReach(m sasl.Mechanism, times *atomic.Int32) sasl.Mechanism {
	start := m.Start
	m.Start = func(ctx context.Context, server sasl.Server) (sasl.Exchange, error) {
		if times.Add(-1) >= 0 {
			return sasl.Exchange{}, fmt.Errorf("no KDC: %w", zk.ErrNoServer)
		}
		return start(ctx, server)
	}
	return m
}

func TestAMechanismWhoseServerIsOutOfReachIsTriedAgain(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithSASL(bob), zktest.WithProperties(map[string]string{"sessionRequireClientSASLAuth": "true"}))
	var times atomic.Int32
	times.Store(3)
	client := testbed.NewClient(t, server.Servers(), framework.WithSASL(outOfReach(sasl.DigestMD5("bob", "secret"), &times)))
	require.NoError(t, testbed.Err(client.Get(testbed.Context(t), "/")))
	require.Equal(t, int32(-1), times.Load())

	times.Store(1 << 30)
	server.CutConnections()
	testbed.Eventually(t, func() bool { return client.State() != connstate.Connected }, "the end of the connection")
	var err error
	testbed.Eventually(t, func() bool { // the next try may take long
		err = client.WaitConnected(testbed.Timeout(t, 200*time.Millisecond))
		return err != nil && strings.Contains(err.Error(), "SASL DIGEST-MD5: no KDC")
	}, "the reason")
	require.ErrorIs(t, err, zk.ErrNoServer)
	require.NotErrorIs(t, err, zk.ErrAuthFailed)
}

func TestAnACLOfSASLIsInvalidOnAServerWithoutIt(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	_, err := client.Create(testbed.Context(t), "/a", nil, framework.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}}))
	require.ErrorIs(t, err, zk.ErrInvalidACL)
}

func TestBadOptionsOfSASLAreRefused(t *testing.T) {
	_, err := framework.New([]string{"a:1"}, framework.WithSASL(sasl.Mechanism{}))
	require.ErrorIs(t, err, framework.ErrBadArgument)
	_, err = zktest.Start(zktest.WithProperties(map[string]string{"sessionRequireClientSASLAuth": "true"}))
	require.Error(t, err)
	require.Error(t, testbed.Err(zktest.Start(zktest.WithSASL(nil))))
}
