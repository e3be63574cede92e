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

// watchAfter is how long a hold must last before its node is watched, if there is no view. Most holds are
// shorter and save the watch.
const watchAfter = 5 * time.Millisecond

// watch begins to watch our node, after a while, until it rests. own is a watch that is there, or nil.
func (n *node) watch(after time.Duration, own *framework.Watch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwatch != nil || n.state != holding {
		return
	}
	if own != nil {
		after = 0 // it costs nothing
	}
	ctx, cancel := context.WithCancel(framework.InSession(context.Background(), n.session))
	timer := time.AfterFunc(after, func() { n.watchNode(ctx, own) }) // ends with ctx
	n.unwatch = func() {
		timer.Stop()
		cancel()
	}
}

// watchNode returns when our node is deleted or ctx is done.
func (n *node) watchNode(ctx context.Context, watch *framework.Watch) {
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
			n.mu.Lock()
			l := n.lease
			n.mu.Unlock()
			l.lose(fmt.Errorf("%w: its node: %w", ErrLost, err))
			return
		case err != nil:
			return // it is over
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
