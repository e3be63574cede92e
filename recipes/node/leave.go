package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/retry"
)

// leave deletes the node. The error is what the server refuses.
func (k *keeper) leave() error {
	k.release()
	if k.cfg.ttl > 0 || !k.sent {
		return nil // there is none, or it goes by itself
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
	if err := k.client.CatchUp(ctx); err != nil {
		return err
	}
	found, stat, err := k.client.Exists(ctx, k.path)
	if err != nil || !found || k.whose(stat) == taken {
		return err
	}
	// Once: if it is gone, the next one there may be another's with the same version.
	err = k.client.Delete(engine.WithHints(ctx, engine.Hints{Once: true}), k.path, stat.Version)
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

// pathKey is a path on the server. Among the values of a client it has the Node that has the path.
type pathKey string

func (k *keeper) key() pathKey { return pathKey(engine.Of(k.client).Real(k.path)) }

// claim waits until no other Keep of this client has the path: servers could not tell their nodes apart, which have one owner. It
// returns framework.ErrClosed if the client is closed before.
func (k *keeper) claim() error {
	client := engine.Of(k.client)
	for k.ctx.Err() == nil {
		v, has := client.Values().LoadOrStore(k.key(), k.Node)
		if !has {
			break
		}
		other := v.(*Node)
		closing := other.ctx.Done()
		if other.ctx.Err() != nil {
			closing = nil // soon the path is free
		} else {
			k.report(fmt.Errorf("%w: another Keep of this client", ErrTaken))
		}
		select {
		case <-other.done:
		case <-closing:
		case <-k.ctx.Done():
		case <-client.Done():
			return framework.ErrClosed
		}
	}
	return nil
}

// free gives the path to the next Keep of this client, if we have it.
func (k *keeper) free() {
	if k.path != "" {
		engine.Of(k.client).Values().CompareAndDelete(k.key(), k.Node)
	}
}
