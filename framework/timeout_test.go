package framework_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestASessionKeepsItsShortestTimeout has a session begin at a server that grants 10 s, and move to
// one that grants 30 s. Then the leader is lost, and a partition isolates the session's server. The
// next leader gives the session its first timeout of 10 s. The owner must be notified of the end
// before its node is deleted.
func TestASessionKeepsItsShortestTimeout(t *testing.T) {
	for _, idle := range []time.Duration{0, 5 * time.Second, 20 * time.Second} {
		testbed.RunVirtual(t, fmt.Sprint(idle), func(t *testing.T) { moveToALongerTimeout(t, idle) })
	}
}

func moveToALongerTimeout(t *testing.T, idle time.Duration) {
	ctx := t.Context()
	cluster := zktest.NewCluster(t, 5, zktest.WithInMemory())
	leader, followers := testbed.Leader(t, cluster)
	at, timeout := followers[0], 10*time.Second
	client := testbed.NewClient(t, []string{"follower:2181"}, framework.WithSessionTimeout(10*time.Second),
		framework.WithErrorPolicy(connstate.LostEndsHold), framework.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			nc, err := at.DialContext(ctx, network, at.Addr())
			return &asking{Conn: nc, timeout: timeout}, err
		}))
	require.NoError(t, client.WaitConnected(ctx))
	testbed.Create(t, client, "/held", nil, framework.As(framework.Ephemeral))
	session := testbed.Session(t, client)
	testbed.Depend(t, session, connstate.LostEndsHold, func(error) {})
	time.Sleep(2 * time.Second) // virtual time: nothing is left to report with the first timeout

	at, timeout = followers[1], 30*time.Second
	followers[0].CutConnections()
	synctest.Wait()
	require.NoError(t, client.WaitConnected(ctx))
	time.Sleep(idle) // virtual time
	require.NoError(t, session.Err())
	require.NoError(t, cluster.Partition(followers[1]))
	leader.Stop()
	knowsItsEnd(t, followers[2], session)
}

// asking is a connection whose handshake asks for a timeout: as if the server granted that whatever
// it is asked for.
type asking struct {
	net.Conn
	timeout time.Duration // 0: the handshake is done
}

func (a *asking) Write(frame []byte) (int, error) {
	if a.timeout > 0 { // behind the length, the version, and the last zxid
		binary.BigEndian.PutUint32(frame[4+4+8:], uint32(a.timeout.Milliseconds()))
		a.timeout = 0
	}
	return a.Conn.Write(frame)
}
