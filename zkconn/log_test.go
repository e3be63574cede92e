package zkconn_test

import (
	"log"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zkconn"
)

func TestALoggerGetsWhatHappens(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		var all, bad, later testbed.Output
		loud, loudEvents := b.connect(zkconn.WithLogger(log.New(&all, "", 0)))
		terse, terseEvents := b.connect(zkconn.WithLogger(log.New(&bad, "", 0)), zkconn.WithLogInfo(false))
		for _, c := range []*zkconn.Conn{loud, terse} {
			require.NoError(t, testbed.Err(c.Get("/")))
		}
		require.Contains(t, all.String(), "level=INFO msg=connected server="+b.Addr())
		require.NotContains(t, all.String(), "time=")
		require.Empty(t, bad.String())
		loud.SetLogger(log.New(&later, "", 0))
		for _, c := range []*zkconn.Conn{loud, terse} {
			require.NoError(t, b.ExpireSession(c.SessionID()))
		}
		steps(t, loudEvents, zk.StateExpired)
		steps(t, terseEvents, zk.StateExpired)
		synctest.Wait()
		require.Contains(t, bad.String(), "level=WARN msg=\"session lost\"")
		require.Contains(t, later.String(), "session lost")
		require.NotContains(t, all.String(), "session lost")
	})
}
