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
// the step of that state: absent, ours, taken and refused.
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

	nextTouch time.Time // when to write to the touch child, with WithTTL
}

// run keeps the node, in one session after the other, and deletes it at the end.
func (k *keeper) run() {
	defer close(k.done)
	defer func() { engine.Of(k.client).Values().CompareAndDelete(k.key(), k.Node) }() // if we have the path
	k.claim()
	var err error
	for k.ctx.Err() == nil && !errors.Is(err, framework.ErrClosed) {
		var session *framework.Session
		if session, err = k.client.Session(k.ctx); err == nil {
			k.live(session)
			continue
		}
		k.report(err)
		_ = engine.Sleep(k.ctx, engine.Of(k.client), k.pauses.Next())
	}
	k.update(func(s *status) { s.gone(err) })
	k.left = k.leave()
}

// live keeps the node in one session. It begins with a create: the answer to a write comes after all that was written before.
func (k *keeper) live(session *framework.Session) {
	k.session, k.stat, k.watch, k.mine = session, nil, nil, content{}
	if !k.cfg.persistent {
		k.owner = session.ID()
	}
	k.update(func(s *status) { s.owners = append(s.owners, k.owner) })
	ctx := framework.InSession(k.ctx, session)
	for step := k.absent; k.ctx.Err() == nil && session.Err() == nil; {
		err := step(ctx)
		if err == nil {
			step, err = k.look(ctx)
		}
		if err != nil {
			if !isAnswer(err) {
				k.watch = nil // whatever has happened is looked at before the next request
			}
			k.report(err)
			step = k.refused
		}
	}
	k.lost(session.Err())
}

