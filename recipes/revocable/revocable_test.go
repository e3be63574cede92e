package revocable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/locksuite"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRevocable(t *testing.T) {
	testbed.Run(t, []testbed.Case{
		{Name: "asked to, the holder lets go and the asker gets in", Test: handsOver}, // CUR-RVK-01, CUR-RVK-02
		{Name: "only the hold that is asked for is asked", Test: oneIsAsked},          // CUR-RVK-03, CUR-RVK-04
		{Name: "both messages are understood, and no other", Test: messages},
		{Name: "asking takes nothing away", Test: nothingTaken},
		{Name: "all holds of a lease are asked", Test: reentered},
		{Name: "a message from before the watch is seen", Test: messageBeforeWatch},
		{Name: "a waiter hears of the request when it holds", Test: waiterIsAsked},
		{Name: "the node's own data are no message", Test: ownDataAreNoMessage},
		{Name: "force deletes what is there after the grace period", Test: force},
		{Name: "force does not strike who lets go in time", Test: forceAndConsent},
		{Name: "force sends a waiter to the end of the queue", Test: forceOnWaiter},
		{Name: "a deletion without a request is no revocation", Test: deletedUnasked},
		{Name: "readers and writers can be asked", Test: readersAndWriters},
		{Name: "everyone in a writer's way is asked", Test: writersWay},
		{Name: "a node that is gone is a typed error", Test: goneNode},
		{Name: "the lock's own path is refused", Test: lockPathRefused},
		{Name: "do passes the request on", Test: do},
		{Name: "a lost session ends the hold and the watch", Test: sessionLost},
		{Name: "requests work in a namespace", Test: inNamespace},
		{Name: "each lock of a group can be asked for", Test: groupOfLocks},
		{Name: "leases of a semaphore can be asked for", Test: leases},
	})
}

// TestLock is the suite with a revocable mutex.
func TestLock(t *testing.T) {
	locksuite.Run(t, locksuite.Kind{
		New: func(client *framework.Client, path string, opts ...lock.Option) (c locksuite.Contender, err error) {
			m, err := mutex.New(client, path, opts...)
			if err != nil {
				return c, err
			}
			l, err := revocable.New(m)
			if err != nil {
				return c, err
			}
			return locksuite.Of(locker{l}, m.Participants), nil
		},
		Op: "mutex", Reentrant: true,
	})
}

// locker is a lock whose Do passes no request on.
type locker struct{ *revocable.Lock }

func (l locker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return l.Lock.Do(ctx, func(ctx context.Context, _ <-chan struct{}) error { return f(ctx) })
}

func newMutex(client *framework.Client, path string, opts ...lock.Option) *mutex.Mutex {
	return testbed.Must(mutex.New(client, path, opts...))
}

func newLock(locker lock.Locker) *revocable.Lock {
	return testbed.Must(revocable.New(locker))
}

func acquire(t *testing.T, l *revocable.Lock) *revocable.Hold {
	t.Helper()
	return testbed.Acquire(t, l)
}

// asked waits until the request has reached the holds.
func asked(t *testing.T, holds ...*revocable.Hold) {
	t.Helper()
	for _, hold := range holds {
		testbed.Receive(t, hold.Revoked(), "the request")
	}
}

// askAll asks all holders of a lock, which are n.
func askAll(t *testing.T, p revocable.Participants, n int, opts ...revocable.Option) {
	t.Helper()
	asked, err := revocable.RevokeAll(testbed.Context(t), p, opts...)
	require.NoError(t, err)
	require.Equal(t, n, asked)
}

// ask asks the holder of a node.
func ask(t *testing.T, client *framework.Client, path string, opts ...revocable.Option) {
	t.Helper()
	require.NoError(t, revocable.Revoke(testbed.Context(t), client, path, opts...))
}

// consent releases a hold as soon as its holder is asked.
func consent(hold *revocable.Hold) <-chan error {
	return testbed.Go(func() error {
		<-hold.Revoked()
		return hold.Release()
	})
}

func notAsked(t *testing.T, holds ...*revocable.Hold) {
	t.Helper()
	for _, hold := range holds {
		select {
		case <-hold.Revoked():
			require.Fail(t, "asked")
		default:
		}
	}
}

