package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/locking"
)

// WithLockDelay delays the next hold by d after the death of a holder. It protects a resource that
// checks neither a guard nor a token, if the work of the dead holder stops within d.
//
// d must be positive. The default is no delay. All contenders should use the option: see the
// package comment.
func WithLockDelay(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.delay = d }, "lock delay %v, must be positive", d)
}

// markName is the name of the mark. Curator for Java and kazoo sort it behind all nodes of a lock.
const markName = "held-mark"

// errDelayed is ErrNotAcquired in a delay.
var errDelayed = fmt.Errorf("%w: lock delay after the death of a holder", ErrNotAcquired)

// markState is what is known of the mark of a node, with WithLockDelay:
//
//	from      to        when
//	unmarked  asked     the node is first in the queue: transactions that create the mark are sent
//	asked     marked    one of them was carried out
//	any       unmarked  the node is deleted although the work may still run: the mark stays
type markState int8

const (
	unmarked markState = iota
	asked
	marked
)

// mark is the mark of a hold.
type mark struct {
	node  string // the name of the holder's node
	delay time.Duration
	stat  *zk.Stat // nil: not read
}

// String returns the data of the mark.
func (m mark) String() string { return m.delay.String() + " " + m.node }

// readMark reads the mark, and watches it. It is nil if there is none.
func (q *Queue) readMark(ctx context.Context, client *framework.Client) (*mark, *framework.Watch, error) {
	data, stat, watch, err := engine.Uncompressed(client).GetW(ctx, q.markPath())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	delay, node, _ := strings.Cut(string(data), " ")
	d, err := time.ParseDuration(delay)
	if err != nil || d <= 0 || node == "" {
		return nil, nil, fmt.Errorf("%w: %s has data of another program: %.80q", framework.ErrBadArgument, markName, data)
	}
	return &mark{node: node, delay: d, stat: stat}, watch, nil
}

func (q *Queue) markPath() string { return framework.Join(q.path, markName) }

// delayLeft returns how long no hold may begin. The holder that m names must be dead. The delay
// counts from the first call with this m.
func (q *Queue) delayLeft(m *mark) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead.zxid != m.stat.Mzxid {
		q.dead.zxid, q.dead.since = m.stat.Mzxid, time.Now()
	}
	return max(q.cfg.delay, m.delay) - time.Since(q.dead.since)
}

// lookForMark saves TryAcquire the writes in a delay. It returns the mark of a dead holder whose
// delay is over, or nil if there is no mark.
func (q *Queue) lookForMark(ctx context.Context, client *framework.Client) (*mark, error) {
	if q.cfg.delay == 0 {
		return nil, nil
	}
	m, _, err := q.readMark(ctx, client)
	if m == nil {
		return nil, err
	}
	children, err := q.list(ctx, client) // later than the mark: a holder that is not in it is dead
	switch {
	case err != nil:
		return nil, err
	case len(children) > 0:
		return nil, q.notFree(children)
	case q.delayLeft(m) > 0:
		return nil, errDelayed
	}
	return m, nil
}

// rewindMarked is rewind of a path with the mark of a dead holder, after the delay. If all numbers
// are exhausted, no contender can replace the mark.
func (q *Queue) rewindMarked(ctx context.Context, version int32) error {
	m, err := q.lookForMark(ctx, q.client)
	if m == nil {
		return err
	}
	_, err = q.client.Multi(ctx, &zk.DeleteRequest{Path: q.markPath(), Version: m.stat.Version},
		&zk.DeleteRequest{Path: q.path, Version: version})
	return err
}

// claim creates the mark of a node that is first in the queue: after the delay, if the mark of a
// dead holder exists. Then the node holds.
func (n *node) claim(ctx context.Context, mayWait bool, other wakes) error {
	if n.queue.cfg.delay == 0 || n.markState() == marked {
		return nil
	}
	n.setMarkState(asked)
	for before := (*mark)(nil); ; {
		err := n.createMark(ctx, before)
		var refused *framework.MultiError
		switch {
		case err == nil:
			n.setMarkState(marked)
			return nil
		case !errors.As(err, &refused):
			return err
		case refused.Index == 0 && errors.Is(err, zk.ErrNoNode):
			return &locking.NodeLost{Cause: ErrNodeDeleted}
		case !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion):
			return err
		}
		// Another mark exists than before, or a transaction whose reply was lost has created this
		// one.
		before, err = n.awaitDelay(ctx, mayWait, other)
		switch {
		case err != nil:
			return err
		case before != nil && before.node == n.Name():
			n.setMarkState(marked)
			return nil
		}
	}
}

// createMark creates the mark of the node, if that exists, in place of the one before.
func (n *node) createMark(ctx context.Context, before *mark) error {
	client := engine.Uncompressed(n.client)
	ops := []any{&zk.CheckVersionRequest{Path: n.path, Version: -1}}
	if before != nil { // not a set: that would need a right to write to the nodes of others
		ops = append(ops, &zk.DeleteRequest{Path: n.queue.markPath(), Version: before.stat.Version})
	}
	_, err := client.Multi(ctx, append(ops, &zk.CreateRequest{
		Path: n.queue.markPath(),
		Data: []byte(n.ownMark().String()),
		Acl:  engine.Of(client).ACL(framework.Join(n.queue.path, n.queue.name)), // the node's
	})...)
	return err
}

// awaitDelay returns the mark when its delay is over, or at once if it is the node's, or nil if no
// mark exists. A node that is first knows that the holder in another mark is dead: its node was
// ahead.
func (n *node) awaitDelay(ctx context.Context, mayWait bool, other wakes) (*mark, error) {
	for {
		m, watch, err := n.queue.readMark(ctx, n.client)
		if m == nil || m.node == n.Name() {
			return m, err
		}
		for !wait.Closed(watch.Done()) {
			left := n.queue.delayLeft(m)
			switch {
			case left <= 0:
				return m, nil
			case !mayWait:
				return nil, errDelayed
			}
			over, cancel := context.WithTimeout(context.Background(), left)
			err := other.wait(ctx, watch.Done(), over.Done())
			cancel()
			switch {
			case err != nil && ctx.Err() != nil:
				return nil, givenUp(ctx, errDelayed)
			case err != nil:
				return nil, err
			}
		}
	}
}

func (n *node) ownMark() mark { return mark{node: n.Name(), delay: n.queue.cfg.delay} }

func (n *node) markState() markState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.marked
}

func (n *node) setMarkState(s markState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.marked = s
}

// companion is what is deleted together with the node.
func (n *node) companion() engine.Companion {
	state := n.markState()
	if state == unmarked {
		return engine.Companion{}
	}
	return engine.Companion{Path: n.queue.markPath(), Data: n.ownMark().String(), Sure: state == marked}
}

// deleteWith carries out ops and deletes the node, with its mark unless that is missing.
func (n *node) deleteWith(ctx context.Context, ops []any) (responses []zk.MultiResponse, err error) {
	client := engine.Once(n.client)
	ops = append(ops[:len(ops):len(ops)], &zk.DeleteRequest{Path: n.path, Version: -1})
	if n.markState() == marked {
		responses, err = client.Multi(ctx, append(ops, &zk.DeleteRequest{Path: n.queue.markPath(), Version: -1})...)
		var refused *framework.MultiError
		if !errors.As(err, &refused) || refused.Index < len(ops) || verdict.MayPass(err) {
			return responses, err
		}
	}
	return client.Multi(ctx, ops...)
}
