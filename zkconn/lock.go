package zkconn

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
)

// lockName is the name of go-zookeeper's lock nodes, and of Curator's.
const lockName = "lock-"

// Lock is a mutual exclusion lock, among all programs with go-zookeeper, Curator or kazoo that use
// the same path. All methods are safe for concurrent use.
type Lock struct {
	conn *Conn
	path string
	acl  []ACL

	mu   sync.Mutex // guards what follows
	hold *lock.Hold // nil if the lock is not held
}

// NewLock returns a lock at path. Its nodes are created with acl. Missing parents are created as
// persistent nodes with the same ACL.
func NewLock(c *Conn, path string, acl []ACL) *Lock { return &Lock{conn: c, path: path, acl: acl} }

// Lock blocks until it has acquired the lock. Without a connection it waits as long as the
// framework's default retry policy allows. If it fails, its node is deleted.
//
// Errors are
//   - [ErrDeadlock] if this Lock is held, or was lost and not unlocked since;
//   - [ErrInvalidACL] if the ACL of the Lock is empty, or the server refuses it;
//   - [ErrInvalidPath] if the path of the Lock is invalid;
//   - [ErrNoAuth] if the client is not permitted to create or to read nodes of the lock;
//   - [ErrNoServer] if no server was reached by any retry;
//   - [ErrConnectionClosed] if the Conn was closed, or the connection was lost in every retry;
//   - [ErrSessionExpired] if the session expired and the retry policy allows no more tries, or if
//     the servers are too slow to confirm a session;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved], or an error of package lock.
func (l *Lock) Lock() error { return l.LockWithData([]byte{}) }

// LockWithData blocks until it has acquired the lock, and stores data in the lock's node. Without a
// connection it waits as long as the framework's default retry policy allows. If it fails, its node
// is deleted.
//
// Errors are
//   - [ErrDeadlock] if this Lock is held, or was lost and not unlocked since;
//   - [ErrInvalidACL] if the ACL of the Lock is empty, or the server refuses it;
//   - [ErrInvalidPath] if the path of the Lock is invalid;
//   - [ErrNoAuth] if the client is not permitted to create or to read nodes of the lock;
//   - [ErrShortBuffer] if the data are too long for a request;
//   - [ErrNoServer] if no server was reached by any retry;
//   - [ErrConnectionClosed] if the Conn was closed, or the connection was lost in every retry;
//   - [ErrSessionExpired] if the session expired and the retry policy allows no more tries, or if
//     the servers are too slow to confirm a session;
//   - [ErrAuthFailed] if the server refuses the credentials of the Conn;
//   - another of the server's errors, such as [ErrSessionMoved], or an error of package lock.
func (l *Lock) LockWithData(data []byte) error {
	if l.Hold() != nil {
		return zk.ErrDeadlock
	}
	if len(l.acl) == 0 {
		return zk.ErrInvalidACL
	}
	queue, err := lock.New(l.conn.client, l.path, lockName, &lockDriver{acl: l.acl},
		lock.WithData(data), lock.WithErrorPolicy(connstate.LostEndsHold))
	if err != nil {
		return unwrapped(err)
	}
	hold, err := queue.Acquire(context.Background()) // returns when the Conn is closed
	if err != nil {
		return unwrapped(err)
	}
	l.mu.Lock()
	mine := l.hold == nil
	if mine {
		l.hold = hold
	}
	l.mu.Unlock()
	if !mine {
		// A concurrent Lock held it, lost it and has to be unlocked first. Its Unlock must not
		// release this hold.
		_ = hold.Release() // releases in any case
		return zk.ErrDeadlock
	}
	return nil
}

// Unlock releases the lock. After an error that is not listed here this Lock still holds the lock,
// and Unlock can be called again.
//
// Errors are
//   - [ErrNotLocked] if this Lock is not held;
//   - [ErrSessionExpired] if the session has expired;
//   - [ErrNoNode] if another client has deleted the lock's node;
//   - [ErrConnectionClosed] if the Conn was closed, which deletes the node.
func (l *Lock) Unlock() error {
	l.mu.Lock()
	hold := l.hold
	l.hold = nil // before another client can acquire it
	l.mu.Unlock()
	if hold == nil {
		return zk.ErrNotLocked
	}
	err := hold.Release()
	if errors.Is(err, lock.ErrNodeDeleted) {
		err = zk.ErrNoNode
	}
	switch err = unwrapped(err); err {
	case nil, zk.ErrNoNode, zk.ErrSessionExpired, zk.ErrConnectionClosed:
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold == nil {
		l.hold = hold
	}
	return err
}

// Hold returns the current hold, or nil. Its context is cancelled when the lock may be lost.
func (l *Lock) Hold() *lock.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hold
}

// lockDriver creates nodes as go-zookeeper's lock does, and recognises the same nodes.
type lockDriver struct {
	lock.Standard
	acl []ACL
}

// Create creates a node, and its parents with the same ACL.
func (d *lockDriver) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	for first := true; ; first = false {
		created, err := client.Create(ctx, framework.Join(n.Base, n.Name), n.Data,
			framework.As(framework.EphemeralSequential), framework.Protected(), framework.ACL(d.acl))
		if !first || !errors.Is(err, zk.ErrNoNode) {
			return created, err
		}
		if err := d.parents(ctx, client, n.Base); err != nil {
			return "", err
		}
	}
}

// parents creates missing parents. It looks first, because the caller may lack the right to create
// nodes beside existing parents.
func (d *lockDriver) parents(ctx context.Context, client *framework.Client, base string) error {
	for i := 1; i <= len(base); i++ {
		if i < len(base) && base[i] != '/' {
			continue
		}
		path := base[:i]
		found, _, err := client.Exists(ctx, path)
		if err != nil {
			return err
		}
		if found {
			continue
		}
		if _, err := client.Create(ctx, path, []byte{}, framework.ACL(d.acl)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// SortKey returns the number in a lock node's name. Names of kazoo's lock contain "__lock__" before
// the number.
func (d *lockDriver) SortKey(child, name string) (key string, ours bool) {
	if key, ours = d.Standard.SortKey(child, name); ours || strings.Contains(child, name) {
		return key, ours
	}
	return d.Standard.SortKey(child, "__")
}
