package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// create makes the node, at the path that it had before if there was one.
func (k *keeper) create(ctx context.Context) error {
	want := k.wanted()
	options := k.createOptions()
	switch {
	case k.path == "" && k.cfg.protected:
		return k.createProtected(ctx, want, options)
	case k.path == "":
		if err := k.choose(ctx); !errors.Is(err, errAgain) {
			return err
		}
	}
	k.sent, k.unsure = true, true
	_, err := k.client.Create(ctx, k.path, want.data, options...)
	switch {
	case err == nil:
		k.made, k.unsure = want, false
	case errors.Is(err, zk.ErrNodeExists):
		k.unsure = false // what there is can be seen now
	}
	return err
}

// createProtected makes the node for the first time. After an error none stays: the
// client sees to that.
func (k *keeper) createProtected(ctx context.Context, want content, options []framework.CreateOption) error {
	mode := framework.Ephemeral
	switch {
	case k.cfg.sequential && k.cfg.persistent:
		mode = framework.PersistentSequential
	case k.cfg.sequential:
		mode = framework.EphemeralSequential
	case k.cfg.persistent:
		mode = framework.Persistent
	}
	path, err := k.client.Create(ctx, k.asked, want.data, append(options, framework.As(mode), framework.Protected())...)
	if err != nil {
		return err
	}
	k.path, k.sent, k.made = path, true, want
	return nil
}

func (k *keeper) createOptions() []framework.CreateOption {
	options := []framework.CreateOption{framework.As(framework.Ephemeral)}
	if k.cfg.persistent {
		options[0] = framework.As(framework.Persistent)
	}
	if k.cfg.ttl > 0 {
		options = append(options, framework.TTL(k.cfg.ttl))
	}
	if !k.cfg.noParents {
		options = append(options, framework.ContainerParents())
	}
	return options
}

// choose picks the number of a sequential node without protection. Its name is known before it
// is made, so that it is found again when the reply to the create is lost. It returns errAgain.
func (k *keeper) choose(ctx context.Context) error {
	dir, _ := framework.Split(k.asked)
	found, stat, err := k.client.Exists(ctx, dir)
	if err != nil {
		return err
	}
	var created int64 // nodes below dir; the server counts them as we do
	if found {
		created = max(0, (int64(stat.Cversion)+int64(stat.NumChildren))/2)
	}
	k.number = max(k.number+1, created)
	k.path = fmt.Sprintf("%s%010d", k.asked, k.number)
	k.view = view{}
	return errAgain
}

// replace deletes the node that was seen, and makes ours.
func (k *keeper) replace(ctx context.Context) error {
	want, stat := k.wanted(), k.view.stat
	remove := &zk.DeleteRequest{Path: k.path, Version: stat.Version}
	ops := []any{remove, &zk.CreateRequest{Path: k.path, Data: want.data, Flags: int32(framework.Ephemeral)}}
	if k.cfg.persistent {
		ops = ops[:1] // not every kind can be made in a Multi
	}
	k.sent, k.unsure = true, true
	_, err := k.client.Multi(ctx, ops...)
	k.view = view{}
	switch {
	case err == nil && k.cfg.persistent:
		k.absent = true
	case err == nil:
		k.made, k.unsure = want, false
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists):
		k.unsure = false // it is not the one any more that was seen
	default:
		return err
	}
	return errAgain
}

// touchName is Curator's name of the child that keeps a node with a TTL.
const touchName = "touch"

// touch writes to the touch child if it is time.
func (k *keeper) touch(ctx context.Context) error {
	if k.cfg.ttl == 0 || time.Since(k.touched) < k.cfg.ttl/2 {
		return nil
	}
	path := framework.Join(k.path, touchName)
	_, err := k.client.Set(ctx, path, k.client.DefaultData(), -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = k.client.Create(ctx, path, nil, framework.TTL(k.cfg.ttl))
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		k.view = view{} // the node itself is gone
		return errAgain
	case err != nil && !errors.Is(err, zk.ErrNodeExists):
		return err
	}
	k.touched = time.Now()
	return nil
}

// claims tells the nodes of one session apart that several Nodes of this process take for theirs: their owner is
// the same. It has the Node by its session and czxid.
var claims sync.Map

type claimKey struct {
	session *framework.Session
	czxid   int64
}

// claim is a node that one Node keeps, and no other one of this process.
type claim struct{ key claimKey }

// take claims the node with this czxid, in place of the one claimed before. It fails if another Node has it.
func (c *claim) take(n *Node, session *framework.Session, czxid int64) bool {
	key := claimKey{session, czxid}
	if holder, _ := claims.LoadOrStore(key, n); holder != n {
		return false
	}
	if c.key != key {
		c.release()
		c.key = key
	}
	return true
}

func (c *claim) release() {
	if c.key.session != nil {
		claims.Delete(c.key)
		c.key = claimKey{}
	}
}
