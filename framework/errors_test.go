package framework_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/zktest"
)

func TestCodesOfServersHaveErrors(t *testing.T) {
	for code, want := range map[proto.Code]error{
		-6:  framework.ErrUnimplemented,
		-13: admin.ErrNewConfigNoQuorum, -14: admin.ErrReconfigInProgress,
		-124: framework.ErrAuthRequired, -125: framework.ErrQuotaExceeded, -127: framework.ErrThrottled,
	} {
		require.ErrorIs(t, conn.CodeError(code), want)
		require.ErrorContains(t, want, fmt.Sprint(int(code)))
	}
}

func TestErrorsOfAServer(t *testing.T) {
	ctx := testbed.Context(t)
	client := newClient(t, zktest.NewServer(t))
	responses, err := client.Multi(ctx, &zk.DeleteRequest{Path: "/none", Version: -1}, &zk.CreateRequest{Path: "/a"})
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.ErrorContains(t, responses[1].Error, "(-2)")

	_, err = client.Create(ctx, "/ttl", nil, framework.TTL(time.Minute))
	require.ErrorIs(t, err, framework.ErrUnimplemented)
	require.EqualError(t, err, "create /ttl: the server does not allow TTL nodes (extendedTypesEnabled): zk: unimplemented (-6)")
}

func TestWhatIsLostStaysLost(t *testing.T) {
	for _, err := range []error{framework.ErrClosed, framework.ErrSessionLost, framework.ErrSuspended} {
		err = fmt.Errorf("%w: %w", err, zk.ErrConnectionClosed)
		require.Equal(t, verdict.Over, verdict.Of(err))
		require.Equal(t, !errors.Is(err, framework.ErrClosed), errors.Is(err, framework.ErrLost))
	}
}

// TestErrorsOfWaitingAndListeningNameTheirOperation, as errors of operations do.
func TestErrorsOfWaitingAndListeningNameTheirOperation(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	require.Equal(t, connstate.Connected, client.State())
	_, err := client.Listen(nil)
	require.ErrorIs(t, err, framework.ErrBadArgument)
	testbed.OneOp(t, err, "listen", "/")

	require.NoError(t, client.Close())
	require.Zero(t, client.State())
	_, err = client.Listen(func(connstate.State) {})
	require.ErrorIs(t, err, framework.ErrClosed)
	testbed.OneOp(t, err, "listen", "/")
	err = client.WaitConnected(t.Context())
	require.ErrorIs(t, err, framework.ErrClosed)
	testbed.OneOp(t, err, "connect", "/")
}

// TestNilFunctionsAreRefused: the client would call them later.
func TestNilFunctionsAreRefused(t *testing.T) {
	client := newClient(t, zktest.NewServer(t))
	session := testbed.Session(t, client)
	require.ErrorIs(t, testbed.Err(session.Depend(connstate.SuspendedEndsHold, nil)), framework.ErrBadArgument)
	require.ErrorIs(t, client.Follow(t.Context(), nil), framework.ErrBadArgument)
	_, err := client.AddWatch(t.Context(), "/a", framework.WatchRecursive, nil)
	require.ErrorIs(t, err, framework.ErrBadArgument)
}

// TestErrShutdown_IsErrClosed: a loop that ends at ErrClosed also ends at ErrShutdown. A closed
// cache or kept node leaves the client open.
func TestErrShutdown_IsErrClosed(t *testing.T) {
	require.ErrorIs(t, framework.ErrShutdown, framework.ErrClosed)
	require.NotErrorIs(t, framework.ErrShutdown, framework.ErrLost)
	require.NotErrorIs(t, framework.ErrEnded, framework.ErrClosed)
	require.NotErrorIs(t, framework.ErrClosed, framework.ErrEnded)
	require.EqualError(t, framework.ErrShutdown, "client is shutting down")
	require.EqualError(t, framework.ErrClosed, "client is closed")
}
