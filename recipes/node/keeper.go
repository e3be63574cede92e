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
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// keeper is the state of a Node's goroutine, which alone uses it. Each state of the package
// comment's table is a function that takes the step of that state: absent, owned and taken.
type keeper struct {
	*Node
	pauses  wait.Pauses
	session *framework.Session // the live session, or the last one; nil before the first
	in      *framework.Client  // the client in the session
	once    *framework.Client  // in, without a retry: after a lost reply the node is read first
	owner   int64              // the session that owns this client's node; 0 if it is persistent

	stat  *zk.Stat         // as last seen or created; nil: missing, or not known yet
	watch *framework.Watch // the watch that this look set; nil: look again

	mine   content
	sent   bool         // a node of this Node may exist
	debt   *engine.Debt // debt of a persistent node that Keep has not returned yet; nil: none
	logged string       // the last reason

	touches  <-chan time.Time // when to write to the touch child; nil: there is none
	touchDue bool
}

// run keeps the node, in one session after the other, and deletes it at the end.
func (k *keeper) run() {
	defer engine.Of(k.client).Finished((*work)(k.Node)) // after done
	defer close(k.done)
	// Another Node may have the path.
	defer func() { engine.Of(k.client).Values().CompareAndDelete(k.key(), k.Node) }()
	k.claim()
	for !k.status().over() {
		if session, err := k.client.Session(k.ctx); err == nil {
			k.live(session)
		} else if over := engine.Of(k.client).Over(); over != nil {
			k.update(func(s *status) { s.gone(over) })
		} else {
			k.report(err)
			_ = engine.Sleep(k.ctx, engine.Of(k.client), k.pauses.Next())
		}
	}
	k.left = k.leave()
}

// live keeps the node in one session. It begins with a create: the reply to a write follows all
// earlier writes. After a failed request it pauses.
func (k *keeper) live(session *framework.Session) {
	k.session, k.stat, k.watch, k.mine = session, nil, nil, content{}
	if !k.cfg.persistent() {
		k.owner = session.ID()
	}
	k.update(func(s *status) { s.owners = append(s.owners, k.owner) })
	if earlier := k.debt; earlier != nil {
		k.debt = k.owe(k.Node)
		earlier.Settle() // what may be created late in the earlier session is a separate debt
	}
	k.in = k.client.In(session)
	k.once = engine.Once(k.in)
	for step := k.absent; k.ctx.Err() == nil && session.Err() == nil; step = k.next {
		if err := step(k.ctx); err != nil {
			if !isAnswer(err) {
				k.watch = nil // whatever has happened is looked at before the next request
			}
			k.report(err)
			k.rest(nil, time.After(k.pauses.Next()))
		}
	}
	k.lost(session.Err())
}

