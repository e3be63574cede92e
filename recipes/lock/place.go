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
	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/retry"
)

// place is our node in the queue, from its making until it is gone.
//
// A waiter must know that it holds. It asks for a list, unless there is a proof without one.
// Both proofs rest on the order being that of the numbers: the set of nodes ahead of
// ours only shrinks then.
//
//   - The driver says that a node is all that is in the way (Decision.Sure), and an event
//     tells that it has gone.
//   - The node just ahead is of this Queue; it held, so nobody was ahead of it any more; and
//     our request to delete it was answered.
//
// In both, our own node is known to be there, because it is watched as well, and a server tells
// of what happened in order. Only the end of a session deletes several nodes at once:
// so an event about another node of our own session proves nothing.
type place struct {
	queue    *Queue
	session  *framework.Session
	path     string
	children []string         // as listed right after our node was made; nil: unknown
	ahead    int              // nodes ahead of ours at the last list; -1: unknown
	alone    *framework.Watch // nil, or: until it fires nobody else is in the queue

	over     chan struct{} // closed when the place is given up or lost
	vanished chan struct{} // closed when somebody else has deleted the node

	mu       sync.Mutex // guards what follows
	ended    bool       // over is closed
	gone     bool       // the servers have confirmed that the node is
	tenure   *tenure    // nil while waiting
	since    time.Time  // when it first had a lease
	leases   int        // that there were then; 0: it never had one. Set before the place holds
	passes   int        // from hold to hold in memory
	onOver   func()     // nil, or called when it is over
	watching bool       // our node, now or soon
	unwatch  func()
	own      *framework.Watch // on our node; nil while there is none
}

func (p *place) name() string {
	_, name := framework.Split(p.path)
	return name
}

func (p *place) number() int64 { return number(p.name()) }

// hold waits, if it may, until the place has a lease.
func (p *place) hold(ctx context.Context, wait bool) (*Hold, error) {
	if exhausted(p.name()) {
		return nil, ErrSequenceExhausted
	}
	leases, changed := p.queue.leases()
	turn, err := p.firstTurn(ctx, leases, wait)
	p.tellJoined(ctx)
	for {
		switch {
		case err != nil:
			return nil, err
		case turn.Held:
			p.leases = leases
			h, err := newHold(ctx, p)
			if !errors.Is(err, ErrSuspended) {
				return h, err
			}
			// Nobody is told "yours" and "not yours" in one breath.
		case !wait:
			return nil, ErrNotAcquired
		default:
			sure, err := p.await(ctx, turn, changed) // 4
			if err != nil {
				return nil, err
			}
			if sure {
				turn = Decision{Held: true}
				continue
			}
		}
		leases, changed = p.queue.leases()
		turn, err = p.ask(ctx, leases)
	}
}

// firstTurn is ask with what we know already.
func (p *place) firstTurn(ctx context.Context, leases int, wait bool) (Decision, error) {
	if p.queue.succeeds(p.number()) {
		if _, standard := p.queue.driver.(Standard); standard && leases == 1 {
			p.ahead = 0
		}
		return Decision{Held: true}, nil
	}
	if ahead := p.queue.neighbour(p.session, p.number()-1); ahead != nil && wait {
		return Decision{Watch: []string{ahead.name()}}, nil
	}
	if slices.Contains(p.children, p.name()) {
		return p.decide(p.children, leases)
	}
	return p.ask(ctx, leases)
}

// ask lists the queue, and has the driver decide.
func (p *place) ask(ctx context.Context, leases int) (Decision, error) {
	children, err := p.queue.list(ctx) // 2
	if err != nil {
		return Decision{}, err
	}
	if !slices.Contains(children, p.name()) {
		return Decision{}, &placeLost{ErrNodeDeleted}
	}
	return p.decide(children, leases)
}

