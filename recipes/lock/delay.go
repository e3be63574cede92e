package lock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
// d must be positive, and the lock must have one lease and the [Standard] driver, as a mutex has,
// and no [WithRetention]. The default is no delay.
//
// A holder dies if its session ends without a Release, or if its node is deleted before Release, by
// [WithMaxHold] or by another client. There is no delay after a Release, nor after a waiter has
// given up or died. A client that dies within the last round trip of an Acquire counts as a holder.
//
// All contenders should use the option. Others, such as Curator for Java, neither cause a delay nor
// wait for one. If the values of d differ, a contender waits for the longer one: its d, or the dead
// holder's.
//
// A contender waits at the head of the queue, for d from the moment at which a Queue of its client
// first finds that the holder is dead. Acquire may give up in between, and a later Acquire or
// TryAcquire of the client waits for the rest, even with another Queue. TryAcquire fails with
// [ErrNotAcquired] until d has passed. So a program that calls TryAcquire once and exits never ends
// a delay: it needs Acquire and a context with a deadline of more than d.
//
// While a contender waits out a delay, [Queue.Participants] of a Queue with the option lists it as
// a waiter. A holder without the option is listed as a waiter too, as long as the mark of a dead
// holder exists.
//
// A holder has a mark: a persistent child of the path, held-mark, with digits for the holder's node
// and d. A contender needs no right to read it. An Acquire takes one more round trip, or two after
// a wait, and a Release none. An operator can delete the child, which ends the delay. If no
// contender acquires after a death, a client that knows the mark deletes it an hour after the
// delay.
func WithLockDelay(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.delay = d }, "lock delay %v, must be positive", d)
}

// mark says that a node has held, with WithLockDelay. It is a persistent child of the lock's path,
// whose name contains the node's: a deletion never meets the mark of another node, however late it
// is carried out. Marks are listed and not read, so their ACL is of no account.
//
//	the mark of                            is deleted by            when
//	a holder that releases                 its client               with its node, in one transaction
//	a contender that gave up, not knowing  its client               after its node, when the mark cannot be
//	whether its mark was created                                    created any more
//	a dead holder                          the next holder          in the transaction that creates its
//	                                                                own mark, after the delay
//	a dead holder without a next one       each client that knows   sweepAfter after the delay
//	                                       the mark and is open
//
// A holder is dead if a list or a view shows its mark without its node: the node exists while its
// mark is created, and only a Release deletes both, the mark first.
type mark struct {
	node  string // the name of the holder's node
	delay time.Duration
}

// markPrefix begins the name of a mark. Curator for Java and kazoo sort it behind all nodes of a
// lock.
const markPrefix = "held-mark."

// name returns the name of the mark. The node's is in hexadecimal digits: Curator for Java takes
// any child whose name contains "lock-" for a node of a lock. The name ends with a letter, and not
// like a sequence number.
func (m mark) name() string {
	return markPrefix + hex.EncodeToString([]byte(m.node)) + "." + m.delay.String()
}

// parseMark returns the mark that a child is.
func parseMark(child string) (m mark, ok bool) {
	rest, ok := strings.CutPrefix(child, markPrefix)
	if !ok {
		return mark{}, false
	}
	digits, delay, _ := strings.Cut(rest, ".")
	node, err := hex.DecodeString(digits)
	if err != nil {
		return mark{}, false
	}
	m.node = string(node)
	m.delay, err = time.ParseDuration(delay)
	return m, err == nil && m.delay > 0 && m.name() == child
}

// occursInMarks reports whether the name of a mark may contain the name of a lock's nodes. Curator
// for Java would take such a mark for a node.
func occursInMarks(name string) bool {
	begins := strings.TrimRight(name, "0123456789abcdef.hmnsµ")
	return strings.Contains(markPrefix, name) || strings.HasSuffix(strings.TrimSuffix(markPrefix, "."), begins)
}

