package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// node is one znode of this client in the queue, in one session, from its create to its deletion.
type node struct {
	queue   *Queue
	client  *framework.Client // in the session
	session *framework.Session
	path    string
	gone    chan struct{} // closed when the node is gone, after the contexts of its holds have ended

	mu      sync.Mutex // guards what follows, and the terms of the node; see Queue.mu
	state   state
	term    *term       // that the node has or had last; nil: none has begun since it joined or was kept
	since   time.Time   // when it first held
	timer   *time.Timer // of a kept node
	view    *view.View  // that has admitted the node; nil: the queue is listed
	unwatch func()      // ends the watch on the node; nil: there was none
	token   int64       // the fencing token; 0: not known
	marked  markState
}

func newNode(q *Queue, session *framework.Session) *node {
	return &node{queue: q, client: q.client.In(session), session: session, gone: make(chan struct{})}
}

// Name returns the name of the node, for a view. It locks nothing.
func (n *node) Name() string {
	_, name := framework.Split(n.path)
	return name
}

// Order returns how a view sorts the queue. It locks nothing.
func (n *node) Order() view.Order { return n.queue.order }

// enterView has the view admit the node. It reports false if the view does not have the node: then
// the queue is listed.
func (n *node) enterView(v *view.View) bool {
	n.mu.Lock()
	n.view = v
	n.mu.Unlock()
	if !v.Admit(n) {
		n.ViewEnded()
		return false
	}
	return true
}

// inView returns the view, or nil.
func (n *node) inView() *view.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view
}

// isAlone reports whether the node is the only one in the queue. Only a view can say so. n.mu is
// locked.
func (n *node) isAlone() bool {
	if n.view == nil {
		return false
	}
	names, _, err := n.view.Names(n.Order())
	return err == nil && slices.Equal(names, []string{n.Name()})
}

// ViewEnded is called when the view has ended, or has not admitted the node. A holder is watched
// from then on.
func (n *node) ViewEnded() {
	n.mu.Lock()
	n.view = nil
	n.watch(0, nil)
	n.mu.Unlock()
	n.giveBack()
}

// Joined is called when another node has joined the queue in which this one was alone.
func (n *node) Joined() { n.giveBack() }

// Deleted is called when another client has deleted the node.
func (n *node) Deleted() {
	n.mu.Lock()
	var cause error // nil: there is no term to end
	if n.term != nil {
		cause = n.term.deleted
	}
	o := n.happens(over, cause)
	n.mu.Unlock()
	n.carryOut(o)
}

// sessionOver notes that the session is over. A holder whose term lives is notified by the session.
func (n *node) sessionOver() {
	n.mu.Lock()
	o := n.happens(expired, nil)
	n.mu.Unlock()
	n.carryOut(o)
}

// giveBack deletes a kept node. It does not block.
func (n *node) giveBack() {
	n.mu.Lock()
	o := n.happens(unwanted, nil)
	n.mu.Unlock()
	if o.action != nothing {
		// Ends at once. This may be the connection's goroutine, on which no observer of the
		// client's operations may run.
		go n.carryOut(o)
	}
}

// lastTerm returns the term that the node has or had last, or nil if it was kept since.
func (n *node) lastTerm() *term {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.term
}

// outcome is what an event leaves to do when node.mu is unlocked.
type outcome struct {
	action
	ended *term // that the event has ended; nil: none
}

// happens takes an event, and does what belongs to the change of the state. cause is why the term
// ends, if it lives and does not outlive the event. n.mu is locked. The caller carries out the
// outcome when it is unlocked.
func (n *node) happens(e event, cause error) (o outcome) {
	before := n.state
	n.state, o.action = step(before, e)
	if before == held && n.state != held {
		o.ended = n.term
		n.term.end(cause)
	}
	if n.state == before {
		return o
	}
	switch n.state {
	case stranded:
		n.watch(0, nil) // waiters in memory must know when it is deleted, or its session ends
	case kept:
		n.term.stopTimer()
		n.term = nil
	case leaving, gone:
		n.detach()
	}
	switch {
	case before == kept && n.timer != nil:
		n.timer.Stop()
	case e == overdue, e == unreadable:
		n.term.deleted = cause // if Release finds no node
		n.keepMark()
	}
	if n.state == gone {
		close(n.gone)
		n.orphaned()
	}
	return o
}

// detach ends what is reported of a node that is leaving or gone. n.mu is locked.
func (n *node) detach() {
	if n.view != nil {
		n.view.Dismiss(n)
		n.view = nil
	}
	if n.unwatch != nil {
		n.unwatch()
		n.unwatch = nil
	}
	if n.term != nil {
		n.term.stopTimer()
	}
}

