package framework

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
)

func init() {
	clientapi.WatchChildren = func(ctx context.Context, client any, path string, w clientapi.ChildrenWatch) (func(), error) {
		return client.(*Client).watchChildren(ctx, path, w)
	}
	clientapi.Values = func(client any) *sync.Map { return &client.(*Client).core.values }
	clientapi.RealPath = func(client any, path string) string { return client.(*Client).real(path) }
}

// watchChildren is [clientapi.WatchChildren].
func (c *Client) watchChildren(ctx context.Context, path string, cw clientapi.ChildrenWatch) (remove func(), err error) {
	key := persistentKey{c.real(path), WatchRecursive}
	l, err := c.core.awaitLink(ctx, sessionOf(ctx), c.core.cfg.connectionTimeout)
	if err != nil {
		return nil, err
	}
	w := &PersistentWatch{link: l, done: make(chan struct{}), ended: cw.End}
	w.notify = func(e zk.Event) {
		e.Path = c.unreal(e.Path)
		cw.Event(e)
	}
	if !l.persistent.add(key, w) {
		return nil, zk.ErrNoServer
	}
	_, err = ask(ctx, l, askAddWatch(key.path, WatchRecursive))
	if unimplemented(err) || errors.Is(err, zk.ErrBadArguments) {
		err = ErrWatchUnsupported
	}
	if err == nil {
		q := askChildren(key.path, false)
		parse := q.parse
		var list withStat[[]string]
		q.parse = func(c *cursor) withStat[[]string] {
			list = parse(c)
			return list
		}
		q.settle = func(err error) { cw.List(list.value, list.stat, err) }
		if _, err = ask(ctx, l, q); errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
	}
	if err != nil {
		w.Remove()
		return nil, err
	}
	return w.Remove, nil
}