// next looks at the node, unless nothing has happened since the last look, and takes the step of
// its state.
func (k *keeper) next(ctx context.Context) error {
	if k.path != "" && (k.watch == nil || wait.Closed(k.watch.Done())) {
		_, stat, watch, err := k.in.ExistsW(ctx, k.path)
		if err != nil {
			return err
		}
		if stat == nil || k.stat != nil && stat.Czxid != k.stat.Czxid { // it is another node
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
	case k.stat.EphemeralOwner == k.owner: // no other Keep of this client has created it: see claim
		return k.owned(ctx)
	}
	return k.taken(ctx)
}

// wasOurs reports whether a node belongs to one of this client's sessions.
func (k *keeper) wasOurs(stat *zk.Stat) bool {
	return slices.Contains(k.status().owners, stat.EphemeralOwner)
}

// absent creates the node, at its earlier path if it had one. A transaction does not create
// parents: they are created after it has failed.
func (k *keeper) absent(ctx context.Context) error {
	k.lost(ErrDeleted)
	err := k.create(ctx)
	if errors.Is(err, zk.ErrNoNode) && !k.cfg.noParents {
		err = engine.Of(k.in).MakeParents(ctx, k.asked)
	}
	return k.again(err)
}

// create creates the node and replaces a foreign node that was seen. If it replaces a node, or a
// late write may arrive, it does so in a transaction that gives the node another version: a write
// in flight does not match it.
func (k *keeper) create(ctx context.Context) (err error) {
	k.oweFirst()
	want, path, other := k.status().want, k.path, k.late()
	var ops []any
	var results []zk.MultiResponse
	if k.stat != nil {
		other, ops = k.stat, append(ops, &zk.DeleteRequest{Path: path, Version: k.stat.Version})
	}
	if path == "" || other == nil {
		client := k.in
		if path == "" && !k.expires() {
			client = engine.Owing(client, &k.debt)
		}
		path, err = client.Create(ctx, cmp.Or(path, k.asked), want.data, k.cfg.creation(path == "")...)
	} else {
		ops = append(ops, k.cfg.request(path))
		if other.Version == 1 {
			ops = append(ops, &zk.SetDataRequest{Path: path, Version: 0})
		}
		ops = append(ops, &zk.SetDataRequest{Path: path, Data: want.data, Version: -1})
		results, err = k.once.Multi(ctx, ops...)
	}
	switch {
	case err == nil:
		k.stat, k.sent = nil, true
		if results != nil {
			k.stat = results[len(ops)-1].Stat
		}
		// Otherwise the next node seen cannot be identified as this node, and is written.
		if k.stat != nil || !k.cfg.persistent() {
			k.mine = want
		}
		if k.path == "" {
			k.path = path
			k.claim() // at once: the name is new
		}
	case retry.Unknown(err) && k.path != "": // without a path the client sees to it that none stays
		k.sent = true
		if !k.expires() {
			k.owe(nil).GiveUp() // if it is carried out after the end of this Node
		}
	case !k.sent: // it was refused
		if k.debt != nil {
			k.debt.CreateEnded("", err)
		}
		k.settled()
	}
	return err
}

// expires reports whether the servers delete the node without a request: with its session, or when
// its time has passed.
func (k *keeper) expires() bool { return !k.cfg.persistent() || k.cfg.ttl > 0 }

// oweFirst registers the node as a debt, until Keep returns it.
func (k *keeper) oweFirst() {
	if k.debt == nil && k.path != "" && !k.expires() && k.status().shown.number == 0 {
		k.debt = k.owe(k.Node)
	}
}

// owe registers the node as a debt of the session. It stays if another Keep of this client has the
// path by then.
func (k *keeper) owe(except *Node) *engine.Debt {
	client, key, owners := engine.Of(k.client), k.key(), k.status().owners
	mine := func(owner int64) bool { return slices.Contains(owners, owner) }
	return client.Owe(k.path, (*engine.Session)(k.session), !k.cfg.persistent(), mine, func() bool {
		n, kept := client.Values().Load(key)
		return kept && n.(*Node) != except && n.(*Node).ctx.Err() == nil
	})
}

// settled ends the debt. It reports false if Close of the client was first.
func (k *keeper) settled() bool {
	debt := k.debt
	k.debt = nil
	return debt == nil || debt.Settle()
}

// again lets the node be read again after a write, even after a write that failed because the node
// is no longer the node that was seen. Other errors are returned.
func (k *keeper) again(err error) error {
	gone := k.stat != nil && errors.Is(err, zk.ErrNoNode) // and not its parent
	if err == nil || gone || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) {
		k.watch = nil
		return nil
	}
	return err
}

// owned writes to the node, shows it and waits. If a server refuses the write, the node is kept as
// it is.
func (k *keeper) owned(ctx context.Context) error {
	k.sent = true
	k.oweFirst()
	k.mine.mzxid = cmp.Or(k.mine.mzxid, k.stat.Czxid) // it may have been created just now
	if k.late() != nil && k.stat.Mzxid != k.mine.mzxid {
		k.mine.number = 0 // perhaps a late write of this Keep, with older data
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

// write brings the data up to date. It names the version, so that the write does not hit another
// owner's node: see the package comment.
func (k *keeper) write(ctx context.Context) error {
	want := k.status().want
	if want.number == k.mine.number {
		return nil
	}
	stat, err := k.once.Set(ctx, k.path, want.data, framework.IfVersion(k.stat.Version))
	switch {
	case err == nil && stat.Czxid == k.stat.Czxid:
		k.mine, k.stat = content{want.number, want.data, stat.Mzxid}, stat
		return nil
	case err == nil && !k.wasOurs(stat):
		engine.Of(k.client).Logger().Error("another owner's node was overwritten after the kept node was deleted", "path", k.path, "reason", takenBy(stat))
	case retry.Unknown(err):
		// Servers end a session once per tick, half a timeout late at most.
		values, key, stat := engine.Of(k.client).Values(), lateKey(k.key()), k.stat
		values.Store(key, stat)
		time.AfterFunc(2*k.session.Timeout(), func() { values.CompareAndDelete(key, stat) })
	}
	if err = k.again(err); err != nil && isAnswer(err) {
		k.update(func(s *status) { s.refused, s.refusal, s.err = want.number, operr.Bare(err), operr.Bare(err) })
	}
	return err
}

// show reports the node as present, and a refused write, if any. From then on the session notifies
// the Node of its end.
//
// It fails if the session has ended already. A session that was not confirmed for long is confirmed
// first.
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
			if !k.settled() {
				s.gone(framework.ErrClosed)
				err = framework.ErrClosed
				return
			}
			s.shown, s.err = k.mine, operr.Bare(refusal)
		})
		return nil, err
	})
}

