package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
	"github.com/gocurator/curator/recipes/internal/queue/view"
	"github.com/gocurator/curator/retry"
)

// state is that of a node of ours:
//
//	from       to        when
//	waiting    holding   a lease begins
//	holding    waiting   it is lent to another goroutine, or to the next Acquire
//	both       leaving   we begin to delete it
//	any        ended     it is deleted, by us or somebody else, or the servers will do that
//
// A node that is leaving or has ended is in no view, and is not watched.
type state int8

const (
	waiting state = iota
	holding
	leaving
	ended
)

// node is our node in the queue.
type node struct {
	queue   *Queue
	session *framework.Session
	path    string
	gone    chan struct{} // closed when the node has ended, and its lease

	since time.Time // when it first held; this and lends are guarded by localQueue.mu
	lends int       // how often it was lent

	token atomic.Int64 // 0: not known, or the fencing token

	mu      sync.Mutex // guards what follows
	state   state
	lease   *lease     // that it has or had last; nil: none has begun since it joined or was lent
	view    *view.View // that has admitted the node; nil: the queue is listed
	unwatch func()     // ends the watch on the node; nil: there was none
}

func newNode(q *Queue, session *framework.Session) *node {
	return &node{queue: q, session: session, gone: make(chan struct{})}
}

// withToken returns a context with which the driver can give the fencing token.
func (n *node) withToken(ctx context.Context) context.Context {
	return context.WithValue(ctx, tokenKey{}, &n.token)
}

// created notes that the node is there.
func (n *node) created(path string) {
	n.path = path
	n.queue.joined(n)
}

// enterView makes the node use the view, if the view has it. Otherwise the queue is listed.
func (n *node) enterView(ctx context.Context, v *view.View) error {
	if err := v.Await(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	n.view = v
	n.mu.Unlock()
	if !v.Admit(n) {
		n.ViewEnded()
	}
	return nil
}

// inView returns the view, if there is one.
func (n *node) inView() *view.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view
}

// leaveView removes the node from the view.
func (n *node) leaveView() {
	n.mu.Lock()
	v := n.view
	n.view = nil
	n.mu.Unlock()
	if v != nil {
		v.Dismiss(n)
	}
}

// Name is the name of the node, for a view.
func (n *node) Name() string {
	_, name := framework.Split(n.path)
	return name
}

// Order is by which a view sorts the queue.
func (n *node) Order() view.Order { return n.queue.order }

// ViewEnded is called when the view has ended, or has not admitted the node.
func (n *node) ViewEnded() {
	n.mu.Lock()
	n.view = nil
	n.mu.Unlock()
	if l := n.lastLease(); l != nil && !l.giveBack() {
		n.watch(0, nil)
	}
}

// Joined is called when another node has joined the queue in which ours was alone.
func (n *node) Joined() {
	if l := n.lastLease(); l != nil {
		l.giveBack()
	}
}

// Deleted is called when somebody else has deleted the node.
func (n *node) Deleted() {
	if !n.advance(ended) {
		return
	}
	if l := n.lastLease(); l != nil {
		l.lose(l.deletion())
	}
	n.passOn()
}

// lastLease returns the lease that the node has or had last, or nil if it was lent since.
func (n *node) lastLease() *lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lease
}

// begin makes the node one that holds.
func (n *node) begin(l *lease) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state >= leaving {
		return &NodeLost{ErrNodeDeleted}
	}
	n.state, n.lease = holding, l
	return nil
}

// pause takes the node from its lease, to be lent. It is false if the node is not ours any more.
func (n *node) pause() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != holding {
		return false
	}
	n.state, n.lease = waiting, nil
	return true
}

// end says that the node is no longer ours to watch or delete. Only the first call counts.
func (n *node) end() {
	if n.advance(ended) {
		n.passOn()
	}
}

// advance makes the state leaving or ended, and ends what is reported of the node. It is false if the state was as high before.
func (n *node) advance(to state) bool {
	n.mu.Lock()
	if n.state >= to {
		n.mu.Unlock()
		return false
	}
	n.state = to
	unwatch := n.unwatch
	n.mu.Unlock()
	n.leaveView()
	if unwatch != nil {
		unwatch()
	}
	return true
}

// passOn lets others of the Queue go on when the node has ended. The contexts of its holds end before.
func (n *node) passOn() {
	close(n.gone)
	n.queue.left(n)
}

// Giving a node up. In all cases it is deleted in the end: by us, in the background while the session lives, or by the servers.

// leaveTimeout limits how long giving up a node may delay the caller. If the node is deleted by then, the caller's next list
// does not show it.
const leaveTimeout = time.Second

// leave deletes our node, after so long in the background. It does not use the context of the wait, which may have ended.
func (n *node) leave(within time.Duration) {
	ctx, cancel := n.leavingIn(context.Background(), within)
	defer cancel()
	if _, err := n.remove(ctx, false); err != nil && ctx.Err() == nil {
		n.staysBehind(err)
	}
}

