package node

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/retry"
)

// waitOrReplace is for the node that is another's, or of an earlier session of ours.
func (k *keeper) waitOrReplace(ctx context.Context) error {
	k.mine = record{}
	switch {
	case k.wasOurs(k.stat):
		k.missing(framework.ErrSessionLost)
		return k.clear(ctx)
	case k.cfg.taken == Replace && k.status().shown.number == 0:
		return k.replace(ctx)
	}
	reason := takenBy(k.stat)
	k.missing(reason)
	k.report(reason)
	k.sent = k.sent && !k.cfg.persistent // a persistent node is not known by its owner
	k.rest(0)
	return nil
}

// takenBy is why a node that is not ours is in the way.
func takenBy(stat *zk.Stat) error {
	if stat.EphemeralOwner == 0 {
		return fmt.Errorf("%w: a persistent node", ErrTaken)
	}
	return fmt.Errorf("%w: session %#x", ErrTaken, uint64(stat.EphemeralOwner))
}

// clear deletes the node of an earlier session of ours, by its version. That session may end at this moment, and another's node
// come that has the same version: so the first operation says whose node it was.
func (k *keeper) clear(ctx context.Context) error {
	version := k.stat.Version
	k.watch = nil
	results, err := k.client.Multi(once(ctx), &zk.SetDataRequest{Path: k.path, Version: version}, &zk.DeleteRequest{Path: k.path, Version: version + 1})
	if err == nil && !k.wasOurs(results[0].Stat) {
		return takenBy(results[0].Stat) // its owner makes it again during the pause
	}
	return changed(err)
}

// replace deletes the node that was seen, by its version, and makes ours: an ephemeral one in the same transaction, in which not every
// kind can be made. Ours has another version, so that a request of the other's owner that is under way does not meet it.
func (k *keeper) replace(ctx context.Context) error {
	want, version := k.status().want, k.stat.Version
	ops := []any{&zk.DeleteRequest{Path: k.path, Version: version}}
	switch {
	case k.cfg.persistent: // made in the next step
	case version == 0:
		ops = append(ops, &zk.CreateRequest{Path: k.path, Flags: int32(framework.Ephemeral)}, &zk.SetDataRequest{Path: k.path, Data: want.data})
	default:
		ops = append(ops, &zk.CreateRequest{Path: k.path, Data: want.data, Flags: int32(framework.Ephemeral)})
	}
	k.watch = nil
	_, err := k.client.Multi(once(ctx), ops...)
	if !k.cfg.persistent {
		k.sent = k.sent || err == nil || retry.Unknown(err)
		if err == nil {
			k.mine = record{content: want}
		}
	}
	return changed(err)
}

// pathKey is a path on the server. Among the values of a client it has the Node that has the path.
type pathKey string

func (k *keeper) key() pathKey { return pathKey(engine.Of(k.client).Real(k.path)) }

// claim waits until no other Keep of this client has the path: servers could not tell their nodes apart, which have one owner. It
// returns framework.ErrClosed if the client is closed before.
func (k *keeper) claim() error {
	client := engine.Of(k.client)
	for k.path != "" && k.ctx.Err() == nil {
		v, has := client.Values().LoadOrStore(k.key(), k.Node)
		if !has {
			break
		}
		other := v.(*Node)
		if other.ctx.Err() == nil { // or soon the path is free
			k.report(fmt.Errorf("%w: another Keep of this client", ErrTaken))
		}
		select {
		case <-other.done:
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