// decide asks the driver.
func (p *place) decide(children []string, leases int) (Decision, error) {
	p.ahead = slices.Index(children, p.name())
	turn, err := p.queue.driver.Decide(children, p.name(), leases) // 3
	if err == nil && !turn.Held && len(turn.Watch) == 0 {
		err = fmt.Errorf("%w: driver %T neither grants the lease nor names whom to wait for", ErrBadArgument, p.queue.driver)
	}
	return turn, err
}

// await returns when it is worth looking again: one of the nodes that turn names has gone or
// changed is closed. sure means that there is no need to, because we hold.
func (p *place) await(ctx context.Context, turn Decision, changed <-chan struct{}) (sure bool, err error) {
	// A waiter depends on its session as a holder does: when it is woken, it
	// must not find out only then that its node is long gone.
	stop, err := p.session.Depend(connstate.Session, func(error) {})
	if err != nil {
		return false, err
	}
	defer stop()
	if ahead := p.queue.neighbour(p.session, number(turn.Watch[0])); ahead != nil && ahead.name() == turn.Watch[0] {
		p.watch(0)
		if err := p.sleep(ctx, ahead.over, changed); err != nil {
			return false, err
		}
		return ahead.left() && p.present() && !isClosed(changed), nil
	}
	if turn.Sure {
		p.watch(0)
	}
	names := turn.Watch
	if q := p.queue; turn.Early != "" && q.pace.held.duration() > q.pace.trip.duration() {
		names = append([]string{turn.Early}, names...)
	}
	for {
		set, err := p.watchAll(ctx, names)
		if err != nil {
			return false, err
		}
		if set == nil {
			return false, nil // one has gone already
		}
		awake := make(chan struct{})
		err = p.sleep(ctx, set.fired(awake), changed)
		close(awake)
		if err != nil {
			return false, err
		}
		if set.gone() || isClosed(changed) {
			return turn.Sure && set.foreign && p.present() && !isClosed(changed), nil
		}
		// The connection was lost, or somebody wrote to the node: look at the
		// nodes again. The queue ahead of us is the same.
	}
}

// left reports whether a place that is over had a lease, and is gone: then nobody is ahead of
// the place behind it.
func (p *place) left() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone && p.tenure != nil
}

// watchSet are watches on several nodes.
type watchSet struct {
	watches []*framework.Watch
	foreign bool // it is known that none of the nodes is of our session
}

// maxWatched is how many nodes are watched each on its own. To wait for one of more, one watch
// on their parent is cheaper, although it tells of newcomers as well.
const maxWatched = 4

// watchAll watches nodes. It returns nil if one of them has gone already.
func (p *place) watchAll(ctx context.Context, names []string) (*watchSet, error) {
	if len(names) > maxWatched {
		children, _, watch, err := p.queue.client.ChildrenW(ctx, p.queue.base)
		if err != nil {
			return nil, err
		}
		there := make(map[string]bool, len(children))
		for _, child := range children {
			there[child] = true
		}
		if slices.ContainsFunc(names, func(name string) bool { return !there[name] }) {
			return nil, nil
		}
		return &watchSet{watches: []*framework.Watch{watch}}, nil
	}
	set := &watchSet{foreign: true}
	for _, name := range names {
		// Not exists: that would leave a watch behind on a node that is gone.
		_, stat, watch, err := p.queue.client.GetW(ctx, framework.Join(p.queue.base, name))
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		set.watches = append(set.watches, watch)
		set.foreign = set.foreign && stat.EphemeralOwner != p.session.ID()
	}
	return set, nil
}

// fired is closed when one of the watches fires, unless stop is closed before.
func (s *watchSet) fired(stop <-chan struct{}) <-chan struct{} {
	if len(s.watches) == 1 {
		return s.watches[0].Done()
	}
	fired := make(chan struct{})
	var once sync.Once
	for _, w := range s.watches {
		go func() { // ends with the first watch that fires, or with stop
			select {
			case <-w.Done():
				once.Do(func() { close(fired) })
			case <-fired:
			case <-stop:
			}
		}()
	}
	return fired
}

