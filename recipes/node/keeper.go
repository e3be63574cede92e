package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// keeper is what the goroutine of a Node knows. Nobody else has it.
type keeper struct {
	*Node
	path    string // "" until it is chosen
	number  int64  // of a sequential node without protection; -1 until it is chosen
	pause   backoff.BackOff
	session *framework.Session // the one that lives, or the last one; nil before the first
	kept    bool               // the node was there once
	sent    bool               // there may be a node of ours in this session
	unsure  bool               // the outcome of a create or a deletion is not known
	made    content            // of a create of ours that was answered
	late    time.Time          // until then a persistent node may come that was asked for in a session that is over

	absent  bool // the node must be made before it is looked at
	view    view
	czxid   int64 // of the node that was ours
	written content
	mzxid   int64           // of the node when we had written that
	passed  bool            // the claim was passed on to another Keep of this client that came later
	claimed bool            // no other Keep of this client may have a node there: see claims
	blocked <-chan struct{} // closed when another Keep of this client may have left, or has made its node; nil: we do not wait for that
	depends *dependency
	touched time.Time // when the touch child was written, or the node was found
	logged  string    // the last reason

	taken    content // what the servers took last; the node that is there now may hold something else
	hungUpOn int64   // the content that was sent last when the connection ended
	hangUps  int     // how often in a row that was so
	tooLong  int64   // the content that is not sent any more; 0: none
}

// view is what was seen when the node was looked at.
type view struct {
	found bool
	stat  *zk.Stat
	watch *framework.Watch // nil: look again
	fresh bool             // the server had caught up just before
}

// dependency is our interest in the session while the node is there.
type dependency struct {
	stop func() bool
	told bool // guarded by Node.mu: the session is in trouble
}

// Pauses between tries of what a server refuses or cannot do.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

func newPause() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstPause),
		backoff.WithMaxInterval(lastPause),
		backoff.WithMaxElapsedTime(0)) // for ever
}

func newKeeper(n *Node) *keeper {
	k := &keeper{Node: n, number: -1, pause: newPause()}
	if !n.cfg.protected && !n.cfg.sequential {
		k.path = n.asked
	}
	return k
}

// run keeps the node, in one session after the other, and deletes it at the end.
func (k *keeper) run() {
	defer close(k.done)
	for k.ctx.Err() == nil {
		err := k.connect()
		if errors.Is(err, framework.ErrClosed) {
			k.releaseClaim()
			k.end(err)
			return
		}
		if err != nil {
			k.rest(nil, err)
			continue
		}
		ctx := framework.InSession(k.ctx, k.session)
		for k.lives() {
			k.rest(k.session.Done(), k.round(ctx))
		}
		k.leaveSession()
	}
	left := k.leave()
	k.set(func() { k.left = left })
}

// end is for a client that is closed.
func (k *keeper) end(reason error) {
	k.set(func() {
		k.present, k.err = false, reason
		if k.cfg.persistent && k.cfg.ttl == 0 {
			k.left = fmt.Errorf("close %s: %w", k.asked, reason)
		}
	})
}

// connect waits for a session.
func (k *keeper) connect() error {
	if !k.client.State().IsConnected() && k.Err() == nil {
		k.trouble(&framework.OpError{Op: "connect", Path: "/", Err: zk.ErrNoServer})
	}
	if err := k.client.WaitConnected(k.ctx); err != nil {
		return err
	}
	session, err := k.client.Session(k.ctx)
	if err == nil {
		err = session.Err()
	}
	if err != nil {
		return err
	}
	k.session, k.sent, k.unsure = session, k.sent && k.cfg.persistent, false
	k.absent = !k.cfg.persistent || !k.kept // else it is there, most likely
	return nil
}

// leaveSession forgets what is true in one session only.
func (k *keeper) leaveSession() {
	err := k.session.Err()
	if err == nil {
		return // the node is closed
	}
	if k.Err() == nil { // nobody told us, since we did not depend on the session
		k.missing(err)
	}
	k.release()
	k.view, k.made = view{}, content{}
	k.releaseClaim()
	k.expectLate()
}

// expectLate notes that the session is over for us. For the servers it may not be yet: they may carry out a create that has not
// been answered. They end sessions once per tick, which is half a timeout at most.
func (k *keeper) expectLate() {
	if k.cfg.persistent && k.unsure {
		k.late = time.Now().Add(k.session.Timeout() * 3 / 2)
	}
}

// lives reports whether to go on in this session.
func (k *keeper) lives() bool { return k.ctx.Err() == nil && k.session.Err() == nil }

// errAgain means that the node has changed since it was looked at.
var errAgain = errors.New("look again")

// round does what is to be done now: makes the node, looks at it, writes to it. It returns nil when there is
// nothing more to do until something happens.
func (k *keeper) round(ctx context.Context) error {
	if k.path != "" {
		if alone, err := k.claim(ctx); !alone {
			return err
		}
	}
	if k.absent {
		if err := k.create(ctx); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		if k.absent = false; !k.claimed {
			return errAgain // the path is known only now
		}
	}
	if err := k.look(ctx); err != nil {
		return err
	}
	stat := k.view.stat
	switch {
	case !k.view.found:
		k.lose(ErrDeleted)
		k.absent = true
		return errAgain
	case k.ours(stat):
		return k.hold(ctx)
	case k.former(stat.EphemeralOwner):
		k.lose(framework.ErrSessionLost)
		if !k.view.fresh { // a server that lags behind shows it when another's may be there
			k.view, k.unsure = view{}, true
			return errAgain
		}
		return k.replace(ctx)
	case k.cfg.sequential && !k.kept:
		k.absent = true
		return k.choose(ctx) // another number
	case k.cfg.taken == Replace && !k.kept:
		return k.replace(ctx)
	}
	taken := &framework.OpError{Op: "keep", Path: k.path, Err: takenBy(stat)}
	k.lose(taken)
	k.log(taken)
	k.unclaim()
	return nil
}

