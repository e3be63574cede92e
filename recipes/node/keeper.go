package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/retry"
)

// keeper is what the goroutine of a Node knows. Nobody else has it. Each state of the package comment's table is a function that takes
// the step of that state: absent, ours and taken.
type keeper struct {
	*Node
	pauses  wait.Pauses
	session *framework.Session // the one that lives, or the last one; nil before the first
	owner   int64              // of a node of ours: the session, and 0 if the node is persistent

	stat  *zk.Stat         // as the node was seen or made last; nil: there is none, or it is not known yet
	watch *framework.Watch // of that look; nil: look again

	mine   content
	sent   bool   // there may be a node of ours
	logged string // the last reason

	touches  <-chan time.Time // when to write to the touch child; nil: there is none
	touchDue bool
}

// run keeps the node, in one session after the other, and deletes it at the end.
func (k *keeper) run() {
	defer close(k.done)
	defer func() { engine.Of(k.client).Values().CompareAndDelete(k.key(), k.Node) }() // if we have the path
	k.claim()
	for !k.status().over() {
		if session, err := k.client.Session(k.ctx); err == nil {
			k.live(session)
		} else {
			k.report(err)
			_ = engine.Sleep(k.ctx, engine.Of(k.client), k.pauses.Next())
		}
	}
	k.left = k.leave()
}

// live keeps the node in one session. It begins with a create: the answer to a write comes after all that was written before. After a
// request that has failed it pauses.
func (k *keeper) live(session *framework.Session) {
	k.session, k.stat, k.watch, k.mine = session, nil, nil, content{}
	if !k.cfg.persistent() {
		k.owner = session.ID()
	}
	k.update(func(s *status) { s.owners = append(s.owners, k.owner) })
	ctx := framework.InSession(k.ctx, session)
	for step := k.absent; k.ctx.Err() == nil && session.Err() == nil; step = k.next {
		if err := step(ctx); err != nil {
			if !isAnswer(err) {
				k.watch = nil // whatever has happened is looked at before the next request
			}
			k.report(err)
			k.rest(nil, time.After(k.pauses.Next()))
		}
	}
	k.lost(session.Err())
}

// next looks at the node, unless nothing has happened since it was looked at, and takes the step of the state that it is in.
func (k *keeper) next(ctx context.Context) error {
	if k.path != "" && (k.watch == nil || wait.Closed(k.watch.Done())) {
		_, stat, watch, err := k.client.ExistsW(ctx, k.path)
		if err != nil {
			return err
		}
		if stat == nil || k.stat != nil && stat.Czxid != k.stat.Czxid { // it is another one
			k.mine = content{}
		}
		k.stat, k.watch = stat, watch
		(*engine.Watch)(watch).OnFire(func(e zk.Event, _ *engine.Session) {
			if e.Type == zk.EventNodeDeleted {
				k.lost(ErrDeleted)
			}
		})
	}
	switch {
	case k.stat == nil:
		return k.absent(ctx)
	case k.stat.EphemeralOwner == k.owner: // no other Keep of this client has made it: see claim
		return k.ours(ctx)
	}
	return k.taken(ctx)
}

// wasOurs reports whether a node is of a session of ours.
func (k *keeper) wasOurs(stat *zk.Stat) bool {
	return slices.Contains(k.status().owners, stat.EphemeralOwner)
}

// absent creates the node, at the path that it had before if there was one. Parents are missing after a transaction, which makes none.
func (k *keeper) absent(ctx context.Context) error {
	k.lost(ErrDeleted)
	err := k.create(ctx)
	if errors.Is(err, zk.ErrNoNode) && !k.cfg.noParents {
		err = engine.Of(k.client).MakeParents(ctx, k.asked)
	}
	return k.again(err)
}

