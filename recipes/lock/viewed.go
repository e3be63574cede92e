package lock

import (
	"context"
	"slices"
)

// viewed is the picture by the events of a view: nothing is asked. When the node is in no view, it
// is the picture of listed.
type viewed struct {
	node   *node
	listed *listed
}

// children implements picture.
func (p *viewed) children(ctx context.Context) ([]string, error) {
	if v := p.node.inView(); v != nil {
		children, ok, err := v.Names(p.node.Order())
		if ok && (err != nil || slices.Contains(children, p.node.Name())) {
			return children, err
		}
	}
	return p.listed.children(ctx)
}

// wait implements picture.
func (p *viewed) wait(ctx context.Context, children, names []string, other wakes) error {
	v := p.node.inView()
	if v == nil {
		return p.listed.wait(ctx, children, names, other)
	}
	deleted, known := v.Wait(names)
	switch {
	case !known:
		return p.listed.wait(ctx, children, names, other)
	case deleted == nil:
		return p.node.missing(children, names)
	}
	defer v.Cancel(names, deleted)
	return other.wait(ctx, deleted)
}
