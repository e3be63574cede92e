package node

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
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
	absent state = iota
	ours
	taken
	refused
)

// keeper is what the goroutine of a Node knows. Nobody else has it.
type keeper struct {
	*Node
	path    string // "" until it is chosen
	pauses  wait.Pauses
	session *framework.Session // the one that lives, or the last one; nil before the first

	stat  *zk.Stat         // as the node was seen last; nil: there is none
	watch *framework.Watch // of that look; nil: look again

	mine   record
	sent   bool      // there may be a node of ours
	late   lateWrite // that may still be carried out
	logged string    // the last reason
}

// lateWrite is a write of ours that was not answered. It goes to a node with this version, also to one that was made meanwhile.
type lateWrite struct {
	version int32
	until   time.Time
}

// errAgain means that the node has changed since it was looked at.
var errAgain = errors.New("look again")

// run keeps the node, in one session after the other, and deletes it at the end.
func (k *keeper) run() {
	defer close(k.done)
	defer k.free()
	if k.cfg.ttl > 0 {
		var touching sync.WaitGroup
		defer touching.Wait()
		touching.Go(k.touch) // ends with the Node or the client
	}
	err := k.claim()
	for k.ctx.Err() == nil && !errors.Is(err, framework.ErrClosed) {
		var session *framework.Session
		if session, err = k.client.Session(k.ctx); err == nil {
			k.live(session)
		} else {
			k.report(err)
			_ = engine.Sleep(k.ctx, engine.Of(k.client), k.pauses.Next())
		}
	}
	left := k.leave(errors.Is(err, framework.ErrClosed))
	k.now.Set(func(s *status) { s.left = left })
}

// live keeps the node in one session. It begins with a create: the answer to a write comes after all that was written before.
func (k *keeper) live(session *framework.Session) {
	k.session, k.watch = session, nil
	k.now.Set(func(s *status) { s.sessions = append(s.sessions, session.ID()) })
	ctx := framework.InSession(k.ctx, session)
	for state := absent; k.ctx.Err() == nil && session.Err() == nil; {
		err := k.step(ctx, state)
		if err == nil || errors.Is(err, errAgain) {
			state, err = k.look(ctx)
		}
		if err != nil {
			k.report(err)
			state = refused
		}
	}
	if err := session.Err(); err != nil {
		k.missing(err)
	}
}

// step does what the state asks for. After it the node is looked at.
func (k *keeper) step(ctx context.Context, state state) error {
	switch state {
	case absent:
		return k.create(ctx)
	case ours:
		return k.hold(ctx)
	case taken:
		return k.waitOrReplace(ctx)
	}
	k.rest(k.pauses.Next())
	return nil
}

// look looks at the node, unless nothing has happened since it was looked at, and says in which state it is.
func (k *keeper) look(ctx context.Context) (state, error) {
	if k.path == "" {
		return absent, nil
	}
	if k.watch == nil || wait.Closed(k.watch.Done()) {
		_, stat, watch, err := k.client.ExistsW(ctx, k.path)
		k.stat, k.watch = stat, watch
		if err != nil {
			return refused, err
		}
		if stat != nil && k.isOurs(stat) {
			(*engine.Watch)(watch).OnFire(k.fired)
		}
	}
	switch {
	case k.stat == nil:
		return absent, nil
	case k.isOurs(k.stat):
		return ours, nil
	}
	return taken, nil
}

// fired is called when the watch of a look fires, whatever the keeper waits for at that moment.
func (k *keeper) fired(e zk.Event, _ *engine.Session) {
	if e.Type == zk.EventNodeDeleted {
		k.deleted()
	}
}

// isOurs reports whether a node is of our session. No other Keep of this client has made it: see claim.
func (k *keeper) isOurs(stat *zk.Stat) bool {
	if k.cfg.persistent {
		return stat.EphemeralOwner == 0
	}
	return stat.EphemeralOwner == k.session.ID()
}

// wasOurs reports whether a node is of a session of ours, this one included.
func (k *keeper) wasOurs(stat *zk.Stat) bool {
	return !k.cfg.persistent && slices.Contains(k.status().sessions, stat.EphemeralOwner)
}

// create makes the node, at the path that it had before if there was one.
func (k *keeper) create(ctx context.Context) error {
	k.deleted()
	k.mine, k.watch = record{}, nil
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
	path, stat, err := k.make(ctx, asked, want.data, options)
	switch {
	case err == nil:
		k.mine, k.sent = record{want, stat.Czxid, stat.Czxid}, true
		if k.path == "" {
			k.path = path
			return k.claim() // at once: the name is new
		}
	case errors.Is(err, zk.ErrNodeExists):
		return errAgain
	case retry.Unknown(err) && k.path != "":
		if k.sent = true; k.cfg.persistent && k.cfg.ttl == 0 {
			k.sweep(ctx)
		}
	}
	return err
}

