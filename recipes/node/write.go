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

// create makes the node, at the path that it had before if there was one. It is repeated until it is answered, and an answer to a
// write comes after all that was written before: so what is looked at after it is not from before the session.
func (k *keeper) create(ctx context.Context) error {
	k.watch = nil
	want, err := k.possible()
	if want.number == 0 {
		return err
	}
	asked, options := k.asked, []framework.CreateOption{framework.As(k.cfg.mode(k.path == ""))}
	switch {
	case k.path != "":
		asked = k.path
	case k.cfg.protected:
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
		k.made, k.accepted, k.sent = want, want, true
		if k.path == "" {
			k.path = path
			err = k.claim() // at once: the name is new
		}
	case errors.Is(err, zk.ErrNodeExists):
		err = nil
	default:
		if retry.Unknown(err) && k.path != "" {
			if k.sent = true; k.cfg.persistent && k.cfg.ttl == 0 {
				k.sweep(ctx)
			}
		}
		return k.refuse(want, err)
	}
	k.state = unseen
	return err
}

// clear deletes the node that an earlier session of ours has left, by its version. That session may end at this moment, and another's node
// come that has the same version: so the first operation says whose node it was.
func (k *keeper) clear(ctx context.Context) error {
	k.lose(framework.ErrSessionLost)
	version := k.stat.Version
	k.watch = nil
	results, err := k.client.Multi(ctx, &zk.SetDataRequest{Path: k.path, Version: version}, &zk.DeleteRequest{Path: k.path, Version: version + 1})
	switch {
	case err == nil && !k.isLeft(results[0].Stat):
		return k.takenBy(results[0].Stat) // its owner makes it again during the pause
	case err == nil:
		k.state = absent
		return nil
	}
	return changed(err)
}

// replace deletes the node that was seen, by its version, and makes ours. An ephemeral node is made in the same transaction, in which not
// every kind can be made.
func (k *keeper) replace(ctx context.Context) error {
	want, err := k.possible()
	if want.number == 0 {
		return err
	}
	version := k.stat.Version
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
	_, err = k.client.Multi(ctx, ops...)
	k.watch = nil
	switch {
	case err == nil && k.cfg.persistent:
		k.state = absent
		return nil
	case err == nil:
		k.made, k.accepted, k.sent, k.state = want, want, true, unseen
		return nil
	}
	k.sent = k.sent || retry.Unknown(err)
	return k.refuse(want, changed(err))
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
	want, trouble := k.possible()
	if want.number == k.written.number {
		return trouble
	}
	// With its version, so that data are not written to a node that has come in its place, unless that one has the same
	// version. And once: after a lost connection the node is looked at before the next try.
	once := clientapi.WithHints(ctx, clientapi.Hints{Once: true})
	var stat *zk.Stat
	err := k.attend(func() (err error) {
		stat, err = k.client.Set(once, k.path, want.data, k.stat.Version)
		return err
	})
	seen := k.watch
	k.watch = nil // whatever has gone wrong is looked at
	switch {
	case err == nil && stat.Czxid != k.czxid:
		if !k.isOurs(stat) {
			k.client.Logger().Error("another's node was overwritten, after ours was deleted", "path", k.path, "reason", k.takenBy(stat))
		}
		return errAgain
	case err == nil:
		k.written, k.accepted, k.mzxid, k.stat, k.watch = want, want, stat.Mzxid, stat, seen
		return trouble
	case errors.Is(err, zk.ErrNoNode):
		k.deleted()
		return errAgain
	case errors.Is(err, zk.ErrBadVersion):
		return errAgain // also after a write of ours whose reply was lost
	}
	if retry.Unknown(err) {
		k.late = time.Now().Add(2 * k.session.Timeout()) // servers end a session once per tick, half a timeout late at most
	}
	if isAnswer(err) {
		k.watch = seen
	}
	return k.refuse(want, err)
}

// attend does what may take as long as the session lives, and meanwhile believes an event that the node was deleted.
func (k *keeper) attend(do func() error) error {
	watch, answered, attended := k.watch, make(chan struct{}), make(chan struct{})
	go func() { // ends with do
		defer close(attended)
		select {
		case <-watch.Done():
			if watch.Event().Type == zk.EventNodeDeleted {
				k.deleted()
			}
		case <-answered:
		}
	}()
	err := do()
	close(answered)
	<-attended
	return err
}

// possible is what the node can hold: what is wanted, or what it held before if that is too long. Then the error says so.
// It has the number 0 if there was nothing before.
func (k *keeper) possible() (content, error) {
	want := k.status().want
	if want.number == k.tooLong.number {
		return k.accepted, k.tooLong.err
	}
	return want, nil
}

// refuse notes that want was not written because of err, and returns err. If it is too long it is given up. If the node is there, Set
// returns err.
func (k *keeper) refuse(want content, err error) error {
	long := errors.Is(err, framework.ErrTooLong)
	if long {
		k.tooLong = refusal{want.number, err}
	}
	if !isAnswer(err) || !long && k.state != ours {
		return err
	}
	k.now.Set(func(s *status) { // Err must not be nil any more when Set returns
		if want.number >= s.refused.number {
			s.refused = refusal{want.number, err}
		}
		if s.present {
			s.err = err
		}
	})
	return err
}