// settle gives a message that should not come the time to do so: the node's events travel
// ahead of the later answers of the same session.
func settle(t *testing.T, client *framework.Client, hold *revocable.Hold) {
	t.Helper()
	for range 3 {
		testbed.Get(t, client, hold.Path())
	}
}

func queued(t *testing.T, p revocable.Participants, n int) {
	t.Helper()
	testbed.Eventually(t, func() bool {
		ps, err := p.Participants(testbed.Context(t))
		return err == nil && len(ps) == n
	}, "the queue has the expected length")
}

// acquiring begins an Acquire and returns when the queue has n nodes.
func acquiring(t *testing.T, l *revocable.Lock, p revocable.Participants, n int) <-chan *revocable.Hold {
	t.Helper()
	ctx := testbed.Context(t)
	done := testbed.Go(func() *revocable.Hold {
		hold, err := l.Acquire(ctx)
		assert.NoError(t, err)
		return hold
	})
	queued(t, p, n)
	return done
}

func handsOver(t *testing.T, bed *testbed.Bed) {
	path := testbed.Path(t)
	hold := acquire(t, newLock(newMutex(bed.Client(t), path)))
	released := consent(hold)

	client := bed.Client(t)
	other := newMutex(client, path)
	testbed.CatchUp(t, client)
	ps := testbed.Must(other.Participants(testbed.Context(t)))
	require.Len(t, ps, 1)
	ask(t, client, ps[0].Path)
	next := testbed.Acquire(t, other)
	require.NoError(t, testbed.Receive(t, released, "the release"))
	require.ErrorIs(t, hold.Err(), lock.ErrReleased)
	require.NoError(t, next.Release())
}

func oneIsAsked(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	path := testbed.Path(t)
	a := acquire(t, newLock(newMutex(client, path+"-a")))
	b := acquire(t, newLock(newMutex(client, path+"-b")))
	ask(t, client, b.Path())
	asked(t, b)
	settle(t, client, a)
	notAsked(t, a)
	require.NoError(t, b.Release())
	ask(t, client, a.Path())
	asked(t, a)
	require.NoError(t, a.Release())
}

func messages(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	l := newLock(newMutex(client, testbed.Path(t)))
	for _, message := range []string{"__REVOKE__", "unlock"} {
		hold := acquire(t, l)
		for _, other := range []string{"", "UNLOCK", "unlock\n", "__REVOKE__ ", "hello"} {
			testbed.Set(t, client, hold.Path(), []byte(other))
			settle(t, client, hold)
			notAsked(t, hold)
		}
		testbed.Set(t, client, hold.Path(), []byte(message))
		asked(t, hold)
		require.NoError(t, hold.Release())
	}
	hold := acquire(t, l)
	ask(t, client, hold.Path())
	require.Equal(t, "__REVOKE__", testbed.Get(t, client, hold.Path()), "Curator's")
	require.NoError(t, hold.Release())
}

func nothingTaken(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	hold := acquire(t, newLock(newMutex(client, testbed.Path(t))))
	ask(t, client, hold.Path())
	asked(t, hold)
	require.NoError(t, revocable.Revoke(ctx, client, hold.Path()), "again")
	settle(t, client, hold)
	require.NoError(t, hold.Err())
	require.NoError(t, testbed.Err(hold.FencingToken(ctx)))
	require.NoError(t, hold.Release())
}

func reentered(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	l := newLock(newMutex(client, testbed.Path(t), lock.WithReentry()))
	outer := acquire(t, l)
	inner := testbed.Must(l.Acquire(outer.Context()))
	require.Equal(t, outer.Path(), inner.Path())
	ask(t, client, outer.Path())
	asked(t, outer, inner)
	late := testbed.Must(l.TryAcquire(inner.Context()))
	asked(t, late)
	require.NoError(t, outer.Release())
	require.NoError(t, inner.Release())
	require.NoError(t, late.Release())
}

func messageBeforeWatch(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	hold := testbed.Acquire(t, newMutex(client, testbed.Path(t)))
	ask(t, client, hold.Path())
	h := testbed.Must(revocable.Watch(hold))
	asked(t, h)
	require.NoError(t, hold.Release(), "it is all the same")
	require.ErrorIs(t, h.Release(), lock.ErrReleased)
}

