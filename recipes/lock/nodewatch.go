package lock

import (
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
	"github.com/gocurator/curator/retry"
)

// The watches of a queue that is listed: one on each node that is waited for, and one on the node of a holder.

// watchSet are watches on several nodes.
type watchSet struct {
	watches []*framework.Watch
}

// maxWatched is how many nodes are watched one by one. To wait for one of more nodes, one watch on their parent
// is cheaper, although it fires for new nodes too.
const maxWatched = 4

// watchAll watches nodes. It returns nil if one of them is deleted already.
func (q *Queue) watchAll(ctx context.Context, names []string) (*watchSet, error) {
	if len(names) > maxWatched {
		watch, err := q.watchList(ctx, names)
		if watch == nil {
			return nil, err
		}
		return &watchSet{[]*framework.Watch{watch}}, nil
	}
	set := &watchSet{}
	for _, name := range names {
		// Not exists: that would leave a watch behind on a node that is gone.
		_, _, watch, err := q.client.GetW(ctx, framework.Join(q.base, name))
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		set.watches = append(set.watches, watch)
	}
	return set, nil
}

// watchList watches the list of children. It returns nil if one of names is not in it.
func (q *Queue) watchList(ctx context.Context, names []string) (*framework.Watch, error) {
	children, _, watch, err := q.client.ChildrenW(ctx, q.base)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	there := make(map[string]bool, len(children))
	for _, child := range children {
		there[child] = true
	}
	if slices.ContainsFunc(names, func(name string) bool { return !there[name] }) {
		return nil, nil
	}
	return watch, nil
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

// gone reports whether one of the nodes is deleted, or may be.
func (s *watchSet) gone() bool {
	return slices.ContainsFunc(s.watches, func(w *framework.Watch) bool {
		return w.Event().Type == zk.EventNodeDeleted || w.Event().Type == zk.EventNodeChildrenChanged
	})
}

// watch begins to watch our node, after a while, until unwatchNode.
func (e *entry) watch(after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watching || e.ended {
		return
	}
	if e.own != nil {
		after = 0 // it costs nothing
	}
	e.watching = true
	ctx, cancel := context.WithCancel(framework.InSession(context.Background(), e.session))
	timer := time.AfterFunc(after, func() { e.watchNode(ctx) }) // ends with ctx
	e.unwatch = func() {
		timer.Stop()
		cancel()
	}
}

// watchNode returns when our node is deleted or ctx is done.
func (e *entry) watchNode(ctx context.Context) {
	for watch := e.own; ; watch = nil {
		var err error
		if watch == nil {
			_, _, watch, err = e.queue.client.GetW(ctx, e.path)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, zk.ErrNoNode):
			e.vanish()
			return
		case retry.MayPass(err):
			// If ctx ends, the next request says so.
			_ = wait.Sleep(ctx, engine.RefusedPause)
			continue // out of reach; whether that is trouble is for the session to say
		case errors.Is(err, zk.ErrNoAuth):
			e.unreadable(err)
			return
		case err != nil:
			return // it is over
		}
		select {
		case <-watch.Done():
			if watch.Event().Type == zk.EventNodeDeleted && ctx.Err() == nil {
				e.vanish()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// unreadable ends the hold of a node that we may not read: nobody would tell us of its end. Only a driver that gives nodes an ACL
// of its own gets here.
func (e *entry) unreadable(reason error) {
	e.mu.Lock()
	l := e.lease
	e.mu.Unlock()
	if l != nil {
		l.lose(fmt.Errorf("%w: its node: %w", ErrLost, reason))
	}
}

// unwatchNode ends what watch began.
func (e *entry) unwatchNode() {
	e.mu.Lock()
	unwatch := e.unwatch
	e.unwatch = nil
	e.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
}
