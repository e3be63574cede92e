package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// fuse panics once it is armed, at the nth call from then on.
type fuse struct{ left atomic.Int32 }

func (f *fuse) arm(n int32) { f.left.Store(n) }

func (f *fuse) burn() {
	if f.left.Add(-1) == 0 {
		panic("a function of the user")
	}
}

// recovered calls f as a server does that recovers from panics.
func recovered(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// fragileDriver burns a fuse in each of its functions.
type fragileDriver struct {
	lock.Standard
	before, after, decide, key fuse
}

func (d *fragileDriver) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	d.before.burn()
	defer d.after.burn()
	return d.Standard.Create(ctx, client, n)
}

func (d *fragileDriver) Decide(l lock.Line) (lock.Decision, error) {
	d.decide.burn()
	return d.Standard.Decide(l)
}

func (d *fragileDriver) SortKey(child, name string) (string, bool) {
	d.key.burn()
	return d.Standard.SortKey(child, name)
}

// TestPanicOfAUsersFunction_LeavesNothing has each function of a user panic once, at each of its
// first calls, in an Acquire whose caller recovers. The lock is free afterwards: for the same
// Queue, whose other goroutines may wait in memory, and for other clients.
func TestPanicOfAUsersFunction_LeavesNothing(t *testing.T) {
	driver, provider, policy := &fragileDriver{}, &fuse{}, &fuse{}
	acquiring, acquired, joined, ended := &fuse{}, &fuse{}, &fuse{}, &fuse{}
	options := []framework.Option{
		framework.WithACLProvider(func(string) []zk.ACL { provider.burn(); return zk.WorldACL(zk.PermAll) }),
		framework.WithRetryPolicy(fragilePolicy(policy)),
		lock.WithObserver(lock.Observer{
			Acquiring: func(ctx context.Context, _ lock.AcquiringEvent) context.Context { acquiring.burn(); return ctx },
			Joined:    func(context.Context, lock.JoinedEvent) { joined.burn() },
			Acquired:  func(ctx context.Context, _ lock.AcquiredEvent) context.Context { acquired.burn(); return ctx },
			Ended:     func(context.Context, lock.EndedEvent) { ended.burn() },
		}),
	}
	for name, c := range map[string]struct {
		fuse *fuse
		own  bool // of the driver, with which there is no retention
	}{
		"before Create": {&driver.before, true}, "after Create": {&driver.after, true}, "Decide": {&driver.decide, true}, "SortKey": {&driver.key, true},
		"ACL provider": {provider, false}, "retry policy": {policy, false},
		"Acquiring": {acquiring, false}, "Joined": {joined, false}, "Acquired": {acquired, false}, "Ended": {ended, false},
	} {
		for _, retention := range []bool{false, true} {
			if c.own && retention {
				continue
			}
			testbed.RunWorld(t, name+map[bool]string{true: " with retention"}[retention], func(t *testing.T, w *testbed.World) {
				q := driven(w.Client(options...), driver)
				if retention {
					q = newQueue(t, w.Client(options...), "/lock", lock.WithRetention(time.Second))
				}
				other := newQueue(t, w.Client(), "/lock")
				require.NoError(t, acquire(t, other).Release())
				for n := int32(1); ; n++ {
					time.Sleep(2 * time.Second) // virtual time: no node is kept
					w.Server.Inject(zktest.LoseReply, 0, zktest.OnCreate(), zktest.OnPath("/lock/"))
					c.fuse.arm(n)
					p := recovered(func() {
						hold := acquireIn(t, t.Context(), q)
						defer func() { require.Error(t, hold.Err()) }()
						require.NoError(t, hold.Release())
					})
					c.fuse.arm(0)
					require.NoError(t, acquire(t, other).Release(), "another client")
					require.NoError(t, acquire(t, q).Release(), "the same Queue")
					if p == nil {
						require.Greater(t, n, int32(1), "the function was never called")
						return
					}
				}
			})
		}
	}
}

// hesitantDriver creates its node and then fails, once.
type hesitantDriver struct {
	lock.Standard
	failed atomic.Bool
}

var errHesitant = errors.New("hesitant")

func (d *hesitantDriver) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	path, err := d.Standard.Create(ctx, client, n)
	if err == nil && d.failed.CompareAndSwap(false, true) {
		return "", errHesitant
	}
	return path, err
}

// TestCreate_FailsAfterItsNode: the node of a driver that fails after its create is deleted.
func TestCreate_FailsAfterItsNode(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		q := driven(w.Client(), new(hesitantDriver))
		require.ErrorIs(t, testbed.Err(q.Acquire(t.Context())), errHesitant)
		require.NoError(t, acquire(t, newQueue(t, w.Client(), "/lock")).Release())
		require.NoError(t, acquire(t, q).Release())
	})
}

// fragilePolicy burns a fuse before each pause.
func fragilePolicy(f *fuse) retry.Policy {
	return func() retry.BackOff { return fragilePauses{f, retry.NTimes(5, 10*time.Millisecond)()} }
}

type fragilePauses struct {
	fuse *fuse
	retry.BackOff
}

func (p fragilePauses) NextBackOff() time.Duration {
	p.fuse.burn()
	return p.BackOff.NextBackOff()
}
