package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
)

// plainClient contends by the protocol of the ZooKeeper documentation, as Java does: create, list,
// watch the one ahead, list again. It uses the operations of package framework, and nothing of
// recipes/lock.
type plainClient struct{ *contender }

// errQueueLost means that this contender's node was deleted while it waited.
var errQueueLost = errors.New("node was deleted")

// place is a node of this contender in a queue.
type place struct {
	client  *framework.Client
	session *framework.Session
	path    string
}

// enqueue creates a node.
func (p *plainClient) enqueue(ctx context.Context, dir, name string) (*place, error) {
	opts := []framework.CreateOption{framework.As(framework.EphemeralSequential), framework.Protected(), framework.ContainerParents()}
	if p.Kind == hidden {
		opts = append(opts, framework.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}}))
	}
	if p.Loose {
		return p.enqueueLoosely(ctx, framework.Join(dir, name), opts)
	}
	session, err := p.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	path, err := p.client.In(session).Create(ctx, framework.Join(dir, name), nil, opts...)
	if err != nil {
		return nil, err
	}
	return &place{p.client, session, path}, nil
}

// enqueueLoosely creates a node in any session: a repeated create may run in another one. The node
// must belong to the live session when the create returns.
func (p *plainClient) enqueueLoosely(ctx context.Context, path string, opts []framework.CreateOption) (*place, error) {
	marked, lives := withSession(ctx)
	path, err := p.client.Create(marked, path, nil, opts...)
	if err != nil {
		return nil, err
	}
	found, stat, err := p.client.Exists(ctx, path)
	if err == nil && found && *lives != 0 && stat.EphemeralOwner != *lives {
		p.monitor.wrongOwner(p.name, path, stat.EphemeralOwner, *lives)
	}
	session, again := p.client.Session(ctx)
	if err = errors.Join(err, again); err == nil && (!found || stat.EphemeralOwner != session.ID()) {
		err = errQueueLost
	}
	if err != nil {
		// continues until it is deleted
		_ = p.client.Delete(ctx, path, framework.IfExists(), framework.Guaranteed())
		return nil, err
	}
	return &place{p.client, session, path}, nil
}

// leave deletes the node.
func (n *place) leave() error {
	return n.client.Delete(n.session.Context(), n.path, framework.IfExists(), framework.Guaranteed())
}

// sequence is the number at the end of a name.
func sequence(name string) string { return name[max(0, len(name)-10):] }

// ahead lists the nodes of these kinds that are ahead, in order.
func (n *place) ahead(ctx context.Context, kinds ...string) ([]string, error) {
	dir, own := framework.Split(n.path)
	children, _, err := n.client.In(n.session).Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(children, own) {
		return nil, errQueueLost
	}
	children = slices.DeleteFunc(children, func(name string) bool {
		return sequence(name) >= sequence(own) || !slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(name, kind) })
	})
	slices.SortFunc(children, func(a, b string) int { return cmp.Compare(sequence(a), sequence(b)) })
	return children, nil
}

// wait waits until no node of these kinds is ahead, or returns errWouldWait.
func (n *place) wait(ctx context.Context, wait bool, kinds ...string) error {
	for {
		ahead, err := n.ahead(ctx, kinds...)
		if err != nil || len(ahead) == 0 {
			return err
		}
		if !wait {
			return errWouldWait
		}
		dir, _ := framework.Split(n.path)
		found, _, watch, err := n.client.In(n.session).ExistsW(ctx, framework.Join(dir, ahead[len(ahead)-1]))
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := pause(ctx, watch.Done()); err != nil {
			return err
		}
	}
}

var errWouldWait = errors.New("another contender is ahead")

// pause waits for a watch, and no longer than a while: of nodes that we may not read no server
// sends events.
func pause(ctx context.Context, fired <-chan struct{}) error {
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-fired:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// hold believes in the node for as long as its session lives.
func (p *plainClient) hold(n *place, shared bool) (*held, error) {
	ctx, end := context.WithCancelCause(context.Background())
	stop, err := n.session.Depend(connstate.LostEndsHold, func(cause error) { end(cause) })
	if err != nil {
		end(err)
		return nil, err
	}
	return &held{
		who: p.name, owner: int(p.owners.Add(1)), shared: shared, ctx: ctx, session: n.session.ID(), timeout: n.session.Timeout(), node: n.path,
		release: func() error {
			end(errors.New("released"))
			stop()
			return n.leave()
		},
		token: func(ctx context.Context) (int64, error) {
			found, stat, err := n.client.In(n.session).Exists(ctx, n.path)
			if err != nil || !found {
				return 0, cmp.Or(err, errQueueLost)
			}
			return stat.Czxid, nil
		},
		guard: func() *zk.CheckVersionRequest { return &zk.CheckVersionRequest{Path: n.path, Version: -1} },
	}, nil
}

// try creates a node, waits, and holds.
func (p *plainClient) try(ctx context.Context, name string, wait, shared bool, kinds ...string) ([]*held, error) {
	return p.holdAfter(ctx, p.queue(), name, shared, func(n *place) error { return n.wait(ctx, wait, kinds...) })
}

// holdAfter creates a node, and holds when wait returns. After an error no node stays.
func (p *plainClient) holdAfter(ctx context.Context, dir, name string, shared bool, wait func(*place) error) ([]*held, error) {
	n, err := p.enqueue(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	var h *held
	if err = wait(n); err == nil {
		h, err = p.hold(n, shared)
	}
	if err != nil {
		_ = n.leave() // goes on until it is gone
		return nil, err
	}
	return []*held{h}, nil
}

// exclusive is a mutex.
func (p *plainClient) exclusive(name string) acquirer {
	return func(ctx context.Context, wait bool) ([]*held, error) { return p.try(ctx, name, wait, false, name) }
}

// again begins anew when the session was lost.
func again(acquire acquirer) acquirer {
	return func(ctx context.Context, wait bool) (holds []*held, err error) {
		for range 10 {
			if holds, err = acquire(ctx, wait); !errors.Is(err, framework.ErrSessionLost) && !errors.Is(err, errQueueLost) {
				break
			}
		}
		return holds, err
	}
}

// readOrWrite is one side of a read/write lock.
func (p *plainClient) readOrWrite(ctx context.Context, wait bool) ([]*held, error) {
	const read, write = "__READ__", "__WRIT__"
	if p.random.IntN(2) == 0 {
		return p.try(ctx, read, wait, true, write)
	}
	return p.try(ctx, write, wait, false, read, write)
}

// semaphore takes one lease as InterProcessSemaphoreV2 does: behind a mutex, by the number of
// leases.
func (p *plainClient) semaphore(ctx context.Context, _ bool) ([]*held, error) {
	front, err := p.enqueue(ctx, framework.Join(lockPath, "locks"), "lock-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = front.leave() }() // continues until it is deleted
	if err := front.wait(ctx, true, "lock-"); err != nil {
		return nil, err
	}
	return p.holdAfter(ctx, framework.Join(lockPath, "leases"), "lease-", false, func(n *place) error { return n.waitRoom(ctx) })
}

// waitRoom waits until there are no more leases than there may be.
func (n *place) waitRoom(ctx context.Context) error {
	dir, own := framework.Split(n.path)
	for {
		children, _, watch, err := n.client.In(n.session).ChildrenW(ctx, dir)
		switch {
		case err != nil:
			return err
		case !slices.Contains(children, own):
			return errQueueLost
		case len(children) <= leases:
			return nil
		}
		if err := pause(ctx, watch.Done()); err != nil {
			return fmt.Errorf("no lease: %w", err)
		}
	}
}
