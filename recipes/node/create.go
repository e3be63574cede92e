package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

// create makes the node, at the path that it had before if there was one.
func (k *keeper) create(ctx context.Context) error {
	want, err := k.toMake()
	if err != nil {
		return err
	}
	options := k.createOptions()
	switch {
	case k.path == "" && k.cfg.protected:
		return k.createProtected(ctx, want, options)
	case k.path == "":
		return k.choose(ctx) // it must be claimed before it is made
	}
	known := !k.unsure
	k.sent, k.unsure = true, true
	_, err = k.client.Create(ctx, k.path, want.data, options...)
	switch {
	case err == nil:
		k.made, k.unsure = want, false
	case errors.Is(err, zk.ErrNodeExists):
		k.unsure = false // what there is can be seen now
	case refusal(err) && !retry.Unknown(err) && known:
		k.sent, k.unsure = false, false
		k.unclaim() // another Keep may want to try in another way
	case refusal(err) && !retry.Unknown(err):
		k.absent = false // an earlier create may have been carried out: look before the next
	}
	return k.tried(want, err)
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
	if err = k.tried(want, err); err != nil {
		return err
	}
	k.path, k.sent, k.made = path, true, want
	k.own() // also if the session ends before the path is claimed
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
		// Cversion is twice the nodes made less the nodes there are, in 32 bits without a sign.
		created = int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)
	}
	k.unclaim() // the claim is for one path
	k.number = max(k.number+1, created)
	k.path = fmt.Sprintf("%s%010d", k.asked, k.number)
	k.view = view{}
	return errAgain
}

// replace deletes the node that was seen, and makes ours.
func (k *keeper) replace(ctx context.Context) error {
	want, err := k.toMake()
	if err != nil {
		return err
	}
	stat, former := k.view.stat, k.former(k.view.stat.EphemeralOwner)
	ops := replacement(k.path, want.data, stat.Version, former, !k.cfg.persistent)
	k.sent, k.unsure = true, true
	results, err := k.client.Multi(ctx, ops...)
	k.view = view{}
	switch {
	case err == nil && k.cfg.persistent:
		k.absent = true
	case err == nil:
		k.made, k.unsure = want, false
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists):
		k.unsure = false // it is not the one any more that was seen
	case refusal(err) && !retry.Unknown(err):
		k.sent, k.unsure = false, false
		k.unclaim() // as in create
		return err
	case k.cfg.persistent: // no data were sent
		return err
	default:
		return k.tried(want, err)
	}
	if err == nil && former && !k.former(results[0].Stat.EphemeralOwner) {
		return k.undo(ctx, results[0].Stat, int32(len(ops)-3)) // set, delete, create, and what follows
	}
	return errAgain
}

// replacement is the transaction that deletes a node of this version, and makes another one if remake is true. If tell is
// true its first result has the stat of the node that was deleted. The data are in it once: servers hang up on a request that is
// too long.
func replacement(path string, data []byte, version int32, tell, remake bool) (ops []any) {
	next := version
	if tell {
		ops = append(ops, &zk.SetDataRequest{Path: path, Version: version})
		next++
	}
	ops = append(ops, &zk.DeleteRequest{Path: path, Version: next})
	if !remake {
		return ops // not every kind can be made in a Multi
	}
	if version < 0 || version >= 2 {
		return append(ops, &zk.CreateRequest{Path: path, Data: data, Flags: int32(framework.Ephemeral)})
	}
	ops = append(ops, &zk.CreateRequest{Path: path, Flags: int32(framework.Ephemeral)})
	// A write by the owner of the deleted node that is under way has the version that was seen, or the one before if it is
	// sent again. It must not meet the new node, so that one does not get these versions.
	for v := range version {
		ops = append(ops, &zk.SetDataRequest{Path: path, Version: v})
	}
	return append(ops, &zk.SetDataRequest{Path: path, Data: data, Version: version})
}

// undo is for a node that came, with the same version, in place of one of ours that was to be replaced. We had no
// right to replace that one: ours, of the version given, goes again, and its owner can make it again.
func (k *keeper) undo(ctx context.Context, stat *zk.Stat, version int32) error {
	k.made = content{}
	err := k.client.Delete(ctx, k.path, version)
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
		return err
	}
	return &framework.OpError{Op: "keep", Path: k.path, Err: takenBy(stat)}
}

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
		if errors.Is(err, zk.ErrNoChildrenForEphemerals) {
			err = k.rewrite(ctx)
		}
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		k.gone() // the node itself
		return errAgain
	case errors.Is(err, zk.ErrBadVersion):
		k.view = view{}
		return errAgain
	case err != nil && !errors.Is(err, zk.ErrNodeExists):
		return err
	}
	k.touched = time.Now()
	return nil
}

// rewrite writes to a node what it holds, for a server that lets a node with a TTL have no child, as a ClickHouse Keeper
// does. It is zk.ErrBadVersion if the node is not the one that was seen.
func (k *keeper) rewrite(ctx context.Context) error {
	data, stat, err := k.client.Get(ctx, k.path)
	if err == nil && stat.Czxid != k.czxid {
		err = zk.ErrBadVersion
	}
	if err != nil {
		return err
	}
	stat, err = k.client.Set(ctx, k.path, data, stat.Version)
	if err == nil {
		k.view.stat = stat
	}
	return err
}