// create makes the node, in place of another that was seen if there is one. In place of another, or while a late write may come, it does so
// in a transaction that gives the node another version: a write that is under way does not meet it.
func (k *keeper) create(ctx context.Context) (err error) {
	want, path, other := k.status().want, k.path, k.late()
	var ops []any
	var results []zk.MultiResponse
	if k.stat != nil {
		other, ops = k.stat, append(ops, &zk.DeleteRequest{Path: path, Version: k.stat.Version})
	}
	if path == "" || other == nil {
		path, err = k.client.Create(ctx, cmp.Or(path, k.asked), want.data, k.cfg.creation(path == "")...)
	} else {
		ops = append(ops, k.cfg.request(path))
		if other.Version == 1 {
			ops = append(ops, &zk.SetDataRequest{Path: path, Version: 0})
		}
		ops = append(ops, &zk.SetDataRequest{Path: path, Data: want.data, Version: -1})
		results, err = k.client.Multi(once(ctx), ops...)
	}
	switch {
	case err == nil:
		k.stat, k.sent = nil, true
		if results != nil {
			k.stat = results[len(ops)-1].Stat
		}
		if k.stat != nil || !k.cfg.persistent() { // otherwise nothing says whether the node that is seen next is this one: it is written
			k.mine = want
		}
		if k.path == "" {
			k.path = path
			k.claim() // at once: the name is new
		}
	case retry.Unknown(err) && k.path != "": // without a path the client sees to it that none stays
		k.sent = true
		k.sweep(ctx)
	}
	return err
}

// once returns a context for a request that is not repeated when it was not answered: the node is looked at before the next try.
func once(ctx context.Context) context.Context {
	return engine.WithHints(ctx, engine.Hints{Once: true})
}

// again has the node be looked at again after a write, also after one that has failed since the node is not the one any more that was seen.
// Other errors are returned.
func (k *keeper) again(err error) error {
	gone := k.stat != nil && errors.Is(err, zk.ErrNoNode) // and not its parent
	if err == nil || gone || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) {
		k.watch = nil
		return nil
	}
	return err
}

// ours writes to the node that is ours, shows it and waits. If a server refuses what is to be written, the node is kept with what it holds.
func (k *keeper) ours(ctx context.Context) error {
	k.sent = true
	k.mine.mzxid = cmp.Or(k.mine.mzxid, k.stat.Czxid) // it may have been made just now
	if k.late() != nil && k.stat.Mzxid != k.mine.mzxid {
		k.mine.number = 0 // perhaps it was a late write of ours, with older data
	}
	refusal := cmp.Or(k.write(ctx), k.touch(ctx)) // both are tried
	if k.watch == nil || refusal != nil && (!isAnswer(refusal) || k.mine.number == 0) {
		return refusal
	}
	if err := cmp.Or(k.show(ctx, refusal), refusal); err != nil {
		return err
	}
	k.pauses.Reset()
	k.logged = ""
	k.rest(k.watch.Done(), nil)
	return nil
}

// write brings the data up to date. It names the version: the package comment says what that is good for.
func (k *keeper) write(ctx context.Context) error {
	want := k.status().want
	if want.number == k.mine.number {
		return nil
	}
	stat, err := k.client.Set(once(ctx), k.path, want.data, k.stat.Version)
	switch {
	case err == nil && stat.Czxid == k.stat.Czxid:
		k.mine, k.stat = content{want.number, want.data, stat.Mzxid}, stat
		return nil
	case err == nil && !k.wasOurs(stat):
		k.client.Logger().Error("another's node was overwritten, after ours was deleted", "path", k.path, "reason", takenBy(stat))
	case retry.Unknown(err):
		// Servers end a session once per tick, half a timeout late at most.
		values, key, stat := engine.Of(k.client).Values(), lateKey(k.key()), k.stat
		values.Store(key, stat)
		time.AfterFunc(2*k.session.Timeout(), func() { values.CompareAndDelete(key, stat) })
	}
	if err = k.again(err); err != nil && isAnswer(err) {
		k.update(func(s *status) { s.refused, s.refusal, s.err = want.number, follow.Bare(err), follow.Bare(err) })
	}
	return err
}

