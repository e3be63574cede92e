package debt

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine/wire"
)

// fakeHost is a client without servers.
type fakeHost struct {
	life context.Context
	log  bytes.Buffer
}

func newFakeHost(t *testing.T) *fakeHost { return &fakeHost{life: t.Context()} }

func (h *fakeHost) Life() context.Context  { return h.life }
func (h *fakeHost) Background(func()) bool { return false }
func (h *fakeHost) Log() *slog.Logger      { return slog.New(slog.NewTextHandler(&h.log, nil)) }
func (h *fakeHost) Unreachable() error     { return zk.ErrNoServer }

// fakeSession is a session of the fake host, and the host of its connections.
type fakeSession struct {
	ctx context.Context
	end context.CancelFunc
}

func newFakeSession(t *testing.T) *fakeSession {
	s := new(fakeSession)
	s.ctx, s.end = context.WithCancel(t.Context())
	return s
}

func (s *fakeSession) Err() error             { return s.ctx.Err() }
func (s *fakeSession) Done() <-chan struct{}  { return s.ctx.Done() }
func (s *fakeSession) Timeout() time.Duration { return timeout }
func (s *fakeSession) Life() context.Context  { return s.ctx }
func (*fakeSession) Background(func()) bool   { return false }
func (*fakeSession) Unknown() *wire.Unknown   { return new(wire.Unknown) }

// TestOn_AfterALostReply: the only session that may delete a node is over before the deletion was
// sent again. The one that was not answered may have been carried out.
func TestOn_AfterALostReply(t *testing.T) {
	s, only := New(newFakeHost(t)), newFakeSession(t)
	node := Unique("/n")
	node.Only = only
	d := &Debt{ticket: newTicket()}
	waits := d.ticket
	s.add(d, node, due)
	waits.note(zk.ErrConnectionClosed)
	only.end()
	s.turn(time.Now())
	<-waits.done
	require.ErrorIs(t, waits.err, context.Canceled)
	require.True(t, waits.Unknown)
}

// TestSettle_AfterClose: the caller is told that the node is deleted, so the debt must stay for
// Close to delete it.
func TestSettle_AfterClose(t *testing.T) {
	s, session := New(newFakeHost(t)), newFakeSession(t)
	owe := func(path string, ephemeral bool) *Debt {
		node := Protected(path, "id")
		node.Session, node.Ephemeral = session, ephemeral
		return s.Owe(node)
	}
	persistent, ephemeral, before := owe("/n", false), owe("/e", true), owe("/b", false)
	require.True(t, before.Settle())
	s.Close()
	require.True(t, ephemeral.Settle())
	require.False(t, persistent.Settle())
	require.Contains(t, s.all, persistent)
	require.Len(t, s.all, 1)
}

// TestClose_LaterDebts: the owner of an ephemeral node may register it after Close has taken the
// debts, and the create of a persistent one is refused. Neither is worth a line of the log.
func TestClose_LaterDebts(t *testing.T) {
	h, session := newFakeHost(t), newFakeSession(t)
	s := New(h)
	s.Close()
	ephemeral := Unique("/e")
	ephemeral.Session, ephemeral.Ephemeral = session, true
	s.Discard(ephemeral)
	only := Unique("/o")
	only.Only = session
	s.Discard(only)
	persistent := Protected("/p", "id")
	persistent.Session = session
	d := s.Owe(persistent)
	require.Len(t, s.all, 1)
	d.CreateEnded("", zk.ErrNoServer)
	require.Empty(t, s.all)
	_, err := s.Delete(t.Context(), Unique("/d"))
	require.ErrorIs(t, err, wire.ErrClosed)
	s.Report()
	require.Empty(t, h.log.String())
}

// TestReport_NamesWhatIsLeft: a persistent node that Close could not delete is named once.
func TestReport_NamesWhatIsLeft(t *testing.T) {
	h := newFakeHost(t)
	s := New(h)
	s.Discard(Unique("/n"))
	s.Close()
	s.Report()
	require.Contains(t, h.log.String(), "path=/n count=1")
	d := s.Owe(Unique("/later"))
	require.ErrorIs(t, d.Await(t.Context()), wire.ErrClosed)
}

// TestUsable_OnlySession: a debt of one session is not deleted in another one.
func TestUsable_OnlySession(t *testing.T) {
	only, next := newFakeSession(t), newFakeSession(t)
	s := New(newFakeHost(t))
	s.link = line{wire.New(new(conn.Conn), next), next}
	usable := func(only Session) bool {
		_, ok := s.usable(&Debt{node: Node{Only: only}})
		return ok
	}
	require.False(t, usable(only))
	require.True(t, usable(next))
	require.True(t, usable(nil))
	next.end()
	require.False(t, usable(next), "a session that is over")
}

// TestAwait_GivesUp: without a connection the deletion continues without its caller.
func TestAwait_GivesUp(t *testing.T) {
	s := New(newFakeHost(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("reason")
	cancel(reason)
	node := Reusable("/n", func(int64) bool { return true }, nil)
	node.Session = newFakeSession(t)
	d := s.Owe(node)
	require.ErrorIs(t, d.Await(ctx), reason)
	require.Contains(t, s.all, d)
	require.Equal(t, sought, d.record.state)
	_, err := s.Delete(ctx, Unique("/d"))
	require.ErrorIs(t, err, reason)
	require.Len(t, s.all, 2)
}