// touch writes to the touch child of a node with a TTL, when half the TTL has passed. A failed
// write is repeated after a pause.
func (k *keeper) touch(ctx context.Context) error {
	if !k.touchDue {
		return nil
	}
	path := framework.Join(k.path, "touch")
	data := engine.Of(k.client).DefaultData()
	_, err := k.in.Set(ctx, path, data)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = k.in.Create(ctx, path, data, framework.TTL(k.cfg.ttl))
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	k.touchDue = false // the child exists, or the node is created again
	return nil
}

// update changes the published status, unless Close has set the final one.
func (k *keeper) update(change func(*status)) {
	k.now.Set(func(s *status) {
		if k.ctx.Err() == nil {
			change(s)
		}
	})
}

// lost reports a node that was shown as absent: it was deleted, or the session can no longer be
// depended on.
func (k *keeper) lost(reason error) {
	k.update(func(s *status) {
		if s.present() {
			s.gone(reason)
			k.wake.Raise()
		}
	})
}

// taken waits until another owner's node is deleted. It deletes the node if that belongs to an
// earlier session of this client, or is to be replaced.
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

// takenBy is the error for another owner's node. A persistent node has the owner 0.
func takenBy(stat *zk.Stat) error {
	return fmt.Errorf("%w: ephemeralOwner %#x", ErrTaken, uint64(stat.EphemeralOwner))
}

// clear deletes the node of an earlier session of this client, by its version. That session may
// expire at this moment, and another client may create a node of the same version: so the first
// operation reads whose node it was.
func (k *keeper) clear(ctx context.Context) error {
	results, err := k.once.Multi(ctx, &zk.SetDataRequest{Path: k.path, Version: k.stat.Version},
		&zk.DeleteRequest{Path: k.path, Version: k.stat.Version + 1})
	if err == nil && !k.wasOurs(results[0].Stat) {
		return takenBy(results[0].Stat) // its owner creates it again during the pause
	}
	return k.again(err)
}

// rest waits until there is work to do, or until fired or timer is ready.
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

// report shows an obstacle. A server's refusal is logged once, unless Keep returns it.
func (k *keeper) report(err error) {
	switch {
	case verdict.Retryable(err) && verdict.Of(k.status().err) == verdict.Over:
		return // the connection is in trouble, as is known
	case k.status().shown.number == 0 && k.fails(err):
	case isAnswer(err) && err.Error() != k.logged:
		k.logged = err.Error()
		engine.Of(k.client).Logger().Warn("node not kept", "path", k.asked, "reason", err)
	}
	k.update(func(s *status) { s.err = operr.Bare(err) })
}

// isAnswer reports whether err is the answer of a server that was reached.
func isAnswer(err error) bool { return verdict.Of(err) == verdict.Answered }

// pathKey is a path on the server. Among the values of a client it finds the Node that has the
// path.
type pathKey string

func (k *keeper) key() pathKey { return pathKey(engine.Of(k.client).Real(k.path)) }

// claim waits until no other Keep of this client has the path, or until the end. Their nodes would
// have the same owner.
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

// lateKey is a path on the server. Among the values of a client it finds the stat of a node whose
// version an unanswered write names. That write may still be carried out, even in a node that was
// created since, by this Keep or the next Keep.
type lateKey string

// late returns that stat, or nil if there is no such write.
func (k *keeper) late() *zk.Stat {
	v, _ := engine.Of(k.client).Values().Load(lateKey(k.key()))
	stat, _ := v.(*zk.Stat)
	return stat
}

// closeTimeout limits how long a Close waits for the servers. It is much less than the time after
// which an orchestrator kills a process.
const closeTimeout = 5 * time.Second

// leave deletes the node. It returns when that is confirmed, when the session of an ephemeral node
// is over, or after closeTimeout; then the deletion continues in the background. The error is the
// server's refusal, the error of [engine.Client.Over] if a persistent node remains, or the reason
// why the deletion is not confirmed.
func (k *keeper) leave() error {
	if !k.sent || k.cfg.ttl > 0 {
		k.settled()
		return nil // there is none, or its time passes
	}
	debt := k.debt
	switch {
	case debt != nil:
	case k.ctx.Err() == nil && k.cfg.persistent(): // the client is over, and the Node was not closed
		return engine.Of(k.client).Over()
	default:
		debt = k.owe(k.Node)
	}
	ctx := context.Background()
	if !k.cfg.persistent() {
		ctx = k.session.Context()
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	switch err := debt.Await(ctx); {
	case ctx.Err() == nil:
		return err
	case k.session.Err() != nil && !k.cfg.persistent():
		return nil
	}
	return fmt.Errorf("node may remain, deletion not confirmed: %w", engine.Of(k.client).GaveUp(ctx, nil))
}
