package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

func init() {
	engine.Provide(func(client any) engine.Client { return view{client.(*Client)} })
	clientapi.WithEvents = func(e clientapi.Events) any {
		return Option(func(c *config) error {
			c.events = e
			return nil
		})
	}
	clientapi.WithoutNudges = Option(func(c *config) error {
		c.requests.nudges = false
		return nil
	})
}

// view is a client as recipes see it.
type view struct{ *Client }

func (v view) Link(ctx context.Context) (engine.Link, error) {
	l, err := v.core.awaitLink(ctx, sessionOf(ctx), v.core.cfg.connectionTimeout)
	if err != nil {
		return nil, err
	}
	return linkView{v.Client, l}, nil
}

func (v view) Real(path string) string { return v.real(path) }

func (v view) ACL(path string) []zk.ACL { return v.core.acl(v.real(path)) }

func (v view) Values() *sync.Map { return &v.core.values }

func (v view) MayStillCome(ctx context.Context, path string, wanted func() bool) {
	v.core.sweeper.sweep(&unwanted{session: sessionOf(ctx), persistent: true, fixed: v.real(path), wanted: wanted}, "")
}

func (v view) Done() <-chan struct{} { return v.core.ctx.Done() }

func (v view) GaveUp(ctx context.Context, reason error) error {
	err := wait.Err(ctx)
	if reason != nil && !errors.Is(reason, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, reason)
	}
	if l := v.core.current().link; l != nil && l.up() || errors.Is(err, zk.ErrNoServer) {
		return err
	}
	return v.core.unreachable(err)
}

// linkView is a link, with the paths of a client's namespace.
type linkView struct {
	client *Client
	link   *link
}

func (v linkView) Session() any { return v.link.session }

func (v linkView) Down() <-chan struct{} { return v.link.down }

func (v linkView) Get(path string, done func(data []byte, stat *zk.Stat, err error)) {
	post(v, "get", path, askGet(v.client.real(path), false), func(r withStat[[]byte], err error) { done(r.value, r.stat, err) })
}

func (v linkView) Exists(path string, done func(stat *zk.Stat, err error)) {
	post(v, "exists", path, askExists(v.client.real(path), false), done)
}

func (v linkView) Children(path string, done func(names []string, stat *zk.Stat, err error)) {
	post(v, "children", path, askChildren(v.client.real(path), false), func(r withStat[[]string], err error) { done(r.value, r.stat, err) })
}

func (v linkView) Delete(path string, version int32, done func(err error)) {
	post(v, "delete", path, askDelete(v.client.real(path), version), func(_ nothing, err error) { done(err) })
}

func (v linkView) CatchUp(done func(err error)) {
	q := askNothing()
	q.done = func(_ nothing, err error) {
		if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode) {
			err = nil // an answer in the order of writes, too
		}
		done(err)
	}
	send(v.link, q)
}

func (v linkView) Watch(path string, mode engine.Mode, f func(zk.Event), done func(err error)) (remove func()) {
	w := newPersistentWatch(v.client, v.link, path, WatchMode(mode), f)
	w.send(done)
	return w.Remove
}

// post sends a request whose answer goes to a function, and tells the observer of it on another goroutine.
func post[T any](v linkView, op, path string, q question[T], done func(T, error)) {
	c := v.client.core
	if c.observer == nil {
		q.done = done
	} else {
		e := c.observation(op, path)
		q.done = func(value T, err error) {
			done(value, err)
			e.Err = opError(op, path, err)
			c.report(e)
		}
	}
	send(v.link, q)
}