// carryOut does what an event has left to do, in the background if it concerns the servers.
func (n *node) carryOut(o outcome) {
	if o.ended != nil {
		o.ended.wasLost()
	}
	switch o.action {
	case discard:
		n.discard()
	case passOn:
		n.queue.forget(n)
	}
}

// Holding.

// hold begins a term with its first hold. own is a watch of the node, or nil. It fails if the
// session is suspended or lost, or if no server has confirmed it in time, or if the node is gone.
func (n *node) hold(ctx context.Context, own *framework.Watch) (*Hold, error) {
	t := &term{node: n, began: time.Now(), deleted: ErrNodeDeleted}
	t.holds = t.room[:0]
	undepend, err := n.session.Depend(n.queue.cfg.policy, t.lose)
	if err != nil {
		return nil, err
	}
	if err := engine.Of(n.queue.client).Begin(t); err != nil {
		undepend()
		return nil, err
	}
	t.ended = func() { undepend() }
	h, err := n.begin(ctx, t, own)
	if err != nil {
		undepend()
		t.finished()
		return nil, err
	}
	return h, nil
}

// begin makes the node one that is held, in term t, unless the term was lost in the meantime.
func (n *node) begin(ctx context.Context, t *term, own *framework.Watch) (*Hold, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.state >= leaving:
		t.cause = ErrNodeDeleted // a loss at this moment has nothing to end
		return nil, &locking.NodeLost{Cause: ErrNodeDeleted}
	case t.cause != nil:
		return nil, t.cause
	}
	if n.since.IsZero() {
		n.since = time.Now()
	}
	n.term = t
	n.happens(granted, nil) // leaves nothing to do
	if n.view == nil {
		n.watch(watchAfter, own)
	}
	if d := n.queue.cfg.maxHold; d > 0 {
		t.timer = time.AfterFunc(d, func() { t.lose(ErrMaxHold) })
	}
	return t.newHold(ctx), nil
}

// Deleting. In all cases the node is deleted in the end: by this client, in the background while
// the session lives, or by the servers.

// giveUpTimeout limits how long giving up a node may delay the caller. If the node is deleted by
// then, the caller's next list does not show it.
const giveUpTimeout = time.Second

// giveUp deletes the node of a waiter, after giveUpTimeout in the background. It does not use the
// context of the wait, which may have ended.
func (n *node) giveUp() {
	ctx, cancel := n.givingUp(context.Background())
	defer cancel()
	n.mu.Lock()
	n.happens(unneeded, ErrReleased)
	with := n.companion()
	n.mu.Unlock()
	if _, err := n.remove(ctx, with, false); err != nil && ctx.Err() == nil {
		n.staysBehind(err)
	}
}

// givingUp returns the context for giving up a node. It ends with ctx, and has ended if no server
// can be reached.
func (n *node) givingUp(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, giveUpTimeout)
	if n.session.Err() != nil || !n.queue.client.State().IsConnected() {
		cancel()
	}
	return ctx, cancel
}

// remove deletes a node that is leaving, in the background if ctx ends first. certain is as in
// [engine.Client.DeleteBoth].
func (n *node) remove(ctx context.Context, with engine.Companion, certain bool) (found bool, err error) {
	defer func() { n.isDeleted(found) }()
	found, err = engine.Of(n.queue.client).DeleteBoth(ctx, n.path, with, certain)
	if err == nil {
		n.queue.rewind(ctx, n.path)
	} else {
		err = &framework.OpError{Op: "delete", Path: n.path, Err: err}
	}
	return found, err
}

// discard deletes a node that is leaving, in the background.
func (n *node) discard() {
	n.mu.Lock()
	with := n.companion()
	n.mu.Unlock()
	engine.Of(n.queue.client).DiscardBoth(n.path, with)
	n.isDeleted(false)
}

// isDeleted notes that the node is deleted, or will be: with its mark, if this client has deleted
// both.
func (n *node) isDeleted(withMark bool) {
	n.mu.Lock()
	if withMark && n.marked == marked {
		n.marked = unmarked
	}
	o := n.happens(over, nil)
	n.mu.Unlock()
	n.carryOut(o)
}

// staysBehind says so in the log, unless the node is deleted with the client. reason is the error
// of a deletion, so it is not [framework.ErrShutdown].
func (n *node) staysBehind(reason error) {
	if !errors.Is(reason, framework.ErrClosed) {
		engine.Of(n.queue.client).Logger().Warn("lock node was not deleted", "path", n.path, "reason", reason)
	}
}

// The watch on the node of a holder, if there is no view.

