package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/retry"
)

// create makes the node, at the path that it had before if there was one. It is repeated until it is answered, and an answer to a
// write comes after all that was written before: so what is looked at after it is not from before the session.
func (k *keeper) create(ctx context.Context) error {
	k.watch = nil
	want, asked := k.status().want, k.path
	options := []framework.CreateOption{framework.As(k.cfg.mode(k.path == ""))}
	if k.path == "" {
		asked = k.asked
		options = append(options, framework.Protected()) // after an error none stays: the client sees to that
	}
	if k.cfg.ttl > 0 {
		options = append(options, framework.TTL(k.cfg.ttl))
	}
	if !k.cfg.noParents {
		options = append(options, framework.ContainerParents())
	}
	path, err := k.client.Create(ctx, asked, want.data, options...)
	switch {
	case err == nil:
		k.mine, k.sent, k.state = record{content: want}, true, unseen
		if k.path == "" {
			k.path = path
			return k.claim() // at once: the name is new
		}
		return nil
	case errors.Is(err, zk.ErrNodeExists):
		k.state = unseen
		return nil
	case retry.Unknown(err) && k.path != "":
		if k.sent = true; k.cfg.persistent && k.cfg.ttl == 0 {
			k.sweep(ctx)
		}
	}
	return k.refuse(want, err)
}

// clear deletes the node that an earlier session of ours has left, by its version. That session may end at this moment, and another's node
// come that has the same version: so the first operation says whose node it was.
func (k *keeper) clear(ctx context.Context) error {
	k.lose(framework.ErrSessionLost)
	k.watch = nil
	version := k.stat.Version
	results, err := k.client.Multi(ctx, &zk.SetDataRequest{Path: k.path, Version: version}, &zk.DeleteRequest{Path: k.path, Version: version + 1})
	switch {
	case err != nil:
		return changed(err)
	case k.whose(results[0].Stat) != left:
		return takenBy(results[0].Stat) // its owner makes it again during the pause
	}
	k.state = absent
	return nil
}

// replace deletes the node that was seen, by its version, and makes ours. An ephemeral node is made in the same transaction, in which not
// every kind can be made.
func (k *keeper) replace(ctx context.Context) error {
	want, version := k.status().want, k.stat.Version
	ops := []any{&zk.DeleteRequest{Path: k.path, Version: version}}
	if !k.cfg.persistent {
		ops = append(ops, &zk.CreateRequest{Path: k.path, Flags: int32(framework.Ephemeral)})
		// A write by the owner of the deleted node that is under way has the version that was seen, or the one before. It must not
		// meet the new node, so that one does not get these. The data are sent once: the request may be as long as servers take.
		v := int32(0)
		for ; version < 3 && v < version; v++ {
			ops = append(ops, &zk.SetDataRequest{Path: k.path, Version: v})
		}
		ops = append(ops, &zk.SetDataRequest{Path: k.path, Data: want.data, Version: v})
	}
	k.watch = nil
	_, err := k.client.Multi(ctx, ops...)
	switch {
	case err != nil:
		k.sent = k.sent || retry.Unknown(err)
		return k.refuse(want, changed(err))
	case k.cfg.persistent:
		k.state = absent
	default:
		k.mine, k.sent, k.state = record{content: want}, true, unseen
	}
	return nil
}

// changed is errAgain if a transaction has failed since the node is not the one any more that was seen.
func changed(err error) error {
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) {
		return errAgain
	}
	return err
}

// write brings the data up to date.
func (k *keeper) write(ctx context.Context) error {
	want := k.status().want
	if want.number == k.mine.number {
		return nil
	}
	// With its version, so that data are not written to a node that has come in its place, unless that one has the same
	// version. And once: after a lost connection the node is looked at before the next try.
	once := engine.WithHints(ctx, engine.Hints{Once: true})
	var stat *zk.Stat
	err := k.attend(func() (err error) {
		stat, err = k.client.Set(once, k.path, want.data, k.stat.Version)
		return err
	})
	switch {
	case err == nil && stat.Czxid == k.mine.czxid:
		k.mine.content, k.mine.mzxid, k.stat = want, stat.Mzxid, stat
		return nil
	case err == nil && k.whose(stat) != ours:
		k.client.Logger().Error("another's node was overwritten, after ours was deleted", "path", k.path, "reason", takenBy(stat))
	case errors.Is(err, zk.ErrNoNode):
		k.deleted()
	case retry.Unknown(err):
		k.late = time.Now().Add(2 * k.session.Timeout()) // servers end a session once per tick, half a timeout late at most
	}
	if isAnswer(err) && !errors.Is(changed(err), errAgain) {
		return k.refuse(want, err)
	}
	k.watch = nil // whatever has gone wrong is looked at
	if err == nil {
		return errAgain
	}
	return changed(err) // also after a write of ours whose reply was lost
}

// attend does what may take as long as the session lives, and meanwhile believes an event that the node was deleted.
func (k *keeper) attend(do func() error) error {
	answer, fired := make(chan error, 1), k.watch.Done()
	go func() { answer <- do() }() // ends with do, which is waited for
	for {
		select {
		case err := <-answer:
			return err
		case <-fired:
			k.believe()
			fired = nil
		}
	}
}

// refuse notes that want was not written because of err, and returns what to do. Data that are too long are given up, for those that the
// node held before, if there are any. If the node is there, Set returns err.
func (k *keeper) refuse(want content, err error) error {
	long := errors.Is(err, framework.ErrTooLong) && k.status().shown.number > 0
	if !long && (k.state != ours || !isAnswer(err)) {
		return err
	}
	k.now.Set(func(s *status) {
		s.refused = refusal{want.number, follow.Bare(err)}
		switch {
		case long && s.want.number == want.number:
			s.want.data = k.mine.data
		case !long && s.present:
			s.err = follow.Bare(err) // Err must not be nil any more when Set returns
		}
	})
	if long {
		return errAgain
	}
	return err
}
