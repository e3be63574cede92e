package node

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/retry"
)

// leave deletes the node, unless the client is closed. The error is what the server refuses.
func (k *keeper) leave(closed bool) error {
	reason := framework.ErrEnded
	if closed {
		reason = framework.ErrClosed
	}
	k.missing(reason)
	switch {
	case k.cfg.ttl > 0 || !k.sent || closed && !k.cfg.persistent:
		return nil // there is none, or it goes by itself, or with the session
	case closed:
		return framework.ErrClosed
	}
	// A session that is over takes its nodes along, whenever they were made. A persistent node is deleted in any session.
	ctx := framework.InSession(k.session.Context(), k.session)
	if k.cfg.persistent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), k.session.Timeout())
		defer cancel()
	}
	for {
		switch err := k.remove(ctx); {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			if k.cfg.persistent {
				k.free() // or the node would be wanted
				k.sweep(framework.InSession(context.Background(), k.session))
			}
			return nil
		case errors.Is(err, errAgain):
		case !retry.MayPass(err):
			return err
		default:
			_ = engine.Sleep(ctx, engine.Of(k.client), k.pauses.Next())
		}
	}
}

// remove deletes the node if it is ours, or that of an earlier session of ours. A create of ours that was not answered is carried out
// before the write that it begins with, or never. Nothing is deleted that came in place of our node, unless it has the same version.
func (k *keeper) remove(ctx context.Context) error {
	if err := k.client.Sync(ctx); err != nil {
		return err
	}
	found, stat, err := k.client.Exists(ctx, k.path)
	if err != nil || !found || !k.isOurs(stat) && !k.wasOurs(stat) {
		return err
	}
	// Once: if it is gone, the next one there may be another's with the same version.
	err = k.client.Delete(once(ctx), k.path, stat.Version)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return changed(err)
}

// sweep has the client delete a persistent node, which no session takes along, when nothing of the context's session can come any more;
// unless a Keep of this client has the path then.
func (k *keeper) sweep(ctx context.Context) {
	client, key := engine.Of(k.client), k.key()
	client.MayStillCome(ctx, k.path, func() bool {
		_, kept := client.Values().Load(key)
		return kept
	})
}
