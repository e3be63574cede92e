package revocable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock"
)

// Participants is a lock that can list holders and waiters: a mutex.Mutex, an rwlock.Lock or one
// side of it, a semaphore.Semaphore or a lock.Queue.
type Participants interface {
	Participants(ctx context.Context) ([]lock.Participant, error)
}

// Option configures a revocation.
type Option func(*request) error

// request is a revocation.
type request struct {
	force bool
	grace time.Duration
}

// WithForce deletes the nodes that still exist when grace has passed after the message. The call
// then returns when all are deleted. A waiter whose node is deleted joins the queue again, at its
// end.
//
// grace must not be negative. If it is very short, the holder may notice only the deletion: see
// [ErrRevoked].
func WithForce(grace time.Duration) Option {
	return opt.Checked(grace >= 0, func(r *request) { r.force, r.grace = true, grace }, "grace %v, must not be negative", grace)
}

// Revoke asks the holder of a node to release. nodePath is the Path of a [lock.Hold] or a
// [lock.Participant]. Revoke returns when the message is written, and does not wait for a release.
//
// Errors are
//   - zk.ErrNoNode if the node does not exist;
//   - [framework.ErrBadPath] if nodePath is invalid;
//   - [framework.ErrBadArgument] if client is nil, an option is invalid, the node is not a lock's,
//     or the client is a view of nil or of another client's session;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrNotCompressed] with [WithForce] if a client [framework.WithCompression] cannot
//     decompress the node's data;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to write the node.
//
// If Revoke fails with WithForce, the message may have been written.
func Revoke(ctx context.Context, client *framework.Client, nodePath string, opts ...Option) error {
	var r request
	err := opt.Apply(&r, opts)
	if err == nil {
		err = r.ask(ctx, client, nodePath)
	}
	if err == nil {
		patient, cancel := context.WithTimeout(ctx, r.grace)
		defer cancel()
		err = r.insist(ctx, patient, client, nodePath)
	}
	return opError(nodePath, err)
}

func opError(path string, err error) error { return operr.New("revoke", path, err) }

// RevokeAll asks all holders of a lock to release, and returns how many it asked. If one cannot be
// asked, it asks the others, and joins the errors. A holder that releases at the same time is not
// an error, and neither is a free lock.
//
// Waiters are not asked: call [Revoke] for each of the lock's Participants.
//
// Errors are
//   - [framework.ErrBadArgument] if l is nil, an option is invalid, or the client is a view of nil
//     or of another client's session;
//   - the error of ctx if ctx is done first;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [lock.ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress a
//     node's data;
//   - shared.ErrBadValue if l is a semaphore whose shared maximum is negative or cannot be decoded;
//   - the error of a custom [Participants] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to read or write a
//     node.
func RevokeAll(ctx context.Context, l Participants, opts ...Option) (int, error) {
	var r request
	err := opt.Apply(&r, opts)
	if err == nil && l == nil {
		err = fmt.Errorf("%w: nil lock", framework.ErrBadArgument)
	}
	if err != nil {
		return 0, opError("", err)
	}
	all, err := l.Participants(ctx)
	if err != nil {
		return 0, err
	}
	var asked []lock.Participant
	var failed []error
	note := func(p lock.Participant, err error) {
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // it has released
			failed = append(failed, opError(p.Path, err))
		}
	}
	for _, p := range all {
		if !p.Holds {
			continue
		}
		err := r.ask(ctx, inside.ClientOf(p), p.Path)
		if err == nil {
			asked = append(asked, p)
		}
		note(p, err)
	}
	patient, cancel := context.WithTimeout(ctx, r.grace)
	defer cancel()
	for _, p := range asked {
		note(p, r.insist(ctx, patient, inside.ClientOf(p), p.Path))
	}
	return len(asked), operr.Join(failed...)
}

// ask writes the message.
func (r request) ask(ctx context.Context, client *framework.Client, path string) error {
	if client == nil {
		return fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	// The caller may know of the node from a server that is ahead of this client's. A sync is not
	// enough: the leader answers its own clients before its followers have applied the write.
	if _, err := client.Multi(ctx, &zk.CheckVersionRequest{Path: path, Version: -1}); err != nil {
		return err
	}
	found, stat, err := client.Exists(ctx, path)
	switch {
	case err != nil:
		return err
	case !found:
		return zk.ErrNoNode
	case stat.EphemeralOwner == 0:
		// Most likely the path of the lock itself, whose data must stay.
		return fmt.Errorf("%w: not the node of a lock", framework.ErrBadArgument)
	}
	_, err = client.Set(ctx, path, []byte(revokeMessage))
	return err
}

// insist deletes the node after the grace, when patient ends, if WithForce is given.
func (r request) insist(ctx, patient context.Context, client *framework.Client, path string) error {
	if !r.force {
		return nil
	}
	err := awaitGone(patient, client, path)
	switch {
	case ctx.Err() != nil:
		return wait.Err(ctx)
	case patient.Err() != nil:
		// The name contains an id, so this cannot delete a later holder's node.
		err = client.Delete(ctx, path)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// awaitGone returns when a node is deleted, or when ctx is done.
func awaitGone(ctx context.Context, client *framework.Client, path string) error {
	return client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		_, _, watch, err := in.GetW(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return watch.Done(), nil
	})
}
