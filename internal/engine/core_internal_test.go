package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
)

// fading is the session of a connection that is lost after it was looked at once.
type fading struct {
	*Session
	looks atomic.Int32
}

func (f *fading) Err() error {
	if f.looks.Add(1) > 1 {
		return zk.ErrConnectionClosed
	}
	return nil
}

// TestAwaitLink_LostAtThatMoment: the connection ends the wait and is lost before it is used. The
// wait continues, until its limit.
func TestAwaitLink_LostAtThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Log: slog.New(slog.DiscardHandler)}).core
		connect := func(host wire.Host) *Connection {
			l := &Connection{Conn: wire.New(new(conn.Conn), host)}
			c.now.Set(func(n *inUse) { n.link = l })
			return l
		}
		alive := &Session{core: c, ctx: context.Background()}
		connect(&fading{Session: alive})
		next := make(chan *Connection, 1)
		time.AfterFunc(time.Minute, func() { next <- connect(alive) })
		l, err := c.awaitLink(t.Context(), nil, noLimit)
		require.NoError(t, err)
		require.Same(t, <-next, l)

		connect(&fading{Session: alive})
		began := time.Now()
		_, err = c.awaitLink(t.Context(), nil, time.Second)
		require.ErrorIs(t, err, zk.ErrNoServer)
		require.Equal(t, time.Second, time.Since(began))
	})
}