// gone reports whether one of the nodes is, or may be.
func (s *watchSet) gone() bool {
	return slices.ContainsFunc(s.watches, func(w *framework.Watch) bool {
		return w.Event().Type == zk.EventNodeDeleted || w.Event().Type == zk.EventNodeChildrenChanged
	})
}

// sleep returns when fired or changed is closed. The error says why there is nothing to wait
// for any more.
func (p *place) sleep(ctx context.Context, fired, changed <-chan struct{}) error {
	select {
	case <-fired:
	case <-changed:
	case <-p.vanished:
		return &placeLost{ErrNodeDeleted}
	case <-p.session.Done():
		return p.session.Err()
	case <-ctx.Done():
		// The node ahead may go at this very moment and make us the holder
		// without our knowing. We need not find out: our caller deletes our
		// node, and that wakes the next in line as a release would.
		return ctxerr.Of(ctx)
	}
	return nil
}

// watch has our node watched, from soon on, until unwatchNode.
func (p *place) watch(soon time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watching || p.ended {
		return
	}
	p.watching = true
	ctx, cancel := context.WithCancel(framework.InSession(context.Background(), p.session))
	timer := time.AfterFunc(soon, func() { p.watchNode(ctx) }) // ends with ctx
	p.unwatch = func() {
		timer.Stop()
		cancel()
	}
}

// watchNode returns when our node is gone or ctx is done.
func (p *place) watchNode(ctx context.Context) {
	for {
		_, _, watch, err := p.queue.client.GetW(ctx, p.path)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, zk.ErrNoNode):
			p.vanish()
			return
		case retry.Retryable(err):
			continue // out of reach; whether that is trouble is for the session to say
		case err != nil:
			return // it is over
		}
		p.mu.Lock()
		p.own = watch
		p.mu.Unlock()
		select {
		case <-watch.Done():
		case <-ctx.Done():
			return
		}
	}
}

// present reports whether our node is known to be there, by all that the servers have told us.
func (p *place) present() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own != nil && !isClosed(p.own.Done())
}

// vanish tells whoever has the place that its node was deleted.
func (p *place) vanish() {
	p.mu.Lock()
	t := p.tenure
	close(p.vanished)
	p.mu.Unlock()
	if t != nil {
		t.lose(t.deletion())
	}
}

// begin makes the place one that holds.
func (p *place) begin(t *tenure) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.vanished) {
		return &placeLost{ErrNodeDeleted}
	}
	if p.since.IsZero() {
		p.since = t.began
	}
	p.tenure = t
	return nil
}

// unwatchNode ends what watch began.
func (p *place) unwatchNode() {
	p.mu.Lock()
	unwatch := p.unwatch
	p.unwatch = nil
	p.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
}

// end says that we have nothing to do with the node any more, and whether it is known to be
// gone. Only the first call counts.
func (p *place) end(gone bool) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended, p.gone = true, gone
	close(p.over)
	onOver := p.onOver
	p.mu.Unlock()
	p.unwatchNode()
	p.queue.forget(p)
	if onOver != nil {
		onOver()
	}
}

// patience is how long giving up a place may hold up the caller. The node goes in
// any case; if it has gone by then, the caller's next look does not show it.
const patience = time.Second

// leave takes our node out of the queue. What ended the waiting does not matter to it:
// in particular not a context.
func (p *place) leave() {
	if p.session.Err() != nil {
		p.leaveSoon() // the servers see to it as well
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.remove(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		p.queue.client.Logger().Warn("lock node stays behind", "path", p.path, "reason", err)
	}
}

// leaveSoon is leave for those who cannot wait.
func (p *place) leaveSoon() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = p.remove(now) // goes on in the background
}

// remove deletes our node, in the background if ctx ends first.
func (p *place) remove(ctx context.Context) (found bool, err error) {
	p.unwatchNode()
	gone := p.queue.bequeath(p)
	found, err = p.queue.client.DeleteGuaranteed(ctx, p.path)
	if found && err == nil {
		gone()
	}
	if err == nil {
		p.queue.rewind(ctx, p.path)
	}
	p.end(err == nil)
	return found, err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
