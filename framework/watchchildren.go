package framework

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/internal/proto"
)

func init() {
	clientapi.WatchChildren = func(ctx context.Context, client any, path string, w clientapi.ChildrenWatch) (func(), error) {
		return client.(*Client).watchChildren(ctx, path, w)
	}
	clientapi.Sleep = func(ctx context.Context, client any, d time.Duration) error {
		awake, cancel := client.(*Client).core.untilClosed(ctx)
		defer cancel()
		if ctxerr.Sleep(awake, d) != nil && ctx.Err() != nil {
			return ctxerr.Of(ctx)
		}
		return nil
	}
	clientapi.Values = func(client any) *sync.Map { return &client.(*Client).core.values }
	clientapi.DefaultACL = func(client any, path string) []zk.ACL {
		c := client.(*Client)
		return c.core.acl(c.real(path))
	}
	clientapi.WithoutNudges = Option(func(c *config) error {
		c.nudges = false
		return nil
	})
	clientapi.RealPath = func(client any, path string) string { return client.(*Client).real(path) }
}

// watchChildren is [clientapi.WatchChildren].
func (c *Client) watchChildren(ctx context.Context, path string, cw clientapi.ChildrenWatch) (remove func(), err error) {
	l, err := c.core.awaitLink(ctx, sessionOf(ctx), c.core.cfg.connectionTimeout)
	if err != nil {
		return nil, err
	}
	w := newPersistentWatch(c, l, path, WatchRecursive, cw.Event)
	w.ended = cw.End
	if err := w.add(ctx); err != nil {
		return nil, err
	}
	q := askChildren(w.path, false)
	parse := q.parse
	var list withStat[[]string]
	q.parse = func(d *proto.Decoder) withStat[[]string] {
		list = parse(d)
		return list
	}
	q.settle = func(err error) { cw.List(list.value, list.stat, err) }
	if _, err := ask(ctx, l, q); err != nil && !errors.Is(err, zk.ErrNoNode) {
		w.Remove()
		return nil, err
	}
	return w.Remove, nil
}