// make creates the node. The stat says by its czxid which one is ours: a persistent node has no owner. The czxid is 0 if the node is
// ephemeral, and if the server does not return one.
func (k *keeper) make(ctx context.Context, path string, data []byte, options []framework.CreateOption) (created string, stat zk.Stat, err error) {
	if k.cfg.persistent {
		created, err = k.client.Create(ctx, path, data, append(options, framework.StatTo(&stat))...)
		if k.cfg.ttl > 0 || !errors.Is(err, framework.ErrUnimplemented) {
			return created, stat, err
		}
	}
	if k.path != "" && k.cfg.ttl == 0 && k.late.version == 0 && time.Now().Before(k.late.until) {
		// The late write must not meet the new node, so that gets another version.
		results, err := k.client.Multi(once(ctx), &zk.CreateRequest{Path: path, Flags: int32(k.cfg.mode(false))}, &zk.SetDataRequest{Path: path, Data: data})
		if err == nil {
			return path, *results[1].Stat, nil
		}
		if !errors.Is(err, zk.ErrNoNode) { // or the parents are missing
			return "", stat, err
		}
	}
	created, err = k.client.Create(ctx, path, data, options...)
	return created, stat, err
}

// once returns a context for a request that is not repeated when it was not answered: the node is looked at before the next try.
func once(ctx context.Context) context.Context {
	return engine.WithHints(ctx, engine.Hints{Once: true})
}

// changed is errAgain if a write has failed since the node is not the one any more that was seen.
func changed(err error) error {
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) {
		return errAgain
	}
	return err
}

// hold is for the node that is there and ours. If a server refuses what is to be written, the node is kept with what it holds.
func (k *keeper) hold(ctx context.Context) error {
	k.sent = true
	if k.stat.Czxid != k.mine.czxid {
		if k.mine.czxid != 0 { // or it is the one that was made just now
			k.mine.number = 0
		}
		k.mine.czxid, k.mine.mzxid = k.stat.Czxid, k.stat.Czxid
	}
	if k.stat.Mzxid != k.mine.mzxid && time.Now().Before(k.late.until) {
		k.mine.number = 0 // perhaps it was a late write of ours, with older data
	}
	refusal := k.write(ctx)
	if refusal != nil && (!isAnswer(refusal) || k.mine.number == 0) {
		return refusal
	}
	if err := cmp.Or(k.show(ctx, refusal), refusal); err != nil {
		return err
	}
	k.pauses.Reset()
	k.logged = ""
	k.rest(0)
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
	case err == nil && stat.Czxid == k.mine.czxid:
		k.mine, k.stat = record{want, stat.Czxid, stat.Mzxid}, stat
		return nil
	case err == nil && !k.isOurs(stat):
		k.client.Logger().Error("another's node was overwritten, after ours was deleted", "path", k.path, "reason", takenBy(stat))
	case errors.Is(err, zk.ErrNoNode):
		k.deleted()
	case retry.Unknown(err):
		k.late = lateWrite{k.stat.Version, time.Now().Add(2 * k.session.Timeout())} // servers end a session once per tick, half a timeout late at most
	case isAnswer(err) && !errors.Is(changed(err), errAgain):
		k.now.Set(func(s *status) {
			s.refused = refusal{want.number, follow.Bare(err)}
			if s.present() {
				s.err = s.refused.err // before Set returns
			}
		})
		return err
	}
	k.watch = nil // whatever has gone wrong is looked at
	return cmp.Or(changed(err), errAgain)
}

// show makes it known that the node is there, and what is refused nevertheless, if anything. It fails
// if the session is in trouble, or if something has happened to a node that is not shown yet.
func (k *keeper) show(ctx context.Context, refusal error) error {
	if now := k.status(); now.present() && now.err == nil && refusal == nil && now.shown.mzxid == k.mine.mzxid {
		return nil // nothing is new
	}
	err := k.tryShow(refusal)
	if errors.Is(err, framework.ErrSessionLost) && k.session.Err() == nil {
		// The last word of the leader is older than the session timeout: this process was slow. A write is its next
		// word. Nobody asks for one as long as nobody depends on the session. If the connection has just come to life again
		// the write proves nothing yet, and it is tried again after a pause.
		if err = k.client.Sync(ctx); err == nil {
			err = k.tryShow(refusal)
		}
	}
	return err
}

// tryShow has the session report when it is in trouble, and shows the node, in one step: it is never shown without that.
func (k *keeper) tryShow(refusal error) (err error) {
	k.now.Set(func(s *status) {
		if !s.present() {
			if wait.Closed(k.watch.Done()) {
				err = errAgain // perhaps it is another's by now
				return
			}
			d := &dependency{}
			if d.stop, err = k.session.Depend(k.cfg.policy, func(cause error) { k.trouble(d, cause) }); err != nil {
				return
			}
			s.depends = d
		}
		s.path, s.shown, s.err = k.path, k.mine, follow.Bare(refusal)
	})
	return err
}

// trouble is called when nobody may depend on the session any more.
func (k *keeper) trouble(d *dependency, cause error) {
	k.now.Set(func(s *status) {
		if s.depends == d {
			s.gone(cause)
		}
	})
	k.wake.Raise()
}

// missing notes that the node is not there.
func (k *keeper) missing(reason error) {
	k.now.Set(func(s *status) { s.gone(reason) })
}

// deleted notes that the node was deleted, if it was shown.
func (k *keeper) deleted() {
	k.now.Set(func(s *status) {
		if s.present() {
			s.gone(ErrDeleted)
		}
	})
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
