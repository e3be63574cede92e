package conn

import (
	"context"
	"math"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
)

func TestNumbersAreNeverNegative(t *testing.T) {
	var n Numbers
	require.EqualValues(t, 1, n.next())
	n.last.Store(math.MaxInt32 - 1)
	require.EqualValues(t, math.MaxInt32, n.next())
	require.EqualValues(t, 1, n.next())
}

// TestServersKnowTransactionsByTheirNumbers has a session send a write to a follower, move to the
// other one at once, and send a write that must fail. When the second had the number of the first,
// a third of them was answered with the result of the first by ZooKeeper 3.8.0, and a quarter by
// 3.9.6.
func TestServersKnowTransactionsByTheirNumbers(t *testing.T) {
	e := ensemble.New(t)
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	var followers []string
	for i, server := range e.Servers() {
		if i != leader {
			followers = append(followers, server)
		}
	}
	setup := connect(t, followers[0], Hello{}, ignore)
	for _, path := range []string{"/first", "/second"} {
		everybody := []proto.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}
		require.NoError(t, <-send(setup, proto.OpCreate, &proto.CreateRequest{Path: path, ACL: everybody}))
	}
	setup.CloseSession(t.Context())
	for range 200 {
		numbers := new(Numbers)
		a := connect(t, followers[0], Hello{Numbers: numbers}, ignore)
		first := send(a, proto.OpSetData, &proto.SetDataRequest{Path: "/first", Version: -1})
		b := connect(t, followers[1], Hello{Session: a.Grant.Session, Password: a.Grant.Password, Numbers: numbers}, ignore)
		a.Close(nil)
		<-first
		require.ErrorIs(t, <-send(b, proto.OpSetData, &proto.SetDataRequest{Path: "/second", Version: math.MaxInt32}), zk.ErrBadVersion)
		b.CloseSession(context.Background())
		<-a.Done()
		<-b.Done()
	}
}
