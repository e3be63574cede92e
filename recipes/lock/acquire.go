package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// Acquire waits until it holds a lease. If it fails, its node is deleted. If the session is lost
// while Acquire waits, or another client deletes its node, it queues again at the end, as often as
// the client's retry policy allows.
//
// Errors are
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [ErrNotAcquired] if another contender was ahead in the queue, or a lock delay was
//     not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [ErrHeld] inside a hold of the same lock, unless it has several leases or [WithReentry];
//   - [ErrReleased] inside a hold of a released lease, with [WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while an
//     [Observer] was notified of it, or if ctx derives from a hold that was suspended and is not
//     released. With [WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrSessionLost] or [ErrNodeDeleted] if the session or the node was lost, and the
//     retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the driver breaks a rule of [Driver], or the client is a view
//     of nil or of another client's session;
//   - the error of a custom [Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own node or the one that it waits for.
//
// To wait for longer in an outage, give the client [framework.WithRetryPolicy] with
// [retry.Forever]. The right to read the nodes is needed because servers do not report the deletion
// of a node to a client that is not permitted to read it.
func (q *Queue) Acquire(ctx context.Context) (*Hold, error) {
	h, err := q.acquire(ctx, locking.How{Wait: true})
	return h, q.opError("acquire", err)
}

// TryAcquire acquires a lease without waiting for other clients. It always asks the server. A
// server that lags may still report a released lease as taken.
//
// With the Standard driver and without [WithRetention] it fails without a write. Otherwise it may
// create a node and delete it.
//
// Errors are
//   - [ErrNotAcquired] if all leases are held, or the delay of [WithLockDelay] is not over;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [ErrNotAcquired] if another contender was ahead in the queue, or a lock delay was
//     not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if there were retries: by default about 90 s
//     after an outage began;
//   - [ErrHeld] inside a hold of the same lock, unless it has several leases or [WithReentry];
//   - [ErrReleased] inside a hold of a released lease, with [WithReentry];
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease was lost while an
//     [Observer] was notified of it, or if ctx derives from a hold that was suspended and is not
//     released. With [WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrSessionLost] or [ErrNodeDeleted] if the session or the node was lost, and the
//     retry policy allows no more tries;
//   - framework.ErrSessionLost if the servers answer too slowly for a hold, or if the client is a
//     view of a lost session: see [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - [framework.ErrBadArgument] if the driver breaks a rule of [Driver], or the client is a view
//     of nil or of another client's session;
//   - the error of a custom [Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create a node, or
//     to read its own.
func (q *Queue) TryAcquire(ctx context.Context) (*Hold, error) {
	h, err := q.acquire(ctx, locking.How{})
	return h, q.opError("try", err)
}

// Do acquires a lease, calls f, and releases the lease, even if f panics. f's context derives from
// ctx, and is also cancelled when the lease may be lost: see [Hold.Do]. If Do cannot acquire, f is
// not called.
//
// Errors are
//   - the error of f, joined with the cause of the loss if the lease was lost;
//   - the cause of the loss, which wraps [framework.ErrLost], if the lease is lost before its
//     release, or ctx derives from a hold that was suspended and is not released. With
//     [WithReentry] also if ctx derives from a hold of a lost lease;
//   - [framework.ErrBadArgument] if f is nil, the driver breaks a rule of [Driver], or the client
//     is a view of nil or of another client's session;
//   - the error of ctx if ctx is done. It wraps zk.ErrNoServer if no server could be reached, and
//     otherwise [ErrNotAcquired] if another contender was ahead in the queue, or a lock delay was
//     not over. It wraps [framework.ErrSessionLost] if the servers answer too slowly for a hold;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - [retry.ErrExhausted], which wraps that error, if there were retries: by default about 90 s
//     after an outage began, or after the session of a waiter was lost in it;
//   - [ErrHeld] inside a hold of the same lock, unless it has several leases or [WithReentry];
//   - [ErrReleased] inside a hold of a released lease, with [WithReentry];
//   - [framework.ErrSessionLost] or [ErrNodeDeleted] if the session or the node was lost, and the
//     retry policy allows no more tries;
//   - framework.ErrSessionLost if the client is a view of a lost session: see
//     [framework.Client.In];
//   - [framework.ErrClosed] if the client is closed, or shuts down;
//   - [ErrSequenceExhausted] if the sequence numbers below the path have overflowed;
//   - [framework.ErrTooLong] if the node's data exceed the client's limit of a request, or
//     [framework.ErrTooLarge] if they exceed [framework.WithMaxDecompressed];
//   - the error of a custom [Driver] if it returns one;
//   - the server's errors, such as zk.ErrNoAuth if the client is not permitted to create or delete
//     a node, or to read its own node or the one that it waits for.
//
// If f returns nil after [framework.ErrSuspended], Do returns nil if the lease's node still existed
// at the release: see [Hold.Release].
func (q *Queue) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return locking.Do(ctx, q.path, q.Acquire, f)
}

