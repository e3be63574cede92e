package zkconn_test

import (
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

// turn acquires and releases a lock.
func turn(t *testing.T, l *zkconn.Lock) {
	t.Helper()
	require.NoError(t, l.Lock())
	require.NoError(t, l.Unlock())
}

func TestOldAndNewProgramsExcludeEachOther(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		other, _ := theirs(t, b.Servers(), b.Dial)
		old := other.(*zk.Conn)
		locks := []interface {
			Lock() error
			Unlock() error
		}{
			zk.NewLock(old, "/locks/a", world), zkconn.NewLock(conn, "/locks/a", world),
			zk.NewLock(old, "/locks/a", world), zkconn.NewLock(conn, "/locks/a", world),
		}
		acquired := make(chan int, len(locks))
		for i, l := range locks {
			go func() {
				if err := l.Lock(); err != nil {
					t.Error(err)
				}
				acquired <- i
			}()
			synctest.Wait() // so that they queue in this order
		}
		for i, l := range locks {
			require.Equal(t, i, testbed.Receive(t, acquired, "the next holder"))
			synctest.Wait()
			require.Empty(t, acquired)
			require.NoError(t, l.Unlock())
		}
	})
}

func TestALockIsWrittenAsGoZookeepers(t *testing.T) {
	acl := zk.DigestACL(zk.PermAll, "user", "secret")
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		require.NoError(t, conn.AddAuth("digest", []byte("user:secret")))
		b.create(conn, "/here")
		l := zkconn.NewLock(conn, "/here/deep/löck", acl)
		require.NoError(t, l.LockWithData([]byte("me")))
		for _, path := range []string{"/here/deep", "/here/deep/löck"} {
			got, stat, err := conn.GetACL(path)
			require.NoError(t, err)
			require.Equal(t, acl, got)
			require.Zero(t, stat.EphemeralOwner)
			require.Zero(t, stat.DataLength)
		}
		children := testbed.ServerChildren(t, b.Server, "/here/deep/löck")
		require.Len(t, children, 1)
		require.Regexp(t, regexp.MustCompile(`^_c_[0-9a-f-]{36}-lock-0000000000$`), children[0])
		require.Equal(t, "me", testbed.ServerData(t, b.Server, "/here/deep/löck/"+children[0]))
		require.NoError(t, l.Unlock())
		require.True(t, b.Exists("/here/deep/löck"))
	})
}

func TestALockSaysWhatItsCallerDidWrong(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		l := zkconn.NewLock(conn, "/l", world)
		require.Equal(t, zkconn.ErrNotLocked, l.Unlock())
		require.NoError(t, l.Lock())
		require.Equal(t, zkconn.ErrDeadlock, l.Lock())
		require.NoError(t, l.Unlock())
		turn(t, l)
		require.Equal(t, zkconn.ErrInvalidPath, zkconn.NewLock(conn, "l", world).Lock())
		require.Equal(t, zkconn.ErrInvalidPath, zkconn.NewLock(conn, "/", world).Lock())
		require.Equal(t, zkconn.ErrInvalidACL, zkconn.NewLock(conn, "/l", nil).Lock())
		require.NoError(t, l.Lock())
		conn.Close()
		require.Equal(t, zkconn.ErrConnectionClosed, l.Unlock(), "the close has deleted the node")
		require.Equal(t, zkconn.ErrNotLocked, l.Unlock())
		require.Equal(t, zkconn.ErrConnectionClosed, l.Lock())
	})
}

func TestALockThatWasLostSaysSoAndCanBeAcquiredAgain(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(b *bench, conn *zkconn.Conn, hold *lock.Hold) error
		want error
	}{
		"session": {func(b *bench, conn *zkconn.Conn, _ *lock.Hold) error { return b.ExpireSession(conn.SessionID()) }, zkconn.ErrSessionExpired},
		"node":    {func(b *bench, _ *zkconn.Conn, hold *lock.Hold) error { return b.Delete(hold.Path()) }, zkconn.ErrNoNode},
	} {
		virtualRun(t, name, func(t *testing.T, b *bench) {
			conn, _ := b.connect()
			l := zkconn.NewLock(conn, "/l", world)
			require.NoError(t, l.Lock())
			hold := l.Hold()
			require.NoError(t, test.lose(b, conn, hold))
			<-hold.Done()
			require.Equal(t, test.want, l.Unlock())
			require.Nil(t, l.Hold())
			turn(t, l)
		})
	}
}