// split returns the nodes among the children of the lock, and the marks behind them.
func (q *Queue) split(children []string) (nodes []string, marks []mark) {
	if q.cfg.delay == 0 {
		return children, nil
	}
	end := len(children)
	for ; end > 0; end-- {
		m, ok := parseMark(children[end-1])
		if !ok {
			break
		}
		marks = append(marks, m)
	}
	return children[:end], marks
}

// dead returns the marks among children whose holders are dead.
func (q *Queue) dead(children []string) []mark {
	nodes, marks := q.split(children)
	return slices.DeleteFunc(marks, func(m mark) bool { return slices.Contains(nodes, m.node) })
}

// delayed reports whether a node that is first in the queue waits out a delay: it has no mark, and
// another has.
func delayed(node string, marks []mark) bool {
	return len(marks) > 0 && !slices.ContainsFunc(marks, func(m mark) bool { return m.node == node })
}

func (q *Queue) markPath(m mark) string { return framework.Join(q.path, m.name()) }

// sightings are when the Queues of a client first saw the marks of dead holders.
type sightings struct {
	mu    sync.Mutex
	first map[string]*sighting // by the mark's path on the server
}

type sighting struct {
	at    time.Time
	sweep *time.Timer
}

type sightingsKey struct{}

func sightingsOf(client *framework.Client) *sightings {
	s, _ := engine.Of(client).Values().LoadOrStore(sightingsKey{}, &sightings{first: make(map[string]*sighting)})
	return s.(*sightings)
}

// sweepAfter is how long the mark of a dead holder stays after the delay if no contender acquires.
// It is longer than the delays of contenders that have not seen the mark yet.
const sweepAfter = time.Hour

// delayLeft returns how long no hold may begin after the deaths of holders. A delay counts from the
// first call with its mark by any Queue of the client.
func (q *Queue) delayLeft(dead []mark) (left time.Duration) {
	if len(dead) == 0 {
		return 0
	}
	s := sightingsOf(q.client)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range dead {
		path, d := engine.Of(q.client).Real(q.markPath(m)), max(q.cfg.delay, m.delay)
		seen := s.first[path]
		if seen == nil {
			seen = &sighting{at: time.Now(), sweep: q.sweepLater(m)}
			s.first[path] = seen
		}
		left = max(left, d-time.Since(seen.at))
	}
	return left
}

// forget is called when marks are deleted.
func (s *sightings) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := s.first[path]; seen != nil {
		seen.sweep.Stop()
		delete(s.first, path)
	}
}

// sweepLater deletes the mark of a dead holder in the end, unless the client is closed before.
func (q *Queue) sweepLater(m mark) *time.Timer {
	return time.AfterFunc(max(q.cfg.delay, m.delay)+sweepAfter, func() {
		sightingsOf(q.client).forget(engine.Of(q.client).Real(q.markPath(m)))
		if !wait.Closed(engine.Of(q.client).Done()) {
			engine.Of(q.client).Discard(q.markPath(m), nil)
		}
	})
}

// errDelayed is ErrNotAcquired in a delay.
var errDelayed = fmt.Errorf("%w: lock delay after the death of a holder", ErrNotAcquired)

// markState is what is known of the mark of a node, with WithLockDelay:
//
//	from      to        when
//	unmarked  asked     the node is first in the queue: a transaction that creates the mark is sent
//	asked     marked    one was carried out
//	marked    behind    the node is deleted although the work may still run: the mark stays
//	any       unmarked  the node was deleted, and the mark with it
type markState int8

const (
	unmarked markState = iota
	asked
	marked
	behind
)

