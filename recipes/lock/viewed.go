package lock

import (
	"context"
	"slices"

	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// viewed is how a waiter knows who is ahead, from the events of a view: nothing is asked. Without a
// view it is listed.
type viewed struct {
	node   *node
	view   *view.View // nil: the queue is listed
	listed *listed
}

// children returns the children of the lock, in order, at an instant after the create of the
// waiter's node, which is one of them. The error is a NodeLost if it is not.
func (p *viewed) children(ctx context.Context) ([]string, error) {
	if p.view != nil {
		children, ok, err := p.view.Names(p.node.Order())
		if ok && (err != nil || slices.Contains(children, p.node.Name())) {
			return children, err
		}
		p.view = nil
	}
	return p.listed.children(ctx)
}

// wait returns when the queue must be looked at again: one of the nodes called names was deleted,
// or a node ahead of them, or another reason to wake has come. An error means that waiting is
// useless.
func (p *viewed) wait(ctx context.Context, children, names []string, other wakes) error {
	if p.view == nil {
		return p.listed.wait(ctx, children, names, other)
	}
	deleted, known := p.view.Wait(names)
	switch {
	case !known:
		return p.listed.wait(ctx, children, names, other)
	case deleted == nil:
		return p.node.missing(children, names)
	}
	defer p.view.Cancel(names, deleted)
	return other.wait(ctx, deleted)
}