// With go-zookeeper each of these ends with an error, or with a node that stays for ever.
func TestALockIsAcquiredWhateverIsLost(t *testing.T) {
	for _, fault := range testbed.Faults {
		for n := range 3 {
			virtualRun(t, fmt.Sprint(fault, " ", n), func(t *testing.T, b *bench) {
				conn, _ := b.connect()
				b.create(conn, "/l")
				injected := b.Inject(fault, n)
				l := zkconn.NewLock(conn, "/l", world)
				require.NoError(t, l.Lock())
				if err := l.Unlock(); fault != zktest.ExpireAfter && fault != zktest.ExpireBefore {
					require.NoError(t, err)
				}
				_ = injected.Met() // an acquire may have fewer requests
				b.ClearFaults()
				other, _ := b.connect()
				turn(t, zkconn.NewLock(other, "/l", world))
			})
		}
	}
}

func TestAWaiterAndAHolderSurviveAReconnect(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, events := b.connect()
		first, second := zkconn.NewLock(conn, "/l", world), zkconn.NewLock(conn, "/l", world)
		require.NoError(t, first.Lock())
		locked := testbed.Go(second.Lock)
		synctest.Wait()
		steps(t, events, zk.StateHasSession)
		b.reconnect(events, func() {})
		require.NoError(t, first.Hold().Err())
		require.NoError(t, first.Unlock())
		require.NoError(t, <-locked)
		require.NoError(t, second.Unlock())
	})
}

func TestNodesOfOthersAreUnderstood(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		b.create(conn, "/l")
		b.create(conn, "/l/notes") // with which go-zookeeper's lock fails
		const kazoos = "/l/0123456789abcdef0123456789abcdef__lock__"
		holder := testbed.Must(conn.Create(kazoos, nil, zk.FlagEphemeralSequential, world))
		l := zkconn.NewLock(conn, "/l", world)
		locked := testbed.Go(l.Lock)
		synctest.Wait()
		require.Empty(t, locked)
		later := testbed.Must(conn.Create(kazoos, nil, zk.FlagEphemeralSequential, world))
		require.NoError(t, conn.Delete(holder, -1))
		require.NoError(t, testbed.Receive(t, locked, "the lock"))
		require.NoError(t, l.Unlock())
		require.NoError(t, conn.Delete(later, -1))
	})
}

// Two goroutines wait with one Lock, and the first that gets it loses it. Its Unlock must not
// release what the other holds.
func TestALostLockIsUnlockedBeforeItIsLockedAgain(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		other, _ := b.connect()
		before := zkconn.NewLock(other, "/l", world)
		require.NoError(t, before.Lock())
		conn, _ := b.connect()
		l := zkconn.NewLock(conn, "/l", world)
		locked := make(chan error)
		for range 2 {
			go func() { locked <- l.Lock() }()
		}
		synctest.Wait()
		require.NoError(t, before.Unlock())
		require.NoError(t, testbed.Receive(t, locked, "the first"))
		first := l.Hold()
		require.NoError(t, b.ExpireSession(conn.SessionID()))
		require.Equal(t, zkconn.ErrDeadlock, testbed.Receive(t, locked, "the second"))
		require.Same(t, first, l.Hold())
		require.Equal(t, zkconn.ErrSessionExpired, l.Unlock())
		turn(t, l) // the second has left no node
	})
}

func TestGoroutinesThatShareALockTakeTurns(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		conn, _ := b.connect()
		b.create(conn, "/l")
		other := zkconn.NewLock(conn, "/l", world)
		l := zkconn.NewLock(conn, "/l", world)
		for range 200 {
			require.NoError(t, other.Lock())
			locked := make(chan error)
			for range 2 {
				go func() { locked <- l.Lock() }()
			}
			synctest.Wait()
			require.NoError(t, other.Unlock())
			for range 2 {
				require.NoError(t, <-locked)
				require.NotNil(t, l.Hold())
				require.NoError(t, l.Unlock())
			}
		}
	})
}

func TestUnlockThatFailsCanBeRepeated(t *testing.T) {
	virtual(t, func(t *testing.T, b *bench) {
		acl := zk.DigestACL(zk.PermAll, "user", "secret")
		conn, _ := b.connect()
		require.NoError(t, conn.AddAuth("digest", []byte("user:secret")))
		l := zkconn.NewLock(conn, "/l", acl)
		require.NoError(t, l.Lock())
		hold := l.Hold()
		require.NoError(t, testbed.Err(conn.SetACL("/l", zk.WorldACL(zk.PermRead), -1)))
		require.Equal(t, zkconn.ErrNoAuth, l.Unlock())
		require.Same(t, hold, l.Hold())
		require.Equal(t, zkconn.ErrDeadlock, l.Lock())
	})
}