// look looks at the node, unless nothing has happened since it was looked at, and says in which state it is.
func (k *keeper) look(ctx context.Context) (state func(context.Context) error, err error) {
	if k.path == "" {
		return k.absent, nil
	}
	if k.watch == nil || wait.Closed(k.watch.Done()) {
		_, stat, watch, err := k.client.ExistsW(ctx, k.path)
		if err != nil {
			return nil, err
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
		return k.absent, nil
	case k.isOurs(k.stat):
		return k.ours, nil
	}
	return k.taken, nil
}

// isOurs reports whether a node is of our session. No other Keep of this client has made it: see claim.
func (k *keeper) isOurs(stat *zk.Stat) bool { return stat.EphemeralOwner == k.owner }

// wasOurs reports whether a node is of a session of ours, this one included.
func (k *keeper) wasOurs(stat *zk.Stat) bool {
	return slices.Contains(k.status().owners, stat.EphemeralOwner)
}

// absent creates the node, at the path that it had before if there was one.
func (k *keeper) absent(ctx context.Context) error {
	k.lost(ErrDeleted)
	late := k.late()
	err := k.create(ctx, late)
	if errors.Is(err, zk.ErrNoNode) && late != nil && !k.cfg.noParents {
		err = engine.Of(k.client).MakeParents(ctx, k.path)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return k.again(err)
}

// create makes the node. With the version of another one it does so in a transaction after ops, which makes no parents, and gives it another
// version: a write to the other one that is under way does not meet it.
func (k *keeper) create(ctx context.Context, other *int32, ops ...any) (err error) {
	want, path := k.status().want, cmp.Or(k.path, k.asked)
	stat := &zk.Stat{} // says which persistent node is ours, which has no owner; nil: the server has not returned it
	if other != nil && k.path != "" {
		ops = append(ops, k.cfg.request(path))
		if *other == 1 {
			ops = append(ops, &zk.SetDataRequest{Path: path, Version: 0})
		}
		var results []zk.MultiResponse
		results, err = k.client.Multi(once(ctx), append(ops, &zk.SetDataRequest{Path: path, Data: want.data, Version: -1})...)
		if err == nil {
			stat = results[len(ops)].Stat
		}
	} else {
		options := k.cfg.creation(k.path == "")
		if k.cfg.persistent {
			path, err = k.client.Create(ctx, path, want.data, append(options, framework.StatTo(stat))...)
		}
		if !k.cfg.persistent || errors.Is(err, framework.ErrUnimplemented) {
			stat = nil
			path, err = k.client.Create(ctx, cmp.Or(k.path, k.asked), want.data, options...)
		}
	}
	switch {
	case err == nil:
		k.mine, k.stat, k.sent = want, stat, true
		if k.path == "" {
			k.path = path
			k.claim() // at once: the name is new
		}
	case retry.Unknown(err) && k.path != "": // without a path the client sees to it that none stays
		if k.sent = true; k.cfg.persistent && k.cfg.ttl == 0 {
			k.sweep(ctx)
		}
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
	if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) {
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
	var touch <-chan time.Time
	if k.cfg.ttl > 0 {
		touch = time.After(time.Until(k.nextTouch))
	}
	k.rest(k.watch.Done(), touch)
	return nil
}

// write brings the data up to date. It names the version, so that data are not written to a node that has come in its place, unless that
// one has the same version.
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
	case err == nil && !k.isOurs(stat):
		k.client.Logger().Error("another's node was overwritten, after ours was deleted", "path", k.path, "reason", takenBy(stat))
	case retry.Unknown(err):
		// Servers end a session once per tick, half a timeout late at most.
		values, key, version := engine.Of(k.client).Values(), lateKey(k.key()), k.stat.Version
		values.Store(key, &version)
		time.AfterFunc(2*k.session.Timeout(), func() { values.CompareAndDelete(key, &version) })
	}
	if err = k.again(err); err != nil && isAnswer(err) {
		k.update(func(s *status) { s.refused, s.refusal, s.err = want.number, follow.Bare(err), follow.Bare(err) })
	}
	return err
}

// show makes known that the node is there, and what is refused nevertheless, if anything. From then on the session reports when it is in
// trouble. It fails if the session already is, or if something has happened to a node that is not shown yet.
func (k *keeper) show(ctx context.Context, refusal error) (err error) {
	if now := k.status(); now.present() && now.err == nil && refusal == nil && now.shown.mzxid == k.mine.mzxid {
		return nil // nothing is new
	}
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
	if errors.Is(err, framework.ErrSessionLost) && k.session.Err() == nil {
		// The last word of the leader is older than the session timeout: this process was slow. A write is its next word. Nobody asks
		// for one as long as nobody depends on the session. It proves nothing for long, so the pause before the next try is short.
		k.pauses.Reset()
		err = cmp.Or(k.client.Sync(ctx), err)
	}
	return err
}

// touch writes to the touch child of a node with a TTL, when half the TTL has passed. What fails is tried again after a pause.
func (k *keeper) touch(ctx context.Context) error {
	if k.cfg.ttl == 0 || time.Now().Before(k.nextTouch) {
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
	k.nextTouch = time.Now().Add(k.cfg.ttl / 2) // the child is there, or the node is made again
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
	switch version := k.stat.Version; {
	case k.wasOurs(k.stat):
		return k.clear(ctx, version)
	case k.cfg.taken == Replace && k.status().shown.number == 0:
		return k.again(k.create(ctx, &version, &zk.DeleteRequest{Path: k.path, Version: version}))
	}
	reason := takenBy(k.stat)
	k.lost(reason)
	k.report(reason)
	k.sent = k.sent && !k.cfg.persistent // a persistent node is not known by its owner
	k.rest(k.watch.Done(), nil)
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
func (k *keeper) clear(ctx context.Context, version int32) error {
	results, err := k.client.Multi(once(ctx),
		&zk.SetDataRequest{Path: k.path, Version: version}, &zk.DeleteRequest{Path: k.path, Version: version + 1})
	if err == nil && !k.wasOurs(results[0].Stat) {
		return takenBy(results[0].Stat) // its owner makes it again during the pause
	}
	return k.again(err)
}

// refused pauses after a request that has failed.
func (k *keeper) refused(context.Context) error {
	k.rest(nil, time.After(k.pauses.Next()))
	return nil
}

// rest waits until there is something to do, or for one of these.
func (k *keeper) rest(fired <-chan struct{}, timer <-chan time.Time) {
	select {
	case <-fired:
	case <-timer:
	case <-k.session.Done():
	case <-k.wake.C():
	case <-k.ctx.Done():
	}
}

// report makes known what is in the way. What a server refuses is logged once.
func (k *keeper) report(err error) {
	switch answer := isAnswer(err); {
	case !answer && retry.Judge(k.status().err) == retry.Over:
		return // the connection is in trouble, as is known
	case answer && err.Error() != k.logged:
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

// lateKey is a path on the server. Among the values of a client it has the version, an *int32, that a write names which was not
// answered. It may still be carried out, also in a node that was made meanwhile, by this Keep or the next one.
type lateKey string

// late is the version that such a write names; nil: there is none.
func (k *keeper) late() *int32 {
	v, _ := engine.Of(k.client).Values().Load(lateKey(k.key()))
	version, _ := v.(*int32)
	return version
}

// leave deletes the node. The error is what the server refuses, and framework.ErrClosed if a persistent node stays.
func (k *keeper) leave() error {
	if k.cfg.ttl > 0 || !k.sent {
		return nil // it goes by itself, or there is none
	}
	// A session that is over takes its nodes along, whenever they were made. A persistent node is deleted in any session.
	ctx, cancel := context.WithTimeout(context.Background(), k.session.Timeout())
	defer cancel()
	if !k.cfg.persistent {
		ctx = k.session.Context()
	}
	// A create of ours that was not answered is carried out before the write that this begins with, or never.
	err := follow.Reads(ctx, k.client, k.remove)
	switch {
	case !k.cfg.persistent && (ctx.Err() != nil || errors.Is(err, framework.ErrClosed)):
		return nil
	case err != nil && ctx.Err() != nil:
		k.sweep(framework.InSession(context.Background(), k.session))
		return nil
	}
	return err
}

// remove deletes the node if it is ours, or that of an earlier session of ours. Nothing is deleted that came in place of our node, unless
// it has the same version: after a deletion that may be done, and if the node is gone, the next one there may be another's.
func (k *keeper) remove(ctx context.Context, _ engine.Link) (again <-chan struct{}, err error) {
	found, stat, err := k.client.Exists(ctx, k.path)
	if err != nil || !found || !k.wasOurs(stat) {
		return nil, err
	}
	switch err = k.client.Delete(ctx, k.path, stat.Version); {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case errors.Is(err, zk.ErrBadVersion):
		return follow.Again, nil
	}
	return nil, err
}

// sweep has the client delete a persistent node, which no session takes along, when nothing of the context's session can come any more;
// unless a Keep of this client has the path then, and is not closed.
func (k *keeper) sweep(ctx context.Context) {
	client, key := engine.Of(k.client), k.key()
	client.MayStillCome(ctx, k.path, func() bool {
		n, kept := client.Values().Load(key)
		return kept && n.(*Node).ctx.Err() == nil
	})
}