// acquire refuses or re-enters inside a hold. Otherwise it takes over the node that is kept for the
// Queue, or acquires with a new node: in one session after the other.
func (q *Queue) acquire(ctx context.Context, how locking.How) (h *Hold, err error) {
	if h, err := q.nested(ctx); h != nil || err != nil {
		return h, err
	}
	if !how.Reported {
		var done func(error, ...*Hold) error
		ctx, done = observe(ctx, q)
		err = errPanicked // unless what follows returns
		defer func() {
			if err = done(err, h); err != nil {
				h = nil
			}
		}()
	}
	if wait.Closed(engine.Of(q.client).Stopping()) {
		return nil, framework.ErrShutdown
	}
	var n *node
	if q.keeps() {
		if n, err = q.takeTurn(ctx, how.Wait); err != nil {
			return nil, q.noTurn(ctx, how, err)
		}
		err = errPanicked
		defer func() { q.endTurn(h) }()
	}
	h, err = locking.Repeat(ctx, q.client, func() (*Hold, error) {
		existing := n
		n = nil
		return q.inSession(ctx, how, existing)
	})
	return h, q.unreachable(ctx, err)
}

// noTurn returns why a goroutine did not get the turn. Without a connection it is not known whether
// the lock is held.
func (q *Queue) noTurn(ctx context.Context, how locking.How, err error) error {
	if !how.Wait {
		_, offline := q.client.Session(ctx)
		err = cmp.Or(offline, err)
	}
	return q.unreachable(ctx, err)
}

// unreachable returns err, or that no server could be reached, if err says that ctx is done and
// there is no connection: then it is not known whether another client holds.
func (q *Queue) unreachable(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, zk.ErrNoServer) || q.client.State().IsConnected() {
		return err
	}
	return fmt.Errorf("%w: %w", wait.Err(ctx), zk.ErrNoServer)
}

// inSession is the lock recipe of the ZooKeeper documentation, in one session: n's, if n is in the
// queue already. Everything is sent in this session: a list from the next session says
// nothing about a node of this one. The steps have the numbers of the comment of package lock.
//
// After the create, every failure leaves the queue, and so does a panic of the driver or the
// observer: here and in join, by node.giveUp in a deferred function. In the create it is a debt of
// the client: see create.
func (q *Queue) inSession(ctx context.Context, how locking.How, n *node) (h *Hold, err error) {
	session := how.Session
	switch {
	case n != nil:
		session = n.session
	case session == nil:
		if session, err = q.client.Session(ctx); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = whyNot(ctx, session, err, how.Session != nil)
		}
	}()
	var w *waiter
	if n != nil {
		w = newWaiter(n, n.inView(), how)
	} else if w, err = q.join(ctx, session, how); err != nil { // 1
		return nil, err
	}
	defer func() {
		if h == nil {
			w.node.giveUp()
		}
	}()
	return w.hold(ctx, how.Wait) // 2, 3, 4
}

// whyNot returns why an acquire in a session has failed: a NodeLost if it may start again, in
// another session.
func whyNot(ctx context.Context, session *framework.Session, err error, only bool) error {
	switch cause := session.Err(); {
	case cause == nil || errors.Is(cause, framework.ErrClosed):
		return err
	case ctx.Err() != nil:
		return wait.Err(ctx) // both have ended; the caller asked for this one
	case only:
		return cause
	default:
		return &locking.NodeLost{Cause: cause}
	}
}

