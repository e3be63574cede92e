package rwlock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// A goroutine that is slow after the answer to its create.

// hurdle stops the next create of a client when it has been answered.
type hurdle struct {
	mu      sync.Mutex
	reached chan struct{} // nil: none is to be stopped
	open    chan struct{}
}

func (h *hurdle) option() framework.Option {
	return framework.WithObserver(framework.Observer{Operation: func(_ context.Context, e framework.OperationEvent) {
		if e.Op != "create" {
			return
		}
		h.mu.Lock()
		reached, open := h.reached, h.open
		h.reached = nil
		h.mu.Unlock()
		if reached != nil {
			close(reached)
			<-open
		}
	}})
}

func (h *hurdle) set() (reached <-chan struct{}, goOn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reached, h.open = make(chan struct{}), make(chan struct{})
	open := h.open
	return h.reached, func() { close(open) }
}

// used has a side acquire until it needs no list.
func used(t *testing.T, server *zktest.Server, side *rwlock.Side) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		server.ResetCounts()
		require.NoError(t, testbed.Acquire(t, side).Release())
		return server.Requests().Requests["getChildren2"] == 0
	}, "a view")
}

// TestWriterBehindADowngradeWaits has the second writer's node created before the first writer is
// downgraded in its place, and its goroutine act afterwards.
func TestWriterBehindADowngradeWaits(t *testing.T) {
	testBehindADowngrade(t, (*rwlock.Lock).Write, true)
}

// TestReaderBehindAWriterThatReadWaits is the same for a reader behind a writer that has read in
// between.
func TestReaderBehindAWriterThatReadWaits(t *testing.T) {
	testBehindADowngrade(t, (*rwlock.Lock).Read, false)
}

// testBehindADowngrade releases one hold before the second one's goroutine acts: the writer's, or the
// reader's inside.
func testBehindADowngrade(t *testing.T, side func(*rwlock.Lock) *rwlock.Side, writerFirst bool) {
	server := zktest.NewServer(t)
	var at hurdle
	l := lockOn(testbed.On(server).Client(t, at.option()), "/lock")
	used(t, server, side(l))
	first := acquire(t, l.Write())
	reached, goOn := at.set()
	second := begin(testbed.Context(t), side(l))
	testbed.Receive(t, reached, "the second one's node")
	early, late := first, downgraded(t, l, first)
	if !writerFirst {
		early, late = late, early
	}
	release(t, early)
	goOn()
	ps := testbed.Must(l.Participants(testbed.Context(t)))
	require.Len(t, ps, 2)
	require.False(t, ps[1].Holds)
	select {
	case <-second:
		t.Fatal("two holders")
	case <-time.After(50 * time.Millisecond):
	}
	release(t, late)
	release(t, received(t, second))
}

func TestTokenDoesNotFallAfterADowngrade(t *testing.T) {
	bed := testbed.On(zktest.NewServer(t))
	l, other := lockOn(bed.Client(t), "/lock"), lockOn(bed.Client(t), "/lock")
	token := func(hold *lock.Hold) int64 {
		return testbed.Must(hold.FencingToken(testbed.Context(t)))
	}
	writer := acquire(t, l.Write())
	next := start(t, testbed.Context(t), other.Write(), l, 2)
	reader := downgraded(t, l, writer)
	require.Equal(t, token(writer), token(reader), "it is the same holder")
	release(t, writer)
	last := token(reader)
	release(t, reader)
	hold := received(t, next)
	require.Greater(t, token(hold), last)
	release(t, hold)
}

// TestReaderOfADowngradeIsNoSecret has an ACL provider that hides readers from others. Who waits
// behind the writer in a view is notified when the writer's node is deleted, so it must know of the
// reader's node that takes its place.
func TestReaderOfADowngradeIsNoSecret(t *testing.T) {
	testReaderIsSeen(t, func(path string) []zk.ACL {
		if strings.Contains(path, "__READ__") {
			return zk.DigestACL(zk.PermAll, "user", "password")
		}
		return nil
	})
}

// TestReaderOfADowngradeHasTheWritersACL has an ACL provider that knows the paths of creates, which
// have no number yet. A client that may read the writer's node must be able to read the reader's
// node in its place.
func TestReaderOfADowngradeHasTheWritersACL(t *testing.T) {
	testReaderIsSeen(t, func(path string) []zk.ACL {
		if path == "/lock" || strings.HasSuffix(path, "/__WRIT__") {
			return zk.WorldACL(zk.PermAll)
		}
		return zk.DigestACL(zk.PermAll, "user", "password")
	})
}

// testReaderIsSeen has a writer with an ACL provider become a reader, and a writer of another
// client wait for it.
func testReaderIsSeen(t *testing.T, acl func(path string) []zk.ACL) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithAuth("digest", []byte("user:password")), framework.WithACLProvider(acl))
		l, other := lockOn(client, "/lock"), lockOn(w.Client(), "/lock")
		used(t, w.Server, other.Write())
		writer := acquire(t, l.Write())
		second := begin(t.Context(), other.Write())
		synctest.Wait() // another writer queues
		reader := downgraded(t, l, writer)
		release(t, writer)
		time.Sleep(time.Second) // virtual time, in which it must not hold
		waits(t, second)
		release(t, reader)
		release(t, received(t, second))
	})
}

// TestDowngradeOfALostWriterIsNotRepeated ends the writer's session during the create of the
// reader's node. The caller's context also belongs to a hold of another client, so it does not
// identify the writer's session.
func TestDowngradeOfALostWriterIsNotRepeated(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	client := bed.Client(t, framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
	l := lockOn(client, "/lock", lock.WithErrorPolicy(connstate.LostEndsHold))
	m := testbed.Must(mutex.New(bed.Client(t), "/mutex"))
	writer := acquire(t, l.Write())
	inner := testbed.Must(m.Acquire(writer.Context()))
	gate := server.Block(zktest.OnOp("create"), zktest.OnSession(writer.Session().ID()))
	done := testbed.Go(func() error {
		_, err := l.Downgrade(inner.Context())
		return err
	})
	testbed.Receive(t, gate.Arrived(), "the reader's create")
	require.NoError(t, server.ExpireSession(writer.Session().ID()))
	gate.Open()
	testbed.Receive(t, writer.Done(), "word of the loss")
	require.ErrorIs(t, testbed.Receive(t, done, "the end"), framework.ErrSessionLost)
	require.NoError(t, inner.Release())
}
