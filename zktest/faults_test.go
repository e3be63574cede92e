package zktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestFaults_PrintThemselvesUntilTheyAreCleared(t *testing.T) {
	s := zktest.NewServer(t)
	require.Empty(t, s.Faults())
	l := testbed.Must(s.Listen("127.0.0.1:0", nil))
	c := raw(t, s, nil)

	lost := s.Inject(zktest.LoseWakeup, 1, zktest.OnPath("/a"))
	replies := s.BlockReplies(zktest.OnOp("delete"))
	gate := s.Block(zktest.OnOp("exists"))
	s.Delay(time.Minute, zktest.OnPath("/a"), zktest.On(func(zktest.Request) bool { return false }))
	s.Rewrite(func(zktest.Request, []byte) []byte { return nil })
	s.RefuseConnections(true)
	s.RefuseSessions(true)
	s.RefuseCredentials(true)
	send(t, c, opExists, watched("/", true))
	<-gate.Arrived()
	s.Freeze(0x10)
	s.Freeze()
	l.Freeze()
	s.Pause()
	require.Equal(t, []string{
		"block replies of delete: none arrived", "block requests: exists+watch /", "delay by 1m0s of path /a and a function",
		"freeze address " + l.Addr(), "freeze all sessions", "freeze session 0x10", "lose wake-up of path /a: not met", "pause",
		"refuse connections", "refuse credentials", "refuse sessions", "rewrite answers",
	}, s.Faults())
	require.Equal(t, "block replies of delete: none arrived", replies.String())
	require.Equal(t, "lose wake-up of path /a: not met", lost.String())
	s.ClearFaults()
	gate.Open() // again
	require.Empty(t, s.Faults())
	require.NoError(t, testbed.Err(c.answer(c.xid)), "a request that waited goes on")
	other := raw(t, s, nil)
	mustCreate(t, other, "/a", 0)
	mustCreate(t, other, "/a/b", 0) // would meet the fault
	require.False(t, lost.Met())
}
