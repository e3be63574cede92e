package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
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
)

// keeper is what the goroutine of a Node knows. Nobody else has it.
type keeper struct {
	*Node
	path    string // "" until it is chosen
	state   state
	pauses  wait.Pauses
	session *framework.Session // the one that lives, or the last one; nil before the first
	depends *dependency        // on it; nil: none

	stat  *zk.Stat         // as the node was seen last; nil: there is none
	watch *framework.Watch // of that look; nil: look again

	mine    record
	sent    bool      // there may be a node of ours
	late    time.Time // until then a write of ours may be carried out that was not answered
	touched time.Time // when the touch child was written, or the node was found
	logged  string    // the last reason
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
	defer k.free()
	var err error
	if k.path != "" {
		err = k.claim()
	}
	for k.ctx.Err() == nil && !errors.Is(err, framework.ErrClosed) {
		if err = k.connect(); err == nil {
			k.live()
		} else {
			k.report(err)
			_ = engine.Sleep(k.ctx, engine.Of(k.client), k.pauses.Next())
		}
	}
	if errors.Is(err, framework.ErrClosed) {
		k.missing(framework.ErrClosed)
		if k.cfg.persistent && k.cfg.ttl == 0 {
			k.now.Set(func(s *status) { s.left = framework.ErrClosed })
		}
		return
	}
	err = k.leave()
	k.now.Set(func(s *status) { s.left = err })
}

// connect waits for a session, and begins with it.
func (k *keeper) connect() error {
	session, err := k.client.Session(k.ctx)
	if err != nil {
		return err
	}
	k.session, k.state, k.watch = session, absent, nil
	k.mine.number, k.mine.czxid = 0, 0
	if k.cfg.persistent && k.status().shown.number > 0 {
		k.state = unseen // it is there, most likely
	}
	k.now.Set(func(s *status) { s.sessions = append(s.sessions, session.ID()) })
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
			k.rest(k.untilTouch(k.pauses.Next()))
			if k.state != absent {
				k.state = unseen
			}
		}
	}
	if err := k.session.Err(); err != nil {
		if k.status().err == nil { // nobody depended on the session
			k.missing(err)
		}
		k.release()
	}
}

// step does what the state asks for.
func (k *keeper) step(ctx context.Context) error {
	switch k.state {
	case absent:
		return k.create(ctx)
	case ours:
		return k.hold(ctx)
	case left:
		return k.clear(ctx)
	case taken:
		if k.cfg.taken == Replace && k.status().shown.number == 0 {
			return k.replace(ctx)
		}
		reason := takenBy(k.stat)
		k.lose(reason)
		k.report(reason)
		k.sent = k.sent && !k.cfg.persistent // a persistent node is not known by its owner
		k.rest(0)
		k.state = unseen
		return nil
	}
	return k.look(ctx)
}

// look looks at the node, unless nothing has happened since it was looked at.
func (k *keeper) look(ctx context.Context) error {
	if k.watch == nil || wait.Closed(k.watch.Done()) {
		k.believe() // what is there now only the look can say, which may take its time
		k.watch = nil
		_, stat, watch, err := k.client.ExistsW(ctx, k.path)
		if err != nil {
			return err
		}
		k.stat, k.watch = stat, watch
	}
	if k.stat == nil {
		k.lose(ErrDeleted)
		k.state = absent
		return nil
	}
	k.state = k.whose(k.stat)
	return nil
}

// believe takes the node for gone if the watch has said that it was deleted.
func (k *keeper) believe() {
	if k.watch != nil && k.watch.Event().Type == zk.EventNodeDeleted {
		k.deleted()
	}
}

// deleted notes that the node was deleted, if it was shown.
func (k *keeper) deleted() {
	if k.status().present {
		k.missing(ErrDeleted)
	}
}

// whose is the state of a node that is there: ours, left or taken. No other Keep of this client has made it: see claim.
func (k *keeper) whose(stat *zk.Stat) state {
	owner := stat.EphemeralOwner
	switch {
	case k.cfg.persistent && owner == 0:
		return ours
	case k.cfg.persistent:
		return taken
	case owner == k.session.ID():
		return ours
	case slices.Contains(k.status().sessions, owner):
		return left
	}
	return taken
}

// takenBy is why a node that is not ours is in the way.
func takenBy(stat *zk.Stat) error {
	if stat.EphemeralOwner == 0 {
		return fmt.Errorf("%w: a persistent node", ErrTaken)
	}
	return fmt.Errorf("%w: session %#x", ErrTaken, uint64(stat.EphemeralOwner))
}

// hold is for the node that is there and ours. If a server refuses what is to be written, the node is kept with what it holds.
func (k *keeper) hold(ctx context.Context) error {
	if wait.Closed(k.watch.Done()) {
		return errAgain // perhaps it is another's by now
	}
	if k.stat.Czxid != k.mine.czxid {
		if k.mine.czxid != 0 { // or it is the one that was made just now
			k.mine.number = 0
		}
		k.mine.czxid, k.mine.mzxid, k.touched = k.stat.Czxid, k.stat.Czxid, time.Now()
	}
	if k.stat.Mzxid != k.mine.mzxid && time.Now().Before(k.late) {
		k.mine.number = 0 // perhaps it was a late write of ours, with older data
	}
	k.sent = true
	refusal := k.write(ctx)
	if refusal != nil && (!isAnswer(refusal) || k.mine.number == 0) {
		return refusal
	}
	if err := k.touch(ctx); err != nil {
		if !isAnswer(err) {
			return err
		}
		if refusal == nil {
			refusal = err
		}
	}
	if err := k.show(ctx, refusal); err != nil {
		return err
	}
	if refusal != nil {
		return refusal
	}
	k.pauses.Reset()
	k.logged = ""
	k.rest(k.untilTouch(0))
	k.state = unseen
	return nil
}

// show makes it known that the node is there, and what is refused nevertheless, if anything. It fails
// if the session is in trouble, or if something has happened to a node that is not shown yet.
func (k *keeper) show(ctx context.Context, refusal error) error {
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
	now, d := k.status(), k.depends
	switch {
	case !now.present && wait.Closed(k.watch.Done()):
		return errAgain // perhaps it is another's by now
	case now.present && now.err == nil && refusal == nil && now.shown.number == k.mine.number && now.shown.mzxid == k.mine.mzxid:
		return nil // nothing is new
	}
	k.now.Set(func(s *status) {
		s.path, s.shown = k.path, k.mine
		if !d.ended.Load() {
			s.present, s.err = true, follow.Bare(refusal)
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
			s.present, s.err = false, cause
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
	k.missing(reason) // while we depend on the session
	k.release()
	k.mine.number, k.mine.czxid = 0, 0
}

// missing notes that the node is not there.
func (k *keeper) missing(reason error) {
	k.now.Set(func(s *status) { s.present, s.err = false, reason })
}

// report makes known what is in the way. What a server refuses is logged once.
func (k *keeper) report(err error) {
	switch answer := isAnswer(err); {
	case k.ctx.Err() != nil:
		return
	case !answer && retry.Judge(k.status().err) == retry.Over:
		return // the connection is in trouble, as is known
	case answer && err.Error() != k.logged:
		k.logged = err.Error()
		k.client.Logger().Warn("node is not kept", "path", k.asked, "reason", err)
	}
	k.now.Set(func(s *status) { s.err = follow.Bare(err) })
}

// isAnswer reports whether err is the answer of a server that was reached.
func isAnswer(err error) bool {
	return err != nil && !errors.Is(err, errAgain) && retry.Judge(err) == retry.Answered
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
