package engine

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
)

// TestDrop_AfterALostReply: the only session that may delete a node is over before the deletion was
// sent again. The one that was not answered may have been carried out.
func TestDrop_AfterALostReply(t *testing.T) {
	s, waits := newDebts(nil), &ticket{done: make(chan struct{})}
	d := s.add(&Debt{course: course{state: due}, ticket: waits})
	waits.note(zk.ErrConnectionClosed)
	s.drop(d, ErrSessionLost)
	<-waits.done
	require.ErrorIs(t, waits.err, ErrSessionLost)
	require.True(t, waits.unknown)
}

// TestSettle_AfterClose: the caller is told that the node is deleted, so the debt must stay for
// Close to delete it.
func TestSettle_AfterClose(t *testing.T) {
	s := newDebts(nil)
	persistent := s.add(&Debt{owed: owed{place: place{"/n", uniqueName}}})
	ephemeral := s.add(&Debt{owed: owed{place: place{"/e", uniqueName}}, origin: origin{ephemeral: true}})
	before := s.add(&Debt{owed: owed{place: place{"/b", uniqueName}}})
	require.True(t, before.Settle())
	s.close()
	require.False(t, persistent.Settle())
	require.True(t, ephemeral.Settle())
	require.Len(t, s.all, 1)
	require.Contains(t, s.all, persistent)
}

// TestUsable_OnlySession: a debt of one session is not deleted in another one.
func TestUsable_OnlySession(t *testing.T) {
	only, next := &Session{ctx: t.Context()}, &Session{ctx: t.Context()}
	s := newDebts(nil)
	s.link = &Connection{Conn: wire.New(new(conn.Conn), next), session: next}
	require.Nil(t, s.usable(&Debt{only: only}))
	require.Same(t, s.link, s.usable(&Debt{only: next}))
	require.Same(t, s.link, s.usable(new(Debt)))
}