// join creates the node. Without a view, the list of the children is sent directly after the
// create, unless the queue is long: then it is not urgent. TryAcquire looks at the queue before,
// and at the queue in front when the node exists.
func (q *Queue) join(ctx context.Context, session *framework.Session, how locking.How) (w *waiter, err error) {
	v, n := q.view(session), newNode(q, session)
	if !how.Wait {
		if err := q.look(ctx, n.client, v); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	client := n.client
	var listed func() []string // nil: no list is sent
	if v == nil && !q.isLong() {
		listing, cancel := context.WithCancel(ctx)
		defer cancel()
		client, listed = q.listAfter(listing, n.client)
	}
	n.path, n.token, err = q.create(ctx, client)
	if err != nil {
		return nil, err
	}
	q.joined(n)
	defer func() {
		if w == nil { // even if the driver panics
			n.giveUp()
		}
	}()
	if v, err = q.admit(ctx, n, v); err != nil {
		return nil, err
	}
	joined := newWaiter(n, v, how)
	if listed != nil {
		joined.listed.known = listed()
	}
	if v == nil {
		err = joined.listed.checkReadable(ctx)
	}
	if front := q.cfg.recipe.Front; err == nil && front != nil && !how.Wait {
		err = front.refuse(ctx, n.client, front.view(session), front.notEmpty)
	}
	if err != nil {
		return nil, err
	}
	if q.keeps() {
		joined.patience = 2*time.Since(began) + time.Millisecond
	}
	return joined, nil
}

// admit has the view admit a new node, which the driver must count. It returns nil if there is no
// view, or if the view does not have the node.
func (q *Queue) admit(ctx context.Context, n *node, v *view.View) (*view.View, error) {
	if _, ours := q.driver.SortKey(n.Name(), q.name); !ours {
		return nil, fmt.Errorf("%w: driver %T does not count its own node %s: SortKey is false", framework.ErrBadArgument, q.driver, n.Name())
	}
	if v == nil {
		return nil, nil
	}
	if err := v.Await(ctx); err != nil {
		return nil, err
	}
	entered := n.enterView(v)
	q.lookAtView(v)
	if !entered {
		return nil, nil
	}
	return v, nil
}

// create has the driver create the node. If the driver fails or panics after the create of a
// protected node, the client deletes that.
func (q *Queue) create(ctx context.Context, client *framework.Client) (path string, token int64, err error) {
	var debt *engine.Debt // nil: no protected node was created
	wanted := false
	defer func() {
		switch {
		case debt == nil:
		case !wanted:
			debt.GiveUp()
		case !debt.Settle():
			err = framework.ErrClosed
		}
	}()
	path, token, err = create(ctx, q.driver, engine.Owing(client, &debt), Node{Base: q.path, Name: q.name, Data: q.cfg.dataOf(ctx)})
	if err == nil {
		err = q.checkNode(ctx, client, path, debt)
	}
	wanted = err == nil
	return path, token, err
}

// checkNode requires that the node is an ephemeral child of the path, of the client's session. A
// protected create proves that without a request. Other nodes are deleted, unless another session
// owns them.
func (q *Queue) checkNode(ctx context.Context, client *framework.Client, path string, debt *engine.Debt) (err error) {
	if parent, _ := framework.Split(path); parent != q.path || framework.ValidatePath(path) != nil {
		return fmt.Errorf("%w: driver %T created %q, which is no child of %s", framework.ErrBadArgument, q.driver, path, q.path)
	}
	if debt != nil && debt.Created(engine.Of(client).Real(path)) {
		return nil
	}
	session, err := client.Session(ctx)
	if err != nil {
		return err
	}
	own := false
	defer func() {
		if !own {
			mine := func(owner int64) bool { return owner == 0 || owner == session.ID() }
			limited, cancel := context.WithTimeout(context.Background(), giveUpTimeout)
			defer cancel()
			_ = engine.Of(client).Owe(path, (*engine.Session)(session), false, mine, func() bool { return false }).Await(limited) // err says why
		}
	}()
	found, stat, err := client.Exists(ctx, path)
	switch {
	case err != nil:
		return err
	case !found:
		own = true // there is nothing to delete
		return &locking.NodeLost{Cause: ErrNodeDeleted}
	case stat.EphemeralOwner != session.ID():
		return fmt.Errorf("%w: driver %T created %s, which is not an ephemeral node of its client's session", framework.ErrBadArgument, q.driver, path)
	}
	own = true
	return nil
}

// listAfter returns a client for a create, by which a list with ctx is sent directly after it.
// listed sends it unless that was done, waits for it, and returns the children that belong to this
// lock. It returns nil if that failed.
func (q *Queue) listAfter(ctx context.Context, client *framework.Client) (_ *framework.Client, listed func() []string) {
	var answer func() []string
	send := sync.OnceFunc(func() {
		answer = start(func() []string { // ends with ctx at the latest
			all, _ := q.listAll(ctx, client) // if it failed, it is sent again
			return all
		})
	})
	return engine.Sent(client, send), func() []string {
		send()
		children, _ := q.sort(answer()) // here, since SortKey may panic
		return children
	}
}

// look saves TryAcquire the writes when all leases are held: the driver decides about a node at
// the end of the queue. If only the driver knows the name that the node would have, nothing is
// looked at. Nor with retention: an existing node may be a kept one, which is deleted when a new
// one is created.
func (q *Queue) look(ctx context.Context, client *framework.Client, v *view.View) error {
	if !q.cfg.recipe.Numbered || q.keeps() {
		return nil
	}
	leases := q.maxLeases()
	return q.refuse(ctx, client, v, func(children []string) error {
		nodes, _ := q.split(children)
		last := q.name + lastNumber
		turn, err := q.driver.Decide(Line{append(slices.Clone(nodes), last), last, leases})
		switch {
		case err == nil && !turn.Held:
			return q.notFree(nodes)
		case q.delayLeft(q.dead(children)) > 0:
			return errDelayed
		}
		return nil
	})
}

// notEmpty returns ErrNotAcquired if there are children.
func (q *Queue) notEmpty(children []string) error {
	if len(children) == 0 {
		return nil
	}
	return q.notFree(children)
}

// lastNumber is the highest that gives an order.
const lastNumber = "2147483646"

// refuse returns why not, if the children that belong to this lock are in the way. The view may be
// behind a release elsewhere that has returned, so only a list may say so.
func (q *Queue) refuse(
	ctx context.Context, client *framework.Client, v *view.View, why func(children []string) error,
) error {
	children, err := q.children(ctx, client, v)
	if v != nil && (err != nil || why(children) != nil) {
		children, err = q.list(ctx, client)
	}
	if err != nil {
		return err
	}
	return why(children)
}