func waiterIsAsked(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	m := newMutex(client, testbed.Path(t))
	l := newLock(m)
	hold := acquire(t, l)
	waiting := acquiring(t, l, m, 2)
	ps := testbed.Must(m.Participants(testbed.Context(t)))
	require.Len(t, ps, 2)
	for _, p := range ps {
		ask(t, client, p.Path)
	}
	asked(t, hold)
	require.NoError(t, hold.Release())
	next := testbed.Receive(t, waiting, "the lock")
	asked(t, next)
	require.NoError(t, next.Release())
}

func ownDataAreNoMessage(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	hold := acquire(t, newLock(newMutex(client, testbed.Path(t), lock.WithData([]byte("unlock")))))
	settle(t, client, hold)
	notAsked(t, hold)
	testbed.Set(t, client, hold.Path(), []byte("unlock"))
	asked(t, hold)
	require.NoError(t, hold.Release())
}

func force(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	m := newMutex(bed.Client(t), testbed.Path(t))
	l := newLock(m)
	hold := acquire(t, l)
	ask(t, client, hold.Path())
	asked(t, hold) // or the cause would be another, if the holder reads the message late
	began := time.Now()
	ask(t, client, hold.Path(), revocable.WithForce(100*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
	testbed.Receive(t, hold.Done(), "the end of the hold")
	require.ErrorIs(t, hold.Err(), revocable.ErrRevoked)
	require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
	require.ErrorIs(t, hold.Release(), revocable.ErrRevoked)
	queued(t, m, 0)

	// Released before the hold's own watch has noticed.
	for range 5 {
		hold = acquire(t, l)
		ask(t, client, hold.Path())
		asked(t, hold)
		ask(t, client, hold.Path(), revocable.WithForce(0))
		require.ErrorIs(t, hold.Release(), revocable.ErrRevoked)
	}
}

// TestOneCallAsksAndForces has the holder be asked, and go on for all of the time that it has.
func TestOneCallAsksAndForces(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := acquire(t, newLock(newMutex(w.Client(), "/lock")))
		client := w.Client()
		began := time.Now()
		ask(t, client, hold.Path(), revocable.WithForce(time.Second))
		require.Equal(t, time.Second, time.Since(began))
		asked(t, hold)
		testbed.Receive(t, hold.Done(), "the end of the hold")
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, hold.Err(), revocable.ErrRevoked)
		require.ErrorIs(t, hold.Release(), revocable.ErrRevoked)
	})
}

func forceAndConsent(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	m := newMutex(bed.Client(t), testbed.Path(t))
	released := consent(acquire(t, newLock(m)))
	// The grace is longer than the test may take.
	askAll(t, m, 1, revocable.WithForce(time.Hour))
	require.NoError(t, testbed.Receive(t, released, "the release"))
	queued(t, m, 0)

	hold := acquire(t, newLock(m))
	impatient, cancel := context.WithCancelCause(testbed.Context(t))
	done := testbed.Go(func() error { return revocable.Revoke(impatient, client, hold.Path(), revocable.WithForce(time.Hour)) })
	asked(t, hold)
	cancel(assert.AnError)
	err := testbed.Receive(t, done, "the end of the call")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, assert.AnError)
	require.NoError(t, hold.Release(), "no grace period, no deletion")
}

func forceOnWaiter(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	client := bed.Client(t)
	m := newMutex(client, testbed.Path(t))
	l := newLock(m)
	hold := acquire(t, l)
	struck := acquiring(t, l, m, 2)
	behind := acquiring(t, l, m, 3)
	ps := testbed.Must(m.Participants(ctx))
	ask(t, client, ps[1].Path, revocable.WithForce(0))
	testbed.Eventually(t, func() bool { // the one that was struck queues again, behind the others
		now, err := m.Participants(ctx)
		return err == nil && len(now) == 3 && now[0].Path == ps[0].Path && now[1].Path == ps[2].Path
	}, "the node has gone")
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
	second := testbed.Receive(t, behind, "the lock")
	queued(t, m, 2)
	require.NoError(t, second.Release())
	last := testbed.Receive(t, struck, "the lock")
	require.NotEqual(t, ps[1].Path, last.Path())
	settle(t, client, last)
	notAsked(t, last)
	require.NoError(t, last.Release())
}

