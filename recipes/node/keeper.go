package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// state is what a keeper knows of its node. The package comment has the table of the states.
type state int

const (
	unseen state = iota
	absent
	ours
	left
	taken
	refused
)

// keeper is what the goroutine of a Node knows. Nobody else has it.
type keeper struct {
	*Node
	path    string // "" until it is chosen
	unclaim func() // gives the path to the next Keep of this client
	state   state
	retry   state // after refused
	pauses  wait.Pauses
	session *framework.Session // the one that lives, or the last one; nil before the first

	stat  *zk.Stat         // as the node was seen last; nil: there is none
	watch *framework.Watch // of that look; nil: look again

	kept     bool  // the node was there once
	sent     bool  // there may be a node of ours
	czxid    int64 // of the node that is ours
	mzxid    int64 // of our last write to it
	written  content
	made     content   // by a create that was answered, until the node is looked at
	accepted content   // what the servers took last; the node that is there may hold something else
	tooLong  refusal   // the content that was too long, and is not sent any more
	late     time.Time // until then a write of ours may be carried out that was not answered
	depends  *dependency
	touched  time.Time // when the touch child was written, or the node was found
	logged   string    // the last reason
}

// dependency is our interest in the session while the node is there.
type dependency struct {
	stop  func() bool
	ended atomic.Bool // the session is in trouble; it is set while Node.now is
}

// errAgain means that the node has changed since it was looked at.
var errAgain = errors.New("look again")

// run keeps the node, in one session after the other, and deletes it at the end.
func (k *keeper) run() {
	defer close(k.done)
	defer func() { k.unclaim() }()
	var err error
	if k.path != "" {
		err = k.claim()
	}
	for err == nil && k.ctx.Err() == nil {
		switch err = k.connect(); {
		case err == nil:
			k.live()
		case !errors.Is(err, framework.ErrClosed):
			k.report(err)
			_ = wait.Sleep(k.ctx, k.pauses.Next())
			err = nil
		}
	}
	if errors.Is(err, framework.ErrClosed) {
		k.end(err)
		return
	}
	gone := k.leave()
	k.now.Set(func(s *status) { s.left = gone })
}

// end is for a client that is closed.
func (k *keeper) end(reason error) {
	k.now.Set(func(s *status) {
		s.present, s.err = false, reason
		if k.cfg.persistent && k.cfg.ttl == 0 {
			s.left = failed("close", k.asked, reason)
		}
	})
}

// connect waits for a session, and begins with it.
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
	k.session, k.state, k.watch, k.made = session, absent, nil, content{}
	if k.cfg.persistent && k.kept {
		k.state = unseen // it is there, most likely
	}
	k.noteSession(session.ID())
	return nil
}

// live keeps the node in one session.
func (k *keeper) live() {
	ctx := framework.InSession(k.ctx, k.session)
	for k.ctx.Err() == nil && k.session.Err() == nil {
		switch err := k.step(ctx); {
		case err == nil:
		case errors.Is(err, errAgain):
			k.state = unseen
		default:
			k.report(err)
			if k.state != absent {
				k.state = unseen
			}
			k.state, k.retry = refused, k.state
		}
	}
	if err := k.session.Err(); err != nil {
		if k.Err() == nil { // nobody depended on the session
			k.missing(err)
		}
		k.release()
	}
}

// step does what the state asks for.
func (k *keeper) step(ctx context.Context) error {
	switch k.state {
	case unseen:
		return k.look(ctx)
	case absent:
		return k.create(ctx)
	case ours:
		return k.hold(ctx)
	case left:
		return k.clear(ctx)
	case taken:
		if k.cfg.taken == Replace && !k.kept {
			return k.replace(ctx)
		}
		reason := k.takenBy(k.stat)
		k.lose(reason)
		k.log(reason)
		k.sent = k.sent && !k.cfg.persistent // a persistent node is not known by its owner
		k.rest(0)
		k.state = unseen
	case refused:
		k.rest(k.untilTouch(k.pauses.Next()))
		k.state = k.retry
	}
	return nil
}

// look looks at the node, unless nothing has happened since it was looked at.
func (k *keeper) look(ctx context.Context) error {
	if k.watch == nil || wait.Closed(k.watch.Done()) {
		if k.watch != nil && k.watch.Event().Type == zk.EventNodeDeleted {
			k.deleted() // what is there now only the look can tell, which may take its time
		}
		k.watch = nil
		_, stat, watch, err := k.client.ExistsW(ctx, k.path)
		if err != nil {
			return err
		}
		k.stat, k.watch = stat, watch
	}
	switch {
	case k.stat == nil:
		k.lose(ErrDeleted)
		k.state = absent
	case k.isOurs(k.stat):
		k.state = ours
	case k.isLeft(k.stat):
		k.state = left
	default:
		k.state = taken
	}
	return nil
}

// isOurs reports whether a node is the one that we keep. No other Keep of this client has made it: see claim.
func (k *keeper) isOurs(stat *zk.Stat) bool {
	if k.cfg.persistent {
		return stat.EphemeralOwner == 0
	}
	return stat.EphemeralOwner == k.session.ID()
}

