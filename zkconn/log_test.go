package zkconn_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zkconn"
)

// lines is a logger that records its lines.
type lines struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *lines) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.lines)
}

func TestALoggerGetsWhatHappens(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		var all, bad, later lines
		loud, loudEvents := b.connect(zkconn.WithLogger(&all))
		terse, terseEvents := b.connect(zkconn.WithLogger(&bad), zkconn.WithLogInfo(false))
		for _, c := range []*zkconn.Conn{loud, terse} {
			_, _, err := c.Get("/")
			require.NoError(t, err)
		}
		require.Contains(t, all.text(), "level=INFO msg=connected server="+b.Addr())
		require.NotContains(t, all.text(), "time=")
		require.Equal(t, "[]", bad.text())
		loud.SetLogger(&later)
		for _, c := range []*zkconn.Conn{loud, terse} {
			require.NoError(t, b.ExpireSession(c.SessionID()))
		}
		steps(t, loudEvents, zk.StateExpired)
		steps(t, terseEvents, zk.StateExpired)
		synctest.Wait()
		require.Contains(t, bad.text(), "level=WARN msg=\"session lost\"")
		require.Contains(t, later.text(), "session lost")
		require.NotContains(t, all.text(), "session lost")
	})
}
