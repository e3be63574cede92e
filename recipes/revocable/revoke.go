package revocable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/lock"
)

// Participants is a lock that can list holders and waiters: a mutex.Mutex, an rwlock.Lock or one side of it, a
// semaphore.Semaphore or a lock.Queue.
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

// WithForce deletes the nodes that are still there when grace has passed after the message. The call then returns when all are
// deleted. grace must not be negative. If it is very short, the holder may notice the deletion only, see [ErrRevoked].
//
// A waiter whose node is deleted queues again, at the end, when it next checks the queue. The default is no force.
func WithForce(grace time.Duration) Option {
	return opt.Checked(grace >= 0, func(r *request) { r.force, r.grace = true, grace }, "grace %v is negative", grace)
}

// Revoke asks the holder with this node to release. The path is that of [lock.Hold.Path] and of a [lock.Participant]. Revoke
// returns when the message is written; it does not wait for a release. A waiter notices when it holds, unless it waits for a
// semaphore.Semaphore, whose leases have other nodes. The message replaces the node's data.
//
// Errors are zk.ErrNoNode if the node does not exist, [framework.ErrBadPath], [framework.ErrBadArgument], also for a node that is
// not ephemeral and so not a lock's, and those of ctx and ZooKeeper. With WithForce, the message may have been written although
// there is an error.
func Revoke(ctx context.Context, client *framework.Client, nodePath string, opts ...Option) error {
	r, err := newRequest(client, opts)
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

func opError(path string, err error) error { return follow.OpError("revoke", path, err) }

// RevokeHolders asks all holders of a lock to release, and returns how many it asked. It is no error if there is none, or if one
// has released meanwhile. The paths that p lists must be paths of client. If one cannot be asked, the others are asked
// nevertheless, and the errors are joined.
func RevokeHolders(ctx context.Context, client *framework.Client, p Participants, opts ...Option) (int, error) {
	return revokeSome(ctx, client, p, opts, func(all []lock.Participant) ([]lock.Participant, error) {
		return slices.DeleteFunc(all, func(p lock.Participant) bool { return !p.Holds }), nil
	})
}

// RevokeAll asks all holders and waiters of a lock, also the caller if it is one of them: all that a new writer would wait for.
// Otherwise it is like [RevokeHolders].
//
// The Participants of an rwlock.Lock are those of both sides.
func RevokeAll(ctx context.Context, client *framework.Client, p Participants, opts ...Option) (int, error) {
	return revokeSome(ctx, client, p, opts, func(all []lock.Participant) ([]lock.Participant, error) { return all, nil })
}

// RevokeAhead asks all that are ahead of a node in the queue: all that a writer with this node waits for. If the node is not in
// the queue, the error is zk.ErrNoNode. Otherwise it is like [RevokeHolders].
func RevokeAhead(ctx context.Context, client *framework.Client, p Participants, nodePath string, opts ...Option) (int, error) {
	return revokeSome(ctx, client, p, opts, func(all []lock.Participant) ([]lock.Participant, error) {
		i := slices.IndexFunc(all, func(p lock.Participant) bool { return p.Path == nodePath })
		if i < 0 {
			return nil, opError(nodePath, zk.ErrNoNode)
		}
		return all[:i], nil
	})
}

func revokeSome(ctx context.Context, client *framework.Client, p Participants, opts []Option,
	choose func([]lock.Participant) ([]lock.Participant, error),
) (int, error) {
	r, err := newRequest(client, opts)
	if err == nil && p == nil {
		err = fmt.Errorf("%w: nil lock", framework.ErrBadArgument)
	}
	if err != nil {
		return 0, opError("", err)
	}
	all, err := p.Participants(ctx)
	if err != nil {
		return 0, err
	}
	chosen, err := choose(all)
	if err != nil {
		return 0, err
	}
	var asked []string
	var failed []error
	note := func(path string, err error) {
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // it has released
			failed = append(failed, opError(path, err))
		}
	}
	for _, p := range chosen {
		err := r.ask(ctx, client, p.Path)
		if err == nil {
			asked = append(asked, p.Path)
		}
		note(p.Path, err)
	}
	patient, cancel := context.WithTimeout(ctx, r.grace)
	defer cancel()
	for _, path := range asked {
		note(path, r.insist(ctx, patient, client, path))
	}
	return len(asked), errors.Join(failed...)
}

func newRequest(client *framework.Client, opts []Option) (request, error) {
	var r request
	if client == nil {
		return r, fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	return r, opt.Apply(&r, opts)
}

// ask writes the message.
func (r request) ask(ctx context.Context, client *framework.Client, path string) error {
	// The caller may know of the node from a server that is ahead of ours. A sync is not enough: the leader answers its own
	// clients before its followers have applied the write.
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
	_, err = client.Set(ctx, path, []byte(revokeMessage), -1)
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
		err = client.Delete(ctx, path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// awaitGone returns when a node is deleted, or when ctx is done.
func awaitGone(ctx context.Context, client *framework.Client, path string) error {
	return client.Follow(ctx, func(ctx context.Context) (<-chan struct{}, error) {
		_, _, watch, err := client.GetW(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return watch.Done(), nil
	})
}