// look looks at the node, unless nothing has happened since it was looked at.
func (k *keeper) look(ctx context.Context) error {
	if k.view.watch != nil && !k.stale() {
		return nil
	}
	if k.view.watch != nil && k.view.watch.Event().Type == zk.EventNodeDeleted {
		k.gone()
	}
	k.view = view{}
	fresh := k.unsure
	if fresh {
		if err := k.catchUp(ctx); err != nil {
			return err
		}
	}
	found, stat, watch, err := k.client.ExistsW(ctx, k.path)
	if err != nil {
		return err
	}
	k.view = view{found, stat, watch, fresh}
	return nil
}

// stale reports whether something has happened to the node since it was looked at.
func (k *keeper) stale() bool {
	select {
	case <-k.view.watch.Done():
		return true
	default:
		return false
	}
}

// gone notes that a server has told us that the node was deleted. What is there now only the next look can tell, which may take
// its time.
func (k *keeper) gone() {
	k.deleted()
	k.view = view{}
}

// ours reports whether the node that was seen is the one that we keep. That no other Keep of this client has made it is
// for the claim to say.
func (k *keeper) ours(stat *zk.Stat) bool {
	if k.cfg.persistent {
		return stat.EphemeralOwner == 0
	}
	return stat.EphemeralOwner == k.session.ID()
}

// appear makes it known that the node is there, and what is in the way nevertheless, if anything. It fails
// if the session is in trouble, or if something has happened to a node that is not shown yet.
func (k *keeper) appear(trouble error) error {
	if trouble == nil {
		k.pause.Reset()
		k.logged = ""
	}
	if k.depends == nil || k.depends.isTold(&k.mu) {
		d := &dependency{}
		stop, err := k.session.Depend(k.cfg.policy, func(cause error) { k.doubt(d, cause) })
		if err != nil {
			return err
		}
		d.stop, k.depends = stop, d
	}
	if there, _ := k.Present(); !there && k.stale() {
		return errAgain // perhaps it is another's by now
	}
	k.kept = true
	claims.seen(k.key(), k.Node)
	k.mu.Lock()
	same := k.present && text(k.err) == text(trouble) && k.shown.number == k.written.number && k.shown.mzxid == k.mzxid
	k.mu.Unlock()
	if same {
		return nil
	}
	d, shown := k.depends, record{k.written, k.mzxid}
	k.set(func() {
		k.Node.path, k.shown = k.path, shown
		if !d.told && k.ctx.Err() == nil {
			k.present, k.err = true, trouble
		}
	})
	return nil
}

// text is what an error says; nil says nothing.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// doubt is told that the session is in trouble. It does not block.
func (k *keeper) doubt(d *dependency, cause error) {
	k.set(func() {
		d.told, k.present = true, false
		k.because(cause)
	})
	k.notify()
}

func (d *dependency) isTold(mu *sync.Mutex) bool {
	mu.Lock()
	defer mu.Unlock()
	return d.told
}

// lose notes that the node that is there, if any, is not ours.
func (k *keeper) lose(reason error) {
	if (k.kept || errors.Is(reason, ErrTaken)) && text(k.Err()) != text(reason) {
		k.missing(reason) // while we depend on the session
	}
	k.release()
	k.sent, k.made, k.czxid = false, content{}, 0
}

// release ends the interest in the session.
func (k *keeper) release() {
	if k.depends != nil {
		k.depends.stop()
		k.depends = nil
	}
}

// rest waits until there is something to do. err is what came of the last try; over is closed when
// it would be in vain.
func (k *keeper) rest(over <-chan struct{}, err error) {
	if errors.Is(err, errAgain) {
		return
	}
	var timer <-chan time.Time
	touches, due := k.cfg.ttl > 0 && k.depends != nil, time.Until(k.touched.Add(k.cfg.ttl/2))
	switch {
	case err != nil:
		k.report(err)
		pause := k.pause.NextBackOff()
		if touches && due > 0 {
			pause = min(pause, due)
		}
		timer = time.After(pause)
	case touches:
		timer = time.After(due)
	}
	var watch <-chan struct{}
	if k.view.watch != nil {
		watch = k.view.watch.Done()
	}
	select {
	case <-timer:
	case <-watch:
	case <-k.blocked:
	case <-over:
	case <-k.wake:
	case <-k.ctx.Done():
	}
}

// report makes known what is in the way.
func (k *keeper) report(err error) {
	if k.ctx.Err() != nil || !refusal(err) && inDoubt(k.Err()) {
		return // the connection is in trouble, as is known
	}
	k.trouble(err)
	if refusal(err) {
		k.log(err)
	}
}

// log writes a line for each new reason why the node is not as it should be.
func (k *keeper) log(reason error) {
	if text(reason) != k.logged {
		k.logged = text(reason)
		k.client.Logger().Warn("node is not kept", "path", k.asked, "reason", reason)
	}
}