func deletedUnasked(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	hold := acquire(t, newLock(newMutex(client, testbed.Path(t))))
	require.NoError(t, client.Delete(testbed.Context(t), hold.Path()))
	testbed.Receive(t, hold.Done(), "the end of the hold")
	require.ErrorIs(t, hold.Err(), lock.ErrNodeDeleted)
	require.NotErrorIs(t, hold.Err(), revocable.ErrRevoked)
	notAsked(t, hold)
	require.Error(t, hold.Release())
}

func readersAndWriters(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	rw := testbed.Must(rwlock.New(bed.Client(t), testbed.Path(t), lock.WithReentry()))
	reading, writing := newLock(rw.Read()), newLock(rw.Write())
	a, b := acquire(t, reading), acquire(t, reading)
	askAll(t, rw.Write(), 0) // there is no writer
	askAll(t, rw, 2)
	asked(t, a, b)
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())

	w := acquire(t, writing)
	r := testbed.Must(reading.Acquire(w.Context()))
	ask(t, client, w.Path())
	asked(t, w)
	require.NoError(t, w.Release())
	notAsked(t, r)
	ask(t, client, r.Path())
	asked(t, r)
	ask(t, client, r.Path(), revocable.WithForce(0))
	testbed.Receive(t, r.Done(), "the end of the hold")
	require.ErrorIs(t, r.Err(), revocable.ErrRevoked)
	require.Error(t, r.Release())
}

func writersWay(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	rw := testbed.Must(rwlock.New(bed.Client(t), testbed.Path(t)))
	reading, writing := newLock(rw.Read()), newLock(rw.Write())
	a, b := acquire(t, reading), acquire(t, reading)
	first := acquiring(t, writing, rw, 3)
	behind := acquiring(t, reading, rw, 4)
	ps := testbed.Must(rw.Participants(testbed.Context(t)))

	for _, ahead := range ps[:2] {
		ask(t, client, ahead.Path)
	}
	asked(t, a, b)
	require.NoError(t, a.Release())
	askAll(t, rw, 1, revocable.WithForce(0))
	w := testbed.Receive(t, first, "the write lock")
	notAsked(t, w)
	require.ErrorIs(t, b.Release(), revocable.ErrRevoked)
	require.NoError(t, w.Release())
	r := testbed.Receive(t, behind, "the read lock")
	settle(t, client, r)
	notAsked(t, r)
	require.NoError(t, r.Release())

	askAll(t, rw, 0) // there is no holder
}

func goneNode(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	hold := acquire(t, newLock(newMutex(client, testbed.Path(t))))
	require.NoError(t, hold.Release())
	for _, opts := range [][]revocable.Option{nil, {revocable.WithForce(time.Hour)}} {
		err := revocable.Revoke(testbed.Context(t), client, hold.Path(), opts...)
		require.ErrorIs(t, err, zk.ErrNoNode)
		testbed.OneOp(t, err, "revoke", hold.Path())
	}
}

func lockPathRefused(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	m := newMutex(client, testbed.Path(t))
	hold := acquire(t, newLock(m))
	before := testbed.Get(t, client, m.Path())
	require.ErrorIs(t, revocable.Revoke(testbed.Context(t), client, m.Path(), revocable.WithForce(0)), framework.ErrBadArgument)
	require.Equal(t, before, testbed.Get(t, client, m.Path()))
	require.NoError(t, hold.Release())
}

func do(t *testing.T, bed *testbed.Bed) {
	ctx := testbed.Context(t)
	m := newMutex(bed.Client(t), testbed.Path(t), lock.WithReentry())
	l := newLock(m)
	err := l.Do(ctx, func(ctx context.Context, revoked <-chan struct{}) error {
		askAll(t, m, 1)
		testbed.Receive(t, revoked, "the request")
		require.NoError(t, ctx.Err(), "there may be something to finish")
		inner, err := l.Acquire(ctx)
		require.NoError(t, err, "re-enters")
		require.NoError(t, inner.Release())
		return assert.AnError
	})
	require.ErrorIs(t, err, assert.AnError)
	queued(t, m, 0)
}