// show makes known that the node is there, and what is refused nevertheless, if anything. From then on the session reports when it is in
// trouble. It fails if the session already is; a session that was not confirmed for long is confirmed first.
func (k *keeper) show(ctx context.Context, refusal error) error {
	if now := k.status(); now.present() && now.err == nil && refusal == nil && now.shown.mzxid == k.mine.mzxid {
		return nil // nothing is new
	}
	return engine.Follow(ctx, engine.Of(k.client), func(context.Context, engine.Link) (_ <-chan struct{}, err error) {
		k.update(func(s *status) {
			if !s.present() {
				if wait.Closed(k.watch.Done()) {
					return // perhaps it is another's by now
				}
				if s.depends, err = k.session.Depend(k.cfg.policy, k.lost); err != nil {
					return
				}
			}
			s.shown, s.err = k.mine, follow.Bare(refusal)
		})
		return nil, err
	})
}

// touch writes to the touch child of a node with a TTL, when half the TTL has passed. What fails is tried again after a pause.
func (k *keeper) touch(ctx context.Context) error {
	if !k.touchDue {
		return nil
	}
	path := framework.Join(k.path, "touch")
	_, err := k.client.Set(ctx, path, k.client.DefaultData(), -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = k.client.Create(ctx, path, nil, framework.TTL(k.cfg.ttl))
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	k.touchDue = false // the child is there, or the node is made again
	return nil
}

// update changes what others see, unless Close has said the last word.
func (k *keeper) update(change func(*status)) {
	k.now.Set(func(s *status) {
		if k.ctx.Err() == nil {
			change(s)
		}
	})
}

// lost makes known that the node is not there any more, or that nobody may depend on the session any more, if the node was shown.
func (k *keeper) lost(reason error) {
	k.update(func(s *status) {
		if s.present() {
			s.gone(reason)
			k.wake.Raise()
		}
	})
}

// taken waits until the node goes that is another's, or deletes it: if it is of an earlier session of ours, or to be replaced.
func (k *keeper) taken(ctx context.Context) error {
	switch {
	case k.wasOurs(k.stat):
		return k.clear(ctx)
	case k.cfg.taken == Replace && k.status().shown.number == 0:
		return k.again(k.create(ctx))
	}
	reason := takenBy(k.stat)
	k.lost(reason)
	k.report(reason)
	k.rest(k.watch.Done(), nil)
	return nil
}

// takenBy is why a node that is not ours is in the way. A persistent node has the owner 0.
func takenBy(stat *zk.Stat) error {
	return fmt.Errorf("%w: ephemeralOwner %#x", ErrTaken, uint64(stat.EphemeralOwner))
}

// clear deletes the node of an earlier session of ours, by its version. That session may end at this moment, and another's node
// come that has the same version: so the first operation says whose node it was.
func (k *keeper) clear(ctx context.Context) error {
	results, err := k.client.Multi(once(ctx), &zk.SetDataRequest{Path: k.path, Version: k.stat.Version},
		&zk.DeleteRequest{Path: k.path, Version: k.stat.Version + 1})
	if err == nil && !k.wasOurs(results[0].Stat) {
		return takenBy(results[0].Stat) // its owner makes it again during the pause
	}
	return k.again(err)
}

// rest waits until there is something to do, or for one of these.
func (k *keeper) rest(fired <-chan struct{}, timer <-chan time.Time) {
	select {
	case <-k.touches:
		k.touchDue = true
	case <-fired:
	case <-timer:
	case <-k.session.Done():
	case <-k.wake.C():
	case <-k.ctx.Done():
	}
}

// report makes known what is in the way. What a server refuses is logged once.
func (k *keeper) report(err error) {
	switch {
	case retry.Retryable(err) && retry.Judge(k.status().err) == retry.Over:
		return // the connection is in trouble, as is known
	case isAnswer(err) && err.Error() != k.logged:
		k.logged = err.Error()
		k.client.Logger().Warn("node is not kept", "path", k.asked, "reason", err)
	}
	k.update(func(s *status) { s.err = follow.Bare(err) })
}

// isAnswer reports whether err is the answer of a server that was reached.
func isAnswer(err error) bool { return retry.Judge(err) == retry.Answered }

// pathKey is a path on the server. Among the values of a client it has the Node that has the path.
type pathKey string

func (k *keeper) key() pathKey { return pathKey(engine.Of(k.client).Real(k.path)) }

// claim waits until no other Keep of this client has the path, or until the end. The owner of their nodes would be the same.
func (k *keeper) claim() {
	for k.path != "" && k.ctx.Err() == nil {
		v, has := engine.Of(k.client).Values().LoadOrStore(k.key(), k.Node)
		if !has {
			return
		}
		other := v.(*Node)
		if other.ctx.Err() == nil { // or soon the path is free
			k.report(fmt.Errorf("%w: another Keep of this client", ErrTaken))
		}
		select {
		case <-other.done:
		case <-k.ctx.Done():
		}
	}
}

// lateKey is a path on the server. Among the values of a client it has the stat of a node, whose version a write names that was not
// answered. It may still be carried out, also in a node that was made meanwhile, by this Keep or the next one.
type lateKey string

// late is that stat; nil: no such write may come.
func (k *keeper) late() *zk.Stat {
	v, _ := engine.Of(k.client).Values().Load(lateKey(k.key()))
	stat, _ := v.(*zk.Stat)
	return stat
}

// leave deletes the node. The error is what the server refuses, and framework.ErrClosed if a persistent node stays.
func (k *keeper) leave() error {
	if k.cfg.ttl > 0 || !k.sent {
		return nil // it goes by itself, or there is none
	}
	// A session that is over takes its nodes along, whenever they were made. A persistent node is deleted in any session.
	ctx, cancel := context.WithTimeout(context.Background(), k.session.Timeout())
	defer cancel()
	if !k.cfg.persistent() {
		ctx = k.session.Context()
	}
	// A create of ours that was not answered is carried out before the write that this begins with, or never.
	var deleting int64 // the czxid of the node whose deletion was sent; 0: none was
	err := follow.Reads(ctx, k.client, func(ctx context.Context, _ engine.Link) (<-chan struct{}, error) { return k.remove(ctx, &deleting) })
	if err != nil && (ctx.Err() != nil || !k.cfg.persistent() && errors.Is(err, framework.ErrClosed)) {
		k.sweep(framework.InSession(context.Background(), k.session))
		return nil
	}
	return err
}

// remove deletes the node if it is ours, or that of an earlier session of ours. After a deletion that may be done the next node there may
// be another's, which a persistent one does not show: then only that node is deleted. One that comes after the look has the same version.
func (k *keeper) remove(ctx context.Context, deleting *int64) (again <-chan struct{}, err error) {
	found, stat, err := k.client.Exists(ctx, k.path)
	if err != nil || !found || !k.wasOurs(stat) || k.cfg.persistent() && *deleting != 0 && *deleting != stat.Czxid {
		return nil, err
	}
	*deleting = stat.Czxid
	if _, err = k.client.DeleteIfExists(ctx, k.path, stat.Version); errors.Is(err, zk.ErrBadVersion) {
		return follow.Again, nil
	}
	return nil, err
}

// sweep has the client delete a node that neither a session nor its TTL takes along, when nothing of the context's session can come any
// more; unless a Keep of this client has the path then, and is not closed.
func (k *keeper) sweep(ctx context.Context) {
	if !k.cfg.persistent() || k.cfg.ttl > 0 {
		return
	}
	client, key := engine.Of(k.client), k.key()
	client.MayStillCome(ctx, k.path, func() bool {
		n, kept := client.Values().Load(key)
		return kept && n.(*Node).ctx.Err() == nil
	})
}
