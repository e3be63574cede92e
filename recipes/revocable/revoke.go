package revocable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
)

// Participants is a lock that can say who holds and who waits: a mutex.Mutex, an
// rwlock.Lock or one side of it, a lock.Queue.
type Participants interface {
	Participants(ctx context.Context) ([]lock.Participant, error)
}

// RevokeOption says how a lock is asked for.
type RevokeOption func(*request) error

// request is what is asked, and how firmly.
type request struct {
	message string
	force   bool
	grace   time.Duration
}

// WithMessage sets what is written: [MessageRevoke], which is the default, or
// [MessageUnlock]. Anything else is [lock.ErrBadArgument], for nobody would understand it.
func WithMessage(message string) RevokeOption {
	return func(r *request) error {
		if !understood(message) {
			return fmt.Errorf("%w: message %q", lock.ErrBadArgument, message)
		}
		r.message = message
		return nil
	}
}

// WithForce deletes the nodes that are still there when grace has passed since they were
// asked. The call then returns when all are gone. grace must not be negative. With a very
// short one the holder may learn of the deletion only, see [ErrRevoked].
//
// A waiter whose node is deleted queues again, at the end, as soon as it looks: when the
// one ahead of it goes. The default is no force.
func WithForce(grace time.Duration) RevokeOption {
	return func(r *request) error {
		if grace < 0 {
			return fmt.Errorf("%w: grace %v is negative", lock.ErrBadArgument, grace)
		}
		r.force, r.grace = true, grace
		return nil
	}
}

// Revoke asks the holder with this node to let go. The path is that of [lock.Hold.Path] and
// of a [lock.Participant]. Revoke returns when the message is written; that says
// nothing about when the holder lets go, or if. A waiter that is asked hears of it when it
// holds. The message replaces the node's data.
//
// Errors are zk.ErrNoNode if there is no such node (any more), [lock.ErrBadPath],
// [lock.ErrBadArgument] also for a node that is not ephemeral and so no lock's, and
// those of ctx and ZooKeeper. With force, an error may come after the message was written.
func Revoke(ctx context.Context, client *framework.Client, nodePath string, opts ...RevokeOption) error {
	r, err := newRequest(client, opts)
	if err != nil {
		return err
	}
	if err = r.ask(ctx, client, nodePath); err == nil {
		err = r.insist(ctx, client, []string{nodePath})
	}
	if err != nil {
		return fmt.Errorf("revoke %s: %w", nodePath, err)
	}
	return nil
}

// RevokeHolders asks all that hold a lock, and returns how many were asked. That none is
// there, or that one has let go meanwhile, is no error. client must see the paths
// that p lists. All are asked even if one cannot be: the errors are joined.
func RevokeHolders(ctx context.Context, client *framework.Client, p Participants, opts ...RevokeOption) (int, error) {
	return revokeSome(ctx, client, p, opts, func(all []lock.Participant) ([]lock.Participant, error) {
		return slices.DeleteFunc(all, func(p lock.Participant) bool { return !p.Holds }), nil
	})
}

// RevokeAll asks all that hold a lock or wait for it, the caller too if it is among them:
// everyone who would be in the way of a writer that came now. For the rest it is
// like [RevokeHolders].
//
// The Participants of a whole rwlock.Lock are those of both sides.
func RevokeAll(ctx context.Context, client *framework.Client, p Participants, opts ...RevokeOption) (int, error) {
	return revokeSome(ctx, client, p, opts, func(all []lock.Participant) ([]lock.Participant, error) { return all, nil })
}

// RevokeAhead asks all that are ahead of a node in the queue: everyone who is in the way
// of the writer whose node that is. If it is not in the queue the error is zk.ErrNoNode. For
// the rest it is like [RevokeHolders].
func RevokeAhead(ctx context.Context, client *framework.Client, p Participants, nodePath string, opts ...RevokeOption) (int, error) {
	return revokeSome(ctx, client, p, opts, func(all []lock.Participant) ([]lock.Participant, error) {
		i := slices.IndexFunc(all, func(p lock.Participant) bool { return p.Path == nodePath })
		if i < 0 {
			return nil, fmt.Errorf("revoke ahead of %s: %w", nodePath, zk.ErrNoNode)
		}
		return all[:i], nil
	})
}

func revokeSome(ctx context.Context, client *framework.Client, p Participants, opts []RevokeOption,
	choose func([]lock.Participant) ([]lock.Participant, error),
) (int, error) {
	r, err := newRequest(client, opts)
	if err != nil {
		return 0, err
	}
	if p == nil {
		return 0, fmt.Errorf("revocable: %w: nil lock", lock.ErrBadArgument)
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
	for _, p := range chosen {
		switch err := r.ask(ctx, client, p.Path); {
		case err == nil:
			asked = append(asked, p.Path)
		case !errors.Is(err, zk.ErrNoNode):
			failed = append(failed, fmt.Errorf("revoke %s: %w", p.Path, err))
		}
	}
	if err := r.insist(ctx, client, asked); err != nil {
		failed = append(failed, fmt.Errorf("revoke: %w", err))
	}
	return len(asked), errors.Join(failed...)
}

func newRequest(client *framework.Client, opts []RevokeOption) (request, error) {
	r := request{message: MessageRevoke}
	if client == nil {
		return r, fmt.Errorf("revocable: %w: nil client", lock.ErrBadArgument)
	}
	for _, opt := range opts {
		if opt == nil {
			return r, fmt.Errorf("revocable: %w: nil option", lock.ErrBadArgument)
		}
		if err := opt(&r); err != nil {
			return r, fmt.Errorf("revocable: %w", err)
		}
	}
	return r, nil
}

// ask writes the message.
func (r request) ask(ctx context.Context, client *framework.Client, path string) error {
	// The caller may know of the node through a server that is ahead of ours. Not sync: the
	// leader answers its own clients before it has caught up with its followers.
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
		// The path of the lock itself, most likely, whose data are not ours to replace.
		return fmt.Errorf("%w: not the node of a lock", lock.ErrBadArgument)
	}
	_, err = client.Set(ctx, path, []byte(r.message), -1)
	return err
}

// insist sees to it that the nodes go, if that is wanted.
func (r request) insist(ctx context.Context, client *framework.Client, paths []string) error {
	if !r.force {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, r.grace)
	defer cancel()
	var failed []error
	for _, path := range paths {
		err := awaitGone(patient, client, path)
		switch {
		case ctx.Err() != nil:
			return ctxerr.Of(ctx)
		case patient.Err() != nil:
			// The name has an id of its own, so this cannot hit a successor.
			err = client.Delete(ctx, path, -1)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// awaitGone returns when a node is gone, or ctx done.
func awaitGone(ctx context.Context, client *framework.Client, path string) error {
	for {
		_, _, watch, err := client.GetW(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case retry.Retryable(err) && ctx.Err() == nil:
			continue
		case err != nil:
			return err
		}
		select {
		case <-watch.Done():
		case <-ctx.Done():
			return ctxerr.Of(ctx)
		}
	}
}