// claim creates the mark of a node that is first in the queue, and deletes the marks of dead
// holders after the delay. children are the lock's: nodes and marks. If it reports false, the queue
// must be looked at again.
func (n *node) claim(ctx context.Context, children []string) (claimed bool, err error) {
	q := n.queue
	if q.cfg.delay == 0 || n.markState() == marked {
		return true, nil
	}
	if slices.Contains(children, n.mark().name()) { // a transaction whose reply was lost has created it
		n.setMarkState(marked)
		return true, nil
	}
	n.setMarkState(asked)
	dead := q.dead(children)
	err = n.createMark(ctx, dead)
	var refused *framework.MultiError
	for errors.As(err, &refused) && errors.Is(err, zk.ErrNotEmpty) { // a mark with children stays
		dead = slices.Delete(dead, refused.Index-1, refused.Index)
		err = n.createMark(ctx, dead)
	}
	switch {
	case err == nil:
		n.setMarkState(marked)
		for _, m := range dead {
			sightingsOf(q.client).forget(engine.Of(q.client).Real(q.markPath(m)))
		}
		return true, nil
	case !errors.As(err, &refused):
		return false, err
	case refused.Index == 0 && errors.Is(err, zk.ErrNoNode):
		return false, &locking.NodeLost{Cause: ErrNodeDeleted}
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode):
		return false, nil // the own mark exists, or another client has deleted one of dead
	}
	return false, err
}

// createMark creates the mark of the node, if that exists, in place of the marks of dead holders.
func (n *node) createMark(ctx context.Context, dead []mark) error {
	q, client := n.queue, engine.Uncompressed(n.client)
	ops := []any{&zk.CheckVersionRequest{Path: n.path, Version: -1}}
	for _, m := range dead {
		ops = append(ops, &zk.DeleteRequest{Path: q.markPath(m), Version: -1})
	}
	m := n.mark()
	_, err := client.Multi(ctx, append(ops, &zk.CreateRequest{
		Path: q.markPath(m),
		Data: []byte(m.delay.String() + " " + m.node), // for operators
		Acl:  engine.Of(client).ACL(framework.Join(q.path, q.name)),
	})...)
	return err
}

func (n *node) mark() mark { return mark{node: n.Name(), delay: n.queue.cfg.delay} }

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

// companion returns the mark, which is deleted together with the node. n.mu is locked.
func (n *node) companion() engine.Companion {
	switch n.marked {
	case asked:
		return engine.Companion{Path: n.queue.markPath(n.mark())}
	case marked:
		return engine.Companion{Path: n.queue.markPath(n.mark()), Sure: true}
	}
	return engine.Companion{}
}

// keepMark has the mark stay when the node is deleted: the work may still run. n.mu is locked.
func (n *node) keepMark() {
	if n.marked == marked {
		n.marked = behind
	}
}

// orphaned is called when the node is gone. If its mark remains, the client deletes the mark in the
// end. n.mu is locked.
func (n *node) orphaned() {
	if (n.marked == marked || n.marked == behind) && !wait.Closed(engine.Of(n.queue.client).Done()) {
		n.queue.sweepLater(n.mark())
	}
}

// deleteWith carries out ops and deletes the node, with its mark unless that is missing.
func (n *node) deleteWith(ctx context.Context, ops []any) (responses []zk.MultiResponse, err error) {
	client, own := engine.Once(n.client), &zk.DeleteRequest{Path: n.path, Version: -1}
	ops = slices.Clip(ops)
	if n.markState() == marked {
		responses, err = client.Multi(ctx, append(ops, &zk.DeleteRequest{Path: n.queue.markPath(n.mark()), Version: -1}, own)...)
		var refused *framework.MultiError
		if !errors.As(err, &refused) || refused.Index != len(ops) || verdict.MayPass(err) {
			return responses, err
		}
	}
	return client.Multi(ctx, append(ops, own)...)
}

// deadMarks returns operations that delete the marks of dead holders. It fails if the queue has a
// node, or the delay is not over.
func (q *Queue) deadMarks(ctx context.Context) (ops []any, err error) {
	children, err := q.list(ctx, q.client)
	if err != nil {
		return nil, err
	}
	dead := q.dead(children)
	if len(dead) < len(children) || q.delayLeft(dead) > 0 {
		return nil, ErrNotAcquired
	}
	for _, m := range dead {
		ops = append(ops, &zk.DeleteRequest{Path: q.markPath(m), Version: -1})
	}
	return ops, nil
}