func sessionLost(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	l := newLock(newMutex(client, testbed.Path(t)))
	hold := acquire(t, l)
	bed.ExpireSession(t, client)
	testbed.Receive(t, hold.Done(), "the end of the hold")
	require.Error(t, hold.Release())
	next := acquire(t, l)
	ask(t, client, next.Path())
	asked(t, next)
	notAsked(t, hold)
	require.NoError(t, next.Release())
}

func inNamespace(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t, framework.WithNamespace("billing"))
	hold := acquire(t, newLock(newMutex(client, testbed.Path(t))))
	root := testbed.Namespace(t, client, "")
	require.ErrorIs(t, revocable.Revoke(testbed.Context(t), root, hold.Path()), zk.ErrNoNode)
	ask(t, root, "/billing"+hold.Path())
	asked(t, hold)
	require.NoError(t, hold.Release())
}

func TestAMessageBetweenCreateAndFirstWatchIsSeen(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	m := newMutex(bed.Client(t), "/lock")
	gate := server.Block(zktest.OnOp("getData"), zktest.On(func(r zktest.Request) bool { return r.Watch }))
	hold := acquire(t, newLock(m))
	testbed.Receive(t, gate.Arrived(), "the first look")
	ask(t, bed.Client(t), hold.Path())
	notAsked(t, hold)
	gate.Open()
	asked(t, hold)
	require.NoError(t, hold.Release())
}

func TestAskedWhileTheHolderIsDisconnected(t *testing.T) {
	server := zktest.NewServer(t)
	bed := testbed.On(server)
	asker := bed.Client(t)
	hold := acquire(t, newLock(newMutex(bed.Client(t), "/lock", lock.WithErrorPolicy(connstate.LostEndsHold))))
	testbed.Eventually(t, func() bool { return server.WatchCount() > 0 }, "the holder watches")
	// Its new connection is not set up before the message is written.
	gate := server.Block(zktest.OnSession(hold.Session().ID()))
	server.CutConnections()
	ask(t, asker, hold.Path())
	notAsked(t, hold)
	gate.Open()
	asked(t, hold)
	require.NoError(t, hold.Release())
}

func TestBadArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	server := zktest.NewServer(t)
	client := testbed.On(server).Client(t)
	m := newMutex(client, "/lock")
	server.ResetCounts()
	assert.ErrorIs(t, testbed.Err(revocable.New(nil)), framework.ErrBadArgument)
	assert.ErrorIs(t, testbed.Err(revocable.Watch(nil)), framework.ErrBadArgument)
	ctx := testbed.Context(t)
	for _, path := range []string{"", "a/b", "/a/", "/a//b", "/a/../b", "/a\x00"} {
		err := revocable.Revoke(ctx, client, path)
		assert.ErrorIs(t, err, framework.ErrBadPath, "%q", path)
		testbed.OneOp(t, err, "revoke", path)
	}
	assert.ErrorIs(t, revocable.Revoke(ctx, nil, "/a"), framework.ErrBadArgument)
	assert.ErrorIs(t, testbed.Err(revocable.RevokeAll(ctx, nil)), framework.ErrBadArgument)
	for name, opt := range map[string]revocable.Option{
		"nil": nil, "negative grace": revocable.WithForce(-1),
	} {
		assert.ErrorIs(t, revocable.Revoke(ctx, client, "/a", opt), framework.ErrBadArgument, name)
		assert.ErrorIs(t, testbed.Err(revocable.RevokeAll(ctx, m, opt)), framework.ErrBadArgument, name)
	}
	for op, n := range server.Requests().Requests {
		assert.True(t, op == "ping" || n == 0, "%v was sent", op)
	}
}