// isLeft reports whether a node is of an earlier session of ours. A persistent one is of none.
func (k *keeper) isLeft(stat *zk.Stat) bool {
	return !k.cfg.persistent && !k.isOurs(stat) && k.status().sessions[stat.EphemeralOwner]
}

// takenBy is why a node that is not ours is in the way. Without a stat it is another Keep of this client.
func (k *keeper) takenBy(stat *zk.Stat) error {
	by := "another Keep of this client"
	switch {
	case stat == nil:
	case stat.EphemeralOwner == 0:
		by = "a persistent node"
	default:
		by = fmt.Sprintf("session %#x", uint64(stat.EphemeralOwner))
	}
	return &framework.OpError{Op: "keep", Path: k.path, Err: fmt.Errorf("%w: %s", ErrTaken, by)}
}

// hold is for the node that is there and ours. If a server refuses what is to be written, the node is kept with what it holds.
func (k *keeper) hold(ctx context.Context) error {
	if wait.Closed(k.watch.Done()) {
		return errAgain // perhaps it is another's by now
	}
	if k.stat.Czxid != k.czxid {
		k.czxid, k.mzxid, k.written, k.touched = k.stat.Czxid, k.stat.Czxid, k.made, time.Now()
	}
	if k.stat.Mzxid != k.mzxid && time.Now().Before(k.late) {
		k.written = content{} // perhaps it was a late write of ours, with older data
	}
	k.made, k.sent = content{}, true
	trouble := k.write(ctx)
	if errors.Is(trouble, errAgain) || trouble != nil && (!isAnswer(trouble) || k.written.number == 0) {
		return trouble
	}
	if err := k.touch(ctx); err != nil && (trouble == nil || errors.Is(err, errAgain)) {
		trouble = err
	}
	if errors.Is(trouble, errAgain) || k.session.Err() != nil {
		return trouble
	}
	if err := k.show(ctx, trouble); err != nil {
		return err
	}
	if trouble == nil {
		k.rest(k.untilTouch(0))
		k.state = unseen
	}
	return trouble
}

// show makes it known that the node is there, and what is in the way nevertheless, if anything. It fails
// if the session is in trouble, or if something has happened to a node that is not shown yet.
func (k *keeper) show(ctx context.Context, trouble error) error {
	if trouble == nil {
		k.pauses.Reset()
		k.logged = ""
	}
	err := k.depend()
	if errors.Is(err, framework.ErrSessionLost) && k.session.Err() == nil {
		// The last word of the leader is older than the session timeout: this process was slow. A write is its next
		// word. Nobody asks for one as long as nobody depends on the session. If the connection has just come to life again
		// the write proves nothing yet, and it is tried again after a pause.
		if err = k.client.CatchUp(ctx); err == nil {
			err = k.depend()
		}
	}
	if err != nil {
		return err
	}
	now := k.status()
	if !now.present && wait.Closed(k.watch.Done()) {
		return errAgain // perhaps it is another's by now
	}
	k.kept = true
	shown := record{k.written, k.mzxid}
	if now.present && text(now.err) == text(trouble) && now.shown.number == shown.number && now.shown.mzxid == shown.mzxid {
		return nil
	}
	d := k.depends
	k.now.Set(func(s *status) {
		s.path, s.shown = k.path, shown
		if !d.ended.Load() && k.ctx.Err() == nil {
			s.present, s.err = true, trouble
		}
	})
	return nil
}

// depend has the session report when it is in trouble.
func (k *keeper) depend() error {
	if k.depends != nil && !k.depends.ended.Load() {
		return nil
	}
	k.release()
	d := &dependency{}
	stop, err := k.session.Depend(k.cfg.policy, func(cause error) {
		k.now.Set(func(s *status) {
			d.ended.Store(true)
			s.present = false
			k.because(s, cause)
		})
		k.wake.Raise()
	})
	if err != nil {
		return err
	}
	d.stop, k.depends = stop, d
	return nil
}

// release ends the interest in the session.
func (k *keeper) release() {
	if k.depends != nil {
		k.depends.stop()
		k.depends = nil
	}
}

// lose notes that the node that is there, if any, is not ours.
func (k *keeper) lose(reason error) {
	if (k.kept || errors.Is(reason, ErrTaken)) && text(k.Err()) != text(reason) {
		k.missing(reason) // while we depend on the session
	}
	k.release()
	k.czxid = 0
}

// rest waits until there is something to do, for d at most unless it is 0.
func (k *keeper) rest(d time.Duration) {
	var timer <-chan time.Time
	if d > 0 {
		timer = time.After(d)
	}
	var fired <-chan struct{}
	if k.watch != nil {
		fired = k.watch.Done()
	}
	select {
	case <-timer:
	case <-fired:
	case <-k.session.Done():
	case <-k.wake.C():
	case <-k.ctx.Done():
	}
}

// report makes known what is in the way.
func (k *keeper) report(err error) {
	if k.ctx.Err() != nil || !isAnswer(err) && retry.Judge(k.Err()) == retry.Over {
		return // the connection is in trouble, as is known
	}
	k.trouble(err)
	if isAnswer(err) {
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

// isAnswer reports whether err is the answer of a server that was reached.
func isAnswer(err error) bool { return err != nil && retry.Judge(err) == retry.Answered }
