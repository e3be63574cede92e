package conn

import (
	"context"
	"math"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/testbed/ensemble"
)

func TestNumbersAreNeverNegative(t *testing.T) {
	var n Numbers
	require.EqualValues(t, 1, n.next())
	n.last.Store(math.MaxInt32 - 1)
	require.EqualValues(t, math.MaxInt32, n.next())
	require.EqualValues(t, 1, n.next())
}

// TestServersKnowTransactionsByTheirNumbers has a session send a write to a follower, move to the other one at once, and send a write that
// must fail. When the second had the number of the first, a third of them was answered with the result of the first by ZooKeeper 3.8.0.
func TestServersKnowTransactionsByTheirNumbers(t *testing.T) {
	e := ensemble.Start(t)
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	var followers []string
	for i, server := range e.Servers() {
		if i != leader {
			followers = append(followers, server)
		}
	}
	connect := func(server string, hello Hello) *Conn {
		nc, err := net.Dial("tcp", server)
		require.NoError(t, err)
		hello.Timeout = 10 * time.Second
		c, err := Open(t.Context(), nc, hello)
		require.NoError(t, err)
		c.Start(Handlers{Answered: func(Answer) error { return nil }, Ended: func() {}})
		return c
	}
	send := func(c *Conn, op proto.Op, r proto.Record) outcome {
		answered := make(outcome, 1)
		c.Send(&Request{Op: op, Frame: r.Append(Begin(64)), Handler: answered})
		return answered
	}
	setup := connect(followers[0], Hello{})
	for _, path := range []string{"/first", "/second"} {
		everybody := []proto.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}
		require.NoError(t, <-send(setup, proto.OpCreate, &proto.CreateRequest{Path: path, ACL: everybody}))
	}
	setup.CloseSession(t.Context())
	for range 200 {
		numbers := new(Numbers)
		a := connect(followers[0], Hello{Numbers: numbers})
		first := send(a, proto.OpSetData, &proto.SetDataRequest{Path: "/first", Version: -1})
		b := connect(followers[1], Hello{Session: a.Grant.Session, Password: a.Grant.Password, Numbers: numbers})
		a.Close(nil)
		<-first
		require.ErrorIs(t, <-send(b, proto.OpSetData, &proto.SetDataRequest{Path: "/second", Version: math.MaxInt32}), zk.ErrBadVersion)
		b.CloseSession(context.Background())
		<-a.Done()
		<-b.Done()
	}
}
