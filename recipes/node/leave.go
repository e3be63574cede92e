package node

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// leave deletes the node. The error is what the server refuses.
func (k *keeper) leave() error {
	k.release()
	if k.cfg.ttl > 0 || k.path == "" || !k.sent {
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
		case ctx.Err() != nil && k.cfg.persistent:
			k.unclaim() // or the node would be wanted
			k.sweep(framework.InSession(context.Background(), k.session))
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errAgain):
		case !retry.MayPass(err):
			return err
		default:
			_ = wait.Sleep(ctx, k.pauses.Next())
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
	if err != nil || !found || !k.isOurs(stat) && !k.isLeft(stat) {
		return err
	}
	// Once: if it is gone, the next one there may be another's with the same version.
	err = k.client.Delete(clientapi.WithHints(ctx, clientapi.Hints{Once: true}), k.path, stat.Version)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrBadVersion):
		return errAgain
	}
	return err
}

// sweep has the client delete a persistent node, which no session takes along, when nothing of the context's session can come any more;
// unless a Keep of this client has the path then.
func (k *keeper) sweep(ctx context.Context) {
	values, key := engine.Of(k.client).Values(), k.pathKey()
	engine.Of(k.client).MayStillCome(ctx, k.path, func() bool {
		_, kept := values.Load(key)
		return kept
	})
}

// pathKey is the key of a claim among the values of a client: the path on the server.
type pathKey string

func (k *keeper) pathKey() pathKey { return pathKey(engine.Of(k.client).Real(k.path)) }

// claim is the right of one Keep to a path. The nodes of several Keeps of one client have the same owner, so that the server cannot tell
// them apart.
type claim struct {
	node *Node
	free chan struct{} // closed when the next one may claim the path
}

// claim waits until no other Keep of this client has the path. It returns framework.ErrClosed if the client is closed before.
func (k *keeper) claim() error {
	values, key, mine := engine.Of(k.client).Values(), k.pathKey(), &claim{k.Node, make(chan struct{})}
	for k.ctx.Err() == nil {
		v, found := values.LoadOrStore(key, mine)
		if !found {
			k.unclaim = sync.OnceFunc(func() {
				values.Delete(key)
				close(mine.free)
			})
			break
		}
		other := v.(*claim)
		closing := other.node.ctx.Done()
		if wait.Closed(closing) {
			closing = nil // soon the path is free
		} else {
			k.trouble(k.takenBy(nil))
			k.log(k.takenBy(nil))
		}
		select {
		case <-other.free:
		case <-closing:
		case <-k.ctx.Done():
		case <-engine.Of(k.client).Done():
			return framework.ErrClosed
		}
	}
	return nil
}