// TestHolderIsAskedAfterAServerThatRefusesCredentials has the connection end while somebody holds,
// and the next server refuse our credentials for a while. The hold goes on, and its holder can
// reach a server again.
func TestHolderIsAskedAfterAServerThatRefusesCredentials(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		refuses := testbed.RefuseCredentials(w.Server)
		client := w.Client(framework.WithErrorPolicy(connstate.LostEndsHold), framework.WithAuth("digest", []byte("user:password")))
		hold := acquire(t, newLock(newMutex(client, "/lock")))
		synctest.Wait()
		refuses.Store(true)
		w.Server.CutConnections()
		require.Eventually(t, func() bool { return errors.Is(client.WaitConnected(t.Context()), zk.ErrAuthFailed) }, time.Second, time.Millisecond)
		time.Sleep(time.Second) // virtual time, in which its watch must not give up
		refuses.Store(false)
		require.Eventually(t, func() bool { return client.WaitConnected(t.Context()) == nil }, 3*time.Second, time.Millisecond)
		ask(t, client, hold.Path())
		asked(t, hold)
		require.NoError(t, hold.Release())
	})
}

// TestHolderDoesNotHurryABusyServer that refuses to read its node, also if the client is not to
// repeat any request.
func TestHolderDoesNotHurryABusyServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		client := w.Client(framework.WithRetryPolicy(retry.Never()))
		idle := testbed.Busy(w.Server)
		hold := acquire(t, newLock(newMutex(client, "/lock")))
		time.Sleep(time.Second) // virtual time: what is counted is the requests of a second
		require.LessOrEqual(t, w.Server.Requests().Requests["getData"], 25, "two watches")
		idle()
		ask(t, client, hold.Path())
		asked(t, hold)
		require.NoError(t, hold.Release())
	})
}

// TestForceDoesNotHurryABusyServer that refuses to read the holder's node during the grace.
func TestForceDoesNotHurryABusyServer(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := testbed.Acquire(t, newMutex(w.Client(), "/lock"))
		client := w.Client(framework.WithRetryPolicy(retry.Never()))
		idle := testbed.Busy(w.Server)
		ask(t, client, hold.Path(), revocable.WithForce(time.Second))
		require.LessOrEqual(t, w.Server.Requests().Requests["getData"], 100, "during the grace, and by the holder")
		idle()
		testbed.Receive(t, hold.Done(), "the end of the hold")
	})
}

// TestForceSurvivesAServerThatRefusesCredentials during the grace.
func TestForceSurvivesAServerThatRefusesCredentials(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		hold := testbed.Acquire(t, newMutex(w.Client(framework.WithErrorPolicy(connstate.LostEndsHold)), "/lock"))
		refuses := testbed.RefuseCredentials(w.Server)
		client := w.Client(framework.WithAuth("digest", []byte("user:password")))
		done := testbed.Go(func() error {
			return revocable.Revoke(t.Context(), client, hold.Path(), revocable.WithForce(10*time.Second))
		})
		synctest.Wait()
		refuses.Store(true)
		w.Server.CutConnections()
		time.Sleep(5 * time.Second) // virtual time: the refusal lasts that long
		refuses.Store(false)
		require.NoError(t, testbed.Receive(t, done, "the end"))
		testbed.Receive(t, hold.Done(), "the end of the hold")
	})
}

// watched makes each hold of a group revocable.
func watched(t *testing.T, group *lock.Group) (holds []*revocable.Hold) {
	t.Helper()
	for _, h := range group.Holds() {
		holds = append(holds, testbed.Must(revocable.Watch(h)))
	}
	return holds
}

func groupOfLocks(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	path := testbed.Path(t)
	a, b := newMutex(client, path+"-a"), newMutex(client, path+"-b")
	group := testbed.Acquire(t, testbed.Must(multilock.New(a, b)))
	holds := watched(t, group)

	askAll(t, b, 1)
	asked(t, holds[1])
	settle(t, client, holds[0])
	notAsked(t, holds[0])
	require.NoError(t, group.Err(), "asking takes nothing away")
	require.NoError(t, group.Release())
	require.ErrorIs(t, holds[0].Err(), lock.ErrReleased)
}

func leases(t *testing.T, bed *testbed.Bed) {
	client := bed.Client(t)
	s := testbed.Must(semaphore.New(client, testbed.Path(t), 3))
	one := acquire(t, newLock(s))
	two := testbed.Must(s.AcquireN(testbed.Context(t), 2))
	testbed.CatchUp(t, client)

	askAll(t, s, 3)
	asked(t, append(watched(t, two), one)...)
	require.NoError(t, two.Release())
	require.NoError(t, one.Release())
}
