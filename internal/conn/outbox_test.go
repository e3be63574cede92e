package conn

import (
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
)

// TestARequestThatIsTooLongIsNotSent: the length that servers compare is without the length prefix.
func TestARequestThatIsTooLongIsNotSent(t *testing.T) {
	r, _ := deletion()
	_, p := open(t, 10*time.Second, Handlers{MaxRequest: len(r.Frame) - 4})
	refused := p.send(request(proto.OpDelete, &proto.VersionRequest{Path: "/aa", Version: -1}))
	require.ErrorIs(t, <-refused, ErrTooLong)
	xid, answered := p.sent()
	require.EqualValues(t, 1, xid)
	p.reply(xid, proto.OK)
	require.NoError(t, <-answered)
}

// TestARequestIsWithdrawnOnlyBeforeItIsWritten: a pipe has no room, so what the peer does not read
// is not written.
func TestARequestIsWithdrawnOnlyBeforeItIsWritten(t *testing.T) {
	c, p := open(t, 10*time.Second, Handlers{})
	written, answered := deletion()
	c.Send(written)
	h, _ := p.next()
	require.False(t, c.Withdraw(written))
	p.reply(h.Xid, proto.OK)
	require.NoError(t, <-answered)

	c.out.Lock() // as while another request is being written
	goOn := sync.OnceFunc(c.out.Unlock)
	defer goOn()
	given, withdrawn := request(proto.OpSync, &proto.PathRequest{Path: "/"})
	kept, answered := deletion()
	c.Send(given)
	c.Send(kept)
	require.True(t, c.Withdraw(given))
	require.ErrorIs(t, <-withdrawn, zk.ErrNoServer)
	require.False(t, c.Withdraw(given))
	c.mu.Lock()
	require.Zero(t, c.syncs, "no answer to it is awaited")
	c.mu.Unlock()
	goOn()
	h, _ = p.next()
	require.Equal(t, proto.OpDelete, h.Op)
	p.reply(h.Xid, proto.OK)
	require.NoError(t, <-answered)
}
