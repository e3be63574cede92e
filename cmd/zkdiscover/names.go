package main

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/gocurator/curator/framework"
)

// names returns the names of all services in order. A name may have slashes, as in Spring Cloud.
// The nodes of instances have data. A node without data is a service if it has instances, or if it
// is directly below the base and has no children.
func (t *tool) names(ctx context.Context) ([]string, error) {
	children, err := t.children(ctx, t.base)
	if err != nil {
		return nil, err
	}
	found := make([][]string, len(children))
	err = each(children, func(i int, name string) error {
		below, err := t.namesBelow(ctx, name)
		if err != nil && !errors.Is(err, zk.ErrNoAuth) { // a lookup reports what may not be read
			return err
		}
		if len(below) == 0 {
			below = []string{name}
		}
		found[i] = below
		return nil
	})
	if err != nil {
		return nil, err
	}
	names := slices.Concat(found...)
	slices.Sort(names)
	return names, nil
}

// namesBelow returns name if the node has instances, and the names of the services below it.
func (t *tool) namesBelow(ctx context.Context, name string) (names []string, err error) {
	dir := framework.Join(t.base, name)
	children, err := t.children(ctx, dir)
	if err != nil {
		return nil, err
	}
	instances, below := make([]bool, len(children)), make([][]string, len(children))
	err = each(children, func(i int, child string) error {
		found, stat, err := t.client.Exists(ctx, framework.Join(dir, child))
		switch {
		case err != nil || !found:
		case stat.DataLength > 0 || stat.EphemeralOwner != 0:
			instances[i] = true
		case stat.NumChildren > 0:
			below[i], err = t.namesBelow(ctx, name+"/"+child)
		}
		return err
	})
	names = slices.Concat(below...)
	if err == nil && slices.Contains(instances, true) {
		names = append(names, name)
	}
	return names, err
}

// each calls f for all names, for up to 64 at a time: the client sends their requests without
// waiting for each other's replies. It returns one of the errors.
func each(names []string, f func(i int, name string) error) error {
	var all errgroup.Group
	all.SetLimit(64)
	for i, name := range names {
		all.Go(func() error { return f(i, name) })
	}
	return all.Wait()
}

// children lists the children of a node. A missing node has none.
func (t *tool) children(ctx context.Context, path string) ([]string, error) {
	children, _, err := t.client.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return children, err
}
