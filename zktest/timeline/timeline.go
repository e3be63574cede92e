// Package timeline adds to a [zktest.Timeline] what a client knows: its connection states, its
// waits for locks, and its holds with their ends and causes.
//
//	server := zktest.NewServer(t, zktest.WithTimeline())
//	billing := timeline.Client(server.Timeline(), "billing-1")
//	client, err := framework.New(server.Servers(), billing)
//
// If the test fails, its output has the path of a page that shows the run.
package timeline

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/timeline"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// Client is an option of [framework.New]. It records the client under a name in t: waits, holds and
// terms of all recipes that use locks, and connection states. If t is nil, it records nothing.
//
// The client's sessions appear in the same lane.
func Client(t *zktest.Timeline, name string) framework.Option {
	c := &client{recorder: timeline.Of(t), name: name}
	if c.recorder == nil {
		return engine.Configure[framework.Option](func(*engine.Config) {})
	}
	return opt.All(
		engine.Configure[framework.Option](c.follow),
		framework.WithObserver(framework.Observer{State: c.changed}),
		lock.WithObserver(lock.Observer{Acquiring: c.acquiring, Acquired: c.acquired, NotAcquired: c.notAcquired, Ended: c.ended}),
	)
}

type client struct {
	recorder *timeline.Recorder
	name     string
}

// follow puts the client's sessions into its lane.
func (c *client) follow(cfg *engine.Config) {
	before := cfg.Events.State
	cfg.Events.State = func(state zk.State, server string, session int64) {
		if before != nil {
			before(state, server, session)
		}
		c.recorder.Owns(c.name, session)
	}
}

// Keys of the functions that end a bar.
type (
	waitKey struct{}
	holdKey struct{}
)

type ending func(result string, bad bool)

func (c *client) changed(e framework.StateEvent) {
	what := e.To.String()
	if e.To == 0 {
		what = "closed"
	}
	c.recorder.Begin(timeline.Entry{Kind: timeline.State, Lane: c.name, What: what})("", false)
}

func (c *client) acquiring(ctx context.Context, e lock.AcquiringEvent) context.Context {
	end := c.recorder.Begin(timeline.Entry{Kind: timeline.Wait, Lane: c.name, What: e.Path})
	return context.WithValue(ctx, waitKey{}, ending(end))
}

func (c *client) acquired(ctx context.Context, e lock.AcquiredEvent) context.Context {
	if end, ok := ctx.Value(waitKey{}).(ending); ok {
		end("acquired", false)
	}
	end := c.recorder.Begin(timeline.Entry{Kind: timeline.Hold, Lane: c.name, What: e.Path, Path: e.Node})
	return context.WithValue(ctx, holdKey{}, ending(end))
}

func (c *client) notAcquired(ctx context.Context, e lock.NotAcquiredEvent) {
	if end, ok := ctx.Value(waitKey{}).(ending); ok {
		end(e.Err.Error(), true)
	}
}

func (c *client) ended(ctx context.Context, e lock.EndedEvent) {
	if end, ok := ctx.Value(holdKey{}).(ending); ok {
		end(e.Cause.Error(), !errors.Is(e.Cause, lock.ErrReleased))
	}
}