// leavingIn returns the context for giving up a node. It ends with ctx, and has ended if no server can be reached.
func (n *node) leavingIn(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, within)
	if n.session.Err() != nil || !n.queue.client.State().IsConnected() {
		cancel()
	}
	return ctx, cancel
}

// remove deletes our node, in the background if ctx ends first. certain is that of [engine.Client.DeleteGuaranteed].
func (n *node) remove(ctx context.Context, certain bool) (found bool, err error) {
	n.advance(leaving)
	found, err = engine.Of(n.queue.client).DeleteGuaranteed(ctx, n.path, certain)
	if err == nil {
		n.queue.rewind(ctx, n.path)
	} else {
		err = &framework.OpError{Op: "delete", Path: n.path, Err: err}
	}
	n.end()
	return found, err
}

// send is remove that does not wait for the answer: done is called with it.
func (n *node) send(done func(found bool, err error)) {
	n.advance(leaving)
	ctx := framework.InSession(n.session.Context(), n.session)
	engine.Of(n.queue.client).DeleteSoon(ctx, n.path, func(found bool, err error) { // must not block
		done(found, err)
		switch {
		case err == nil && nearEnd(n.path):
			go n.queue.rewind(ctx, n.path) // ends with its requests, or the session
		case err != nil && ctx.Err() == nil:
			go n.staysBehind(err) // ends with the logger
		}
	})
	n.end() // what another goroutine sends from now on comes after the delete
}

// staysBehind says so in the log, unless the node goes with the client.
func (n *node) staysBehind(reason error) {
	if !errors.Is(reason, framework.ErrClosed) {
		n.queue.client.Logger().Warn("lock node stays behind", "path", n.path, "reason", reason)
	}
}

// The watch on the node of a holder, if there is no view.

// watchAfter is how long a hold must last before its node is watched, if there is no view. Most holds are
// shorter and save the watch.
const watchAfter = 5 * time.Millisecond

// watch begins to watch our node, after a while, until it leaves or has ended. own is a watch that is there, or nil.
func (n *node) watch(after time.Duration, own *framework.Watch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwatch != nil || n.state != holding {
		return
	}
	if own != nil {
		after = 0 // it costs nothing
	}
	ctx, cancel := context.WithCancel(framework.InSession(n.session.Context(), n.session))
	timer := time.AfterFunc(after, func() { n.watchNode(ctx, own) }) // ends with ctx
	n.unwatch = func() {
		timer.Stop()
		cancel()
	}
}

// watchNode returns when our node is deleted or ctx is done, as that of the session is in the end.
func (n *node) watchNode(ctx context.Context, watch *framework.Watch) {
	defer func() {
		if n.session.Err() != nil {
			n.end() // a holder that was notified of ErrSuspended may work for longer
		}
	}()
	for ; ; watch = nil {
		var err error
		if watch == nil {
			_, _, watch, err = n.queue.client.GetW(ctx, n.path)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, zk.ErrNoNode):
			n.Deleted()
			return
		case retry.MayPass(err):
			// If ctx ends, the next request says so.
			_ = wait.Sleep(ctx, engine.RefusedPause)
			continue // out of reach; whether that is trouble is for the session to say
		case errors.Is(err, zk.ErrNoAuth):
			// Nobody would notify us of its end. Only a driver that gives nodes an ACL of its own gets here.
			if l := n.lastLease(); l != nil {
				l.lose(fmt.Errorf("%w: its node: %w", framework.ErrLost, follow.Bare(err)))
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

// rewind makes the numbers begin again long before they overflow, by deleting a lock's path, if it is as this
// package creates it: without data, and with the client's ACL. ZooKeeper refuses that while anybody is in the
// queue. Those who come after it create the path again.
func (q *Queue) rewind(ctx context.Context, path string) {
	if !nearEnd(path) {
		return
	}
	acl, stat, err := q.client.GetACL(ctx, q.base)
	if err != nil || stat.DataLength > 0 || !sameACL(acl, engine.Of(q.client).ACL(q.base)) {
		return
	}
	// It may fail: the next one to leave tries again.
	_ = q.client.Delete(ctx, q.base, stat.Version)
}

// nearEnd reports whether the number of our node is so high that the path's numbers should begin again.
func nearEnd(path string) bool {
	n := view.Number(path)
	return n >= rewindAt || n < 0
}

// sameACL reports whether a node has the ACL that it was to be created with. A server replaces the scheme "auth" by
// what the client has presented.
func sameACL(has, given []zk.ACL) bool {
	if slices.ContainsFunc(given, func(a zk.ACL) bool { return a.Scheme == "auth" }) {
		return true
	}
	return slices.Equal(has, given)
}

// rewindAt is where numbers are high enough to start again when the queue is empty.
const rewindAt = 1 << 30
