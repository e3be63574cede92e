package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

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
				l.lose(fmt.Errorf("%w: its node: %w", framework.ErrLost, err))
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
