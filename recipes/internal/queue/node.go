package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/internal/queue/view"
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
	n.queue.mu.Lock()
	n.queue.nodes[n.Name()] = true
	n.queue.mu.Unlock()
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

// errUnconfirmed means that no write was committed for so long that the session may be over. A write may show that it lives.
var errUnconfirmed = fmt.Errorf("%w: it is not confirmed", framework.ErrSessionLost)

// depend has lost called as soon as the session is in trouble. The error is a nodeLost if we may begin again.
func (n *node) depend(policy connstate.ErrorPolicy, lost func(error)) (stop func() bool, err error) {
	stop, err = n.session.Depend(policy, lost)
	if errors.Is(err, framework.ErrSessionLost) && n.session.Err() == nil {
		err = &nodeLost{errUnconfirmed}
	}
	return stop, err
}

// begin makes the node one that holds.
func (n *node) begin(l *lease) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state >= leaving {
		return &nodeLost{ErrNodeDeleted}
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
	q := n.queue
	q.mu.Lock()
	delete(q.nodes, n.Name())
	q.mu.Unlock()
	q.local.over(n)
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

// fencingToken asks for the czxid of our node, once.
func (n *node) fencingToken(ctx context.Context, l *lease) (int64, error) {
	if !l.show() {
		return 0, ErrReleased
	}
	if token := n.token.Load(); token != 0 {
		return token, nil
	}
	if err := l.endedBy(); err != nil {
		return 0, err
	}
	found, stat, err := n.queue.client.Exists(framework.InSession(ctx, n.session), n.path)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, l.deletion()
	}
	n.token.Store(stat.Czxid)
	return stat.Czxid, nil
}