// watchAfter is how long a hold must last before its node is watched, if there is no view. Most
// holds are shorter and save the watch.
const watchAfter = 5 * time.Millisecond

// watch starts to watch the node of a holder, after a while, until it is leaving or gone. own is an
// existing watch, or nil. n.mu is locked.
func (n *node) watch(after time.Duration, own *framework.Watch) {
	if n.unwatch != nil || n.state != held && n.state != stranded {
		return
	}
	ctx, cancel := context.WithCancel(n.session.Context())
	if own != nil { // no goroutine is needed until it fires
		n.unwatch = cancel
		(*engine.Watch)(own).OnFire(func(zk.Event, *engine.Session) {
			if ctx.Err() == nil {
				go n.watchNode(ctx, own) // ends with ctx
			}
		})
		return
	}
	timer := time.AfterFunc(after, func() { n.watchNode(ctx, nil) }) // ends with ctx
	n.unwatch = func() {
		timer.Stop()
		cancel()
	}
}

// watchNode returns when the node is deleted or ctx is done, which is the session's in the end.
func (n *node) watchNode(ctx context.Context, watch *framework.Watch) {
	defer func() {
		if n.session.Err() != nil {
			n.sessionOver() // a holder that was notified of ErrSuspended may work for longer
		}
	}()
	// Once: the loop repeats it, and no retry policy is called on this goroutine, where its panic
	// would end the process.
	once := engine.Once(n.client)
	for ; ; watch = nil {
		var err error
		if watch == nil {
			_, _, watch, err = once.GetW(ctx, n.path)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, zk.ErrNoNode):
			n.Deleted()
			return
		case verdict.MayPass(err):
			// If ctx ends, the next request says so.
			_ = wait.Sleep(ctx, engine.RefusedPause)
			continue // out of reach; whether that is a loss is for the session to say
		case errors.Is(err, zk.ErrNoAuth):
			// The servers would not notify this client of its end. Only a driver that gives nodes
			// an ACL of its own gets here.
			if t := n.lastTerm(); t != nil {
				t.lose(fmt.Errorf("%w: its node: %w", framework.ErrLost, operr.Bare(err)))
			}
			return
		case err != nil:
			<-ctx.Done() // nothing more will be known
			return
		}
		select {
		case <-watch.Done():
			if watch.Event().Type == zk.EventNodeDeleted && ctx.Err() == nil {
				n.Deleted()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// dependWhileNext has the session of a waiter confirmed as a holder's, so that it can hold without
// a request when its turn begins.
func (n *node) dependWhileNext() (stop func() bool, err error) {
	return n.session.Depend(connstate.LostEndsHold, func(error) {})
}

// rewind makes the numbers start again long before they overflow, by deleting a lock's path, if it
// is as this package creates it: without data, and with the client's ACL. ZooKeeper refuses that
// while the queue has a node. A later contender creates the path again. If all numbers are
// exhausted, no contender can replace the marks of dead holders.
func (q *Queue) rewind(ctx context.Context, path string) {
	if !nearEnd(path) {
		return
	}
	acl, stat, err := q.client.GetACL(ctx, q.path)
	if err != nil || stat.DataLength > 0 || !sameACL(acl, engine.Of(q.client).ACL(q.path)) {
		return
	}
	// It may fail: the next client that leaves tries again.
	var ops, creations []any
	if q.cfg.delay > 0 && stat.NumChildren > 0 {
		ops, err = q.deadMarks(ctx)
	}
	if remains := q.cfg.recipe.Remains; err == nil && remains != nil {
		var deletions []any
		deletions, creations, err = remains(ctx)
		ops = append(ops, deletions...)
	}
	if err != nil {
		return
	}
	ops = append(ops, &zk.DeleteRequest{Path: q.path, Version: stat.Version})
	if len(creations) > 0 {
		ops = append(ops, &zk.CreateRequest{Path: q.path, Data: []byte{}, Acl: acl})
	}
	_, _ = engine.Uncompressed(q.client).Multi(ctx, append(ops, creations...)...)
}

// nearEnd reports whether the number of a node is so high that the path's numbers should start
// again.
func nearEnd(path string) bool {
	n := view.Number(path)
	return n >= rewindAt || n < 0
}

// rewindAt is the number from which on they start again when the queue is empty.
const rewindAt = 1 << 30

// sameACL reports whether a node has the ACL that it was to be created with. A server replaces the
// scheme "auth" by what the client has presented.
func sameACL(has, given []zk.ACL) bool {
	if slices.ContainsFunc(given, func(a zk.ACL) bool { return a.Scheme == "auth" }) {
		return true
	}
	return slices.Equal(has, given)
}
