package zktest_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestAnAnswerWaitsForTheNextRequest(t *testing.T) {
	for name, wake := range map[string]func(t *testing.T, s *zktest.Server, c *rawClient){
		"a ping of the same client": func(t *testing.T, _ *zktest.Server, c *rawClient) {
			send(t, c, opPing, nil)
		},
		"a handshake":    func(t *testing.T, s *zktest.Server, _ *rawClient) { raw(t, s, nil) },
		"no more faults": func(_ *testing.T, s *zktest.Server, _ *rawClient) { s.ClearFaults() },
	} {
		testbed.RunVirtual(t, name, func(t *testing.T) {
			s, c := serve(t, zktest.WithInMemory())
			lost := s.Inject(zktest.LoseWakeup, 1, zktest.OnCreate())
			mustCreate(t, c, "/a", 0)
			xid := send(t, c, opCreate, create("/b", 0))
			answered := testbed.Go(func() error { return testbed.Err(c.answer(xid)) })
			synctest.Wait() // no reply arrives
			require.Equal(t, "lose wake-up: create /b", lost.String())
			require.True(t, s.Exists("/b"))
			require.Empty(t, answered)
			wake(t, s, c)
			require.NoError(t, <-answered)
		})
	}
}
