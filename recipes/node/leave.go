package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

// leave deletes the node. The error is what the server refuses.
func (k *keeper) leave() error {
	k.release()
	switch {
	case k.cfg.ttl > 0, k.path == "", !k.sent && !k.kept:
		return nil // there is none, or it goes by itself
	case k.cfg.persistent:
		return k.leavePersistent()
	}
	// A session that is over takes its nodes along, whenever they were made.
	ctx := framework.InSession(k.session.Context(), k.session)
	unseen := k.unsure || k.made.number != 0
	for {
		err := k.removeOwn(ctx, unseen)
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

// removeOwn deletes the node if it is ours, or that of an earlier session of ours. unseen says that there may
// be one that we have not seen yet.
func (k *keeper) removeOwn(ctx context.Context, unseen bool) error {
	if k.unsure {
		// A write: it is carried out after all creates of the session, and what is read after it
		// shows them.
		_, err := k.client.Multi(ctx, &zk.CheckVersionRequest{Path: "/", Version: -1})
		if retry.Retryable(err) || retry.Unknown(err) {
			return err
		}
		k.unsure = false
	}
	found, stat, err := k.client.Exists(ctx, k.path)
	if err != nil || !found {
		return err
	}
	// The owner alone does not tell it from the node of another Keep of this client.
	mine := k.claimed.key.czxid == stat.Czxid || unseen && k.ours(stat)
	if !mine && !k.former[stat.EphemeralOwner] {
		return nil
	}
	err = k.client.Delete(ctx, k.path, stat.Version)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrBadVersion):
		return errAgain
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
