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
		hold := testbed.Acquire(t, side)
		require.NoError(t, hold.Release())
		return server.Requests().Requests["getChildren2"] == 0
	}, "a view")
}

// TestWriterBehindADowngradeWaits has the second writer's node created before the first writer is
// downgraded in its place, and its goroutine act afterwards.
func TestWriterBehindADowngradeWaits(t *testing.T) {
	testBehindADowngrade(t, func(l *rwlock.Lock) *rwlock.Side { return l.Write() }, func(t *testing.T, first, inner *lock.Hold) {
		require.NoError(t, first.Release())
	}, func(t *testing.T, first, inner *lock.Hold) {
		require.NoError(t, inner.Release())
	})
}

// TestReaderBehindAWriterThatReadWaits is the same for a reader behind a writer that has read in
// between.
func TestReaderBehindAWriterThatReadWaits(t *testing.T) {
	testBehindADowngrade(t, func(l *rwlock.Lock) *rwlock.Side { return l.Read() }, func(t *testing.T, first, inner *lock.Hold) {
		require.NoError(t, inner.Release())
	}, func(t *testing.T, first, inner *lock.Hold) {
		require.NoError(t, first.Release())
	})
}

func testBehindADowngrade(t *testing.T, side func(*rwlock.Lock) *rwlock.Side, before, after func(t *testing.T, first, inner *lock.Hold)) {
	server := zktest.NewServer(t)
	var at hurdle
	l, err := rwlock.New(testbed.On(server).Client(t, at.option()), "/lock")
	require.NoError(t, err)
	used(t, server, side(l))
	first := testbed.Acquire(t, l.Write())
	reached, goOn := at.set()
	second := testbed.Go(func() *lock.Hold {
		hold, _ := side(l).Acquire(testbed.Context(t))
		return hold
	})
	testbed.Receive(t, reached, "the second one's node")
	inner, err := l.Downgrade(first.Context())
	require.NoError(t, err)
	before(t, first, inner)
	goOn()
	joined := func() bool {
		ps, err := l.Participants(testbed.Context(t))
		return err == nil && len(ps) == 2 && !ps[1].Holds
	}
	require.True(t, joined())
	select {
	case <-second:
		t.Fatal("two holders")
	case <-time.After(50 * time.Millisecond):
	}
	after(t, first, inner)
	hold := testbed.Receive(t, second, "the lock")
	require.NotNil(t, hold)
	require.NoError(t, hold.Release())
}

func TestTokenDoesNotFallAfterADowngrade(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	l, err := rwlock.New(bed.Client(t), "/lock")
	require.NoError(t, err)
	other, err := rwlock.New(bed.Client(t), "/lock")
	require.NoError(t, err)
	token := func(hold *lock.Hold) int64 {
		n, err := hold.FencingToken(testbed.Context(t))
		require.NoError(t, err)
		return n
	}
	writer := testbed.Acquire(t, l.Write())
	next := testbed.Go(func() *lock.Hold {
		hold, _ := other.Write().Acquire(testbed.Context(t))
		return hold
	})
	testbed.Eventually(t, func() bool { children, _ := server.Children("/lock"); return len(children) == 2 }, "another writer queues")
	reader, err := l.Downgrade(writer.Context())
	require.NoError(t, err)
	require.Equal(t, token(writer), token(reader), "it is the same holder")
	require.NoError(t, writer.Release())
	last := token(reader)
	require.NoError(t, reader.Release())
	hold := testbed.Receive(t, next, "the lock")
	require.NotNil(t, hold)
	require.Greater(t, token(hold), last)
	require.NoError(t, hold.Release())
}

// TestReaderOfADowngradeIsNoSecret has an ACL provider that hides readers from others. Who waits
// behind the writer in a view is notified when the writer's node is deleted, so it must know of the
// reader's node that takes its place.
func TestReaderOfADowngradeIsNoSecret(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	l, err := rwlock.New(bed.Client(t, framework.WithAuth("digest", []byte("user:password")), framework.WithACLProvider(func(path string) []zk.ACL {
		if strings.Contains(path, "__READ__") {
			return zk.DigestACL(zk.PermAll, "user", "password")
		}
		return nil
	})), "/lock")
	require.NoError(t, err)
	other, err := rwlock.New(bed.Client(t), "/lock")
	require.NoError(t, err)
	used(t, server, other.Write())
	writer := testbed.Acquire(t, l.Write())
	second := testbed.Go(func() *lock.Hold {
		hold, _ := other.Write().Acquire(testbed.Context(t))
		return hold
	})
	testbed.Eventually(t, func() bool { children, _ := server.Children("/lock"); return len(children) == 2 }, "another writer queues")
	reader, err := l.Downgrade(writer.Context())
	require.NoError(t, err)
	require.NoError(t, writer.Release())
	select {
	case <-second:
		t.Fatal("two holders")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, reader.Release())
	hold := testbed.Receive(t, second, "the lock")
	require.NotNil(t, hold)
	require.NoError(t, hold.Release())
}

// TestReaderOfADowngradeHasTheWritersACL has an ACL provider that knows the paths of creates, which
// have no number yet. A client that may read the writer's node must be able to read the reader's
// node in its place.
func TestReaderOfADowngradeHasTheWritersACL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		bed := testbed.On(server)
		dial := framework.WithDialer(server.DialContext)
		l, err := rwlock.New(bed.Client(t, dial, framework.WithAuth("digest", []byte("user:password")), framework.WithACLProvider(func(path string) []zk.ACL {
			if path == "/lock" || strings.HasSuffix(path, "/__WRIT__") {
				return zk.WorldACL(zk.PermAll)
			}
			return zk.DigestACL(zk.PermAll, "user", "password")
		})), "/lock")
		require.NoError(t, err)
		other, err := rwlock.New(bed.Client(t, dial), "/lock")
		require.NoError(t, err)
		used(t, server, other.Write())
		writer := testbed.Acquire(t, l.Write())
		second := testbed.Go(func() *lock.Hold {
			hold, _ := other.Write().Acquire(t.Context())
			return hold
		})
		synctest.Wait() // another writer queues
		reader, err := l.Downgrade(writer.Context())
		require.NoError(t, err)
		require.NoError(t, writer.Release())
		time.Sleep(time.Second) // virtual time, in which it must not hold
		require.Empty(t, second, "a writer beside a reader")
		require.NoError(t, reader.Release())
		hold := testbed.Receive(t, second, "the lock")
		require.NotNil(t, hold)
		require.NoError(t, hold.Release())
	})
}

// TestDowngradeOfALostWriterIsNotRepeated ends the writer's session during the create of the
// reader's node. The caller's context also belongs to a hold of another client, so it does not
// identify the writer's session.
func TestDowngradeOfALostWriterIsNotRepeated(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	client := bed.Client(t, framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
	l, err := rwlock.New(client, "/lock", lock.WithErrorPolicy(connstate.LostEndsHold))
	require.NoError(t, err)
	m, err := mutex.New(bed.Client(t), "/mutex")
	require.NoError(t, err)
	writer := testbed.Acquire(t, l.Write())
	inner, err := m.Acquire(writer.Context())
	require.NoError(t, err)
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
