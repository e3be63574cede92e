package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// touchName is Curator's name of the child that keeps a node with a TTL.
const touchName = "touch"

// touch writes to the touch child if it is time.
func (k *keeper) touch(ctx context.Context) error {
	if k.cfg.ttl == 0 || time.Since(k.touched) < k.cfg.ttl/2 {
		return nil
	}
	path := framework.Join(k.path, touchName)
	err := k.attend(func() error {
		_, err := k.client.Set(ctx, path, k.client.DefaultData(), -1)
		if errors.Is(err, zk.ErrNoNode) {
			_, err = k.client.Create(ctx, path, nil, framework.TTL(k.cfg.ttl))
		}
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode): // the node itself
		k.deleted()
		k.watch = nil
		return errAgain
	case err != nil && !errors.Is(err, zk.ErrNodeExists):
		return err
	}
	k.touched = time.Now()
	return nil
}

// untilTouch is how long to rest: for limit at most, unless that is 0, and not beyond the next touch.
func (k *keeper) untilTouch(limit time.Duration) time.Duration {
	if k.cfg.ttl == 0 || k.depends == nil {
		return limit
	}
	due := time.Until(k.touched.Add(k.cfg.ttl / 2))
	switch {
	case limit == 0:
		return max(due, 1)
	case due > 0:
		return min(due, limit)
	}
	return limit // the touch has failed
}
