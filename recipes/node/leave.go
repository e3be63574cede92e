package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/retry"
)

// leave deletes the node. The error is what the server refuses.
func (k *keeper) leave() error {
	k.release()
	if k.cfg.ttl > 0 || k.path == "" || k.session == nil || !k.answers() {
		return nil // there is none, or it goes by itself, or with another Keep
	}
	if k.cfg.persistent {
		return k.leavePersistent()
	}
	// A session that is over takes its nodes along, whenever they were made.
	ctx := framework.InSession(k.session.Context(), k.session)
	for {
		err := k.removeOwn(ctx)
		switch {
		case err == nil, k.session.Err() != nil:
			return nil
		case errors.Is(err, errAgain):
		case !retry.Retryable(err):
			return err
		default:
			select {
			case <-time.After(k.pause.NextBackOff()):
			case <-ctx.Done():
			}
		}
	}
}

// answers reports whether it is for us to see that no node stays. If another Keep of this client has the claim, it is
// for that one.
func (k *keeper) answers() bool {
	for !k.claimed {
		held, leaving := claims.withdraw(k.key(), k.Node)
		switch {
		case held: // we were given it, with what there is
			k.claimed, k.sent = true, true
			return true
		case !k.sent && !k.kept:
			return false
		case leaving != nil:
			select {
			case <-leaving:
			case <-k.session.Done():
				return true
			}
			continue
		}
		ok, _, _, _ := claims.take(k.key(), k.Node, false)
		if k.claimed = ok; !ok {
			return false
		}
	}
	return k.sent || k.kept
}

// catchUp has what is read next show all creates and deletions of this session, and of those before it.
func (k *keeper) catchUp(ctx context.Context) error {
	err := k.client.CatchUp(ctx)
	k.unsure = k.unsure && err != nil
	return err
}

// removeOwn deletes the node if it is ours, or that of an earlier session of ours.
func (k *keeper) removeOwn(ctx context.Context) error {
	fresh := k.unsure
	if fresh {
		if err := k.catchUp(ctx); err != nil {
			return err
		}
	}
	found, stat, err := k.client.Exists(ctx, k.path)
	if err != nil || !found {
		return err
	}
	if !k.ours(stat) {
		if !k.former(stat.EphemeralOwner) {
			return nil
		}
		if !fresh { // as in round
			k.unsure = true
			return errAgain
		}
	}
	once := clientapi.WithHints(ctx, clientapi.Hints{Once: true})
	err = k.client.Delete(once, k.path, stat.Version)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrBadVersion):
		return errAgain
	case retry.Unknown(err):
		k.unsure = true // if it is gone, the next one there may be another's with the same version
	}
	return err
}

// leavePersistent deletes a node that no session takes along. If no server can be reached the client
// does it later.
func (k *keeper) leavePersistent() error {
	ctx, cancel := context.WithTimeout(context.Background(), k.session.Timeout())
	defer cancel()
	if found, stat, err := k.client.Exists(ctx, k.path); err == nil && found && !k.ours(stat) {
		return nil
	}
	_, err := k.client.DeleteGuaranteed(ctx, k.path)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
