package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
)

// Node is a node as the cache has it. Data must not be changed: all readers share it.
type Node struct {
	Path string
	Data []byte  // nil with WithoutData
	Stat zk.Stat // see the package's comment on Aversion, Cversion, Pzxid and NumChildren
}

// value is what is known of a node. It is never changed once it is in the copy.
type value struct {
	data []byte
	stat zk.Stat
}

func (v *value) node(path string) Node { return Node{Path: path, Data: v.data, Stat: v.stat} }

// Cache is a copy of a tree. All methods are safe for concurrent use.
type Cache struct {
	client engine.Client
	cfg    config
	nodes  store[value]
	now    wait.Value[status]
	counts struct{ reads, resyncs, bytes atomic.Int64 }

	ctx  context.Context // ends with Close or with the client
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // every goroutine of the cache
}

// status is how the cache follows the ensemble.
type status struct {
	loop    *loop     // nil while there is no connection
	err     error     // why there is no loop, if that is known
	loaded  bool      // all was read on this connection
	since   time.Time // when loaded became what it is
	current bool
	taken   int64 // events that loop had taken in by then
}

// up reports whether there is a loop with a connection.
func (s status) up() bool { return s.loop != nil && !wait.Closed(s.loop.link.Down()) }

// New makes a cache of the tree at path and begins to load it. It does not wait: see [Cache.Sync]. Whoever makes a cache must [Cache.Close]
// it. It also ends with its client, and if a function that was given to it ends the goroutine that calls it, as t.FailNow does. Errors are
// [framework.ErrBadArgument] and [framework.ErrBadPath].
func New(client *framework.Client, path string, opts ...Option) (*Cache, error) {
	c := &Cache{cfg: config{depth: anyLevel}, nodes: store[value]{path: path}}
	err := cmp.Or(framework.ValidatePath(path), opt.Apply(&c.cfg, opts))
	if client == nil {
		err = fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	if err != nil {
		return nil, follow.OpError("cache", path, err)
	}
	c.client = engine.Of(client)
	c.now.Set(func(s *status) { s.since = time.Now() })
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	c.wg.Go(c.run) // ends with c.ctx
	return c, nil
}

// run follows one connection after the other until the cache or its client is closed.
func (c *Cache) run() {
	defer c.end() // if a function that it calls has ended the goroutine
	pauses := wait.Pauses{First: minFailed, Last: maxFailed}
	var session any // of the last loop that has loaded all
	for number := uint32(1); c.ctx.Err() == nil; number++ {
		link, err := c.client.Link(c.ctx)
		if err == nil {
			l := &loop{c: c, link: link, number: number, newSession: link.Session() != session}
			err = l.run()
			if l.loaded {
				session = link.Session()
				pauses.Reset()
			}
		}
		if errors.Is(err, framework.ErrClosed) {
			c.stop(framework.ErrClosed)
		}
		c.show(status{err: err})
		_ = engine.Sleep(c.ctx, c.client, pauses.Next())
	}
}

// show notes how the cache follows the ensemble, if that has changed. The cache's goroutine calls it.
func (c *Cache) show(now status) {
	was, _ := c.now.Get()
	if now.since = was.since; now.loaded != was.loaded {
		now.since = time.Now()
	}
	if now.loop == nil || now != was {
		c.now.Set(func(s *status) { *s = now })
	}
}

// Close ends the cache, and with it all Changes and Sync calls, and waits for its goroutines. The copy stays as it was and can still be
// read. It may be called any number of times, but not from the function of [WithFilter] or a decoder. It always returns nil.
func (c *Cache) Close() error {
	c.end()
	c.wg.Wait()
	return nil
}

// end ends the cache, unless it has ended. Whoever waits with the channel of Current looks again.
func (c *Cache) end() { c.now.Set(func(*status) { c.stop(framework.ErrEnded) }) }

// Err is nil until the cache has ended, and then [framework.ErrEnded], or [framework.ErrClosed] if its client was closed.
func (c *Cache) Err() error { return context.Cause(c.ctx) }

// Path is the path of the cache's root.
func (c *Cache) Path() string { return c.nodes.path }

// Get returns the node at path, as far as it is known. It never waits and never asks a server. A path outside the cache is not found.
func (c *Cache) Get(path string) (Node, bool) {
	if v := c.nodes.get(path); v != nil {
		return v.node(path), true
	}
	return Node{}, false
}

// Children iterates over the children of path, in order of their names, as they are when the iteration begins. It never asks a server.
func (c *Cache) Children(path string) iter.Seq[Node] { return c.list(path, 1, 1) }

// All iterates over all nodes in the same way: each before its children, siblings in order of their names.
func (c *Cache) All() iter.Seq[Node] { return c.list(c.Path(), 0, anyLevel) }

// list iterates over the nodes that are between so many levels below path.
func (c *Cache) list(path string, from, to int) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		list := c.nodes.list(path, to)
		for _, i := range list[min(from, len(list)):] {
			if !yield(i.new.node(i.path)) {
				return
			}
		}
	}
}

// Current reports whether the copy shows all that this client's server has reported, and returns a channel that is closed when that may
// have changed, and when the cache has ended. It is false during a load, from the moment at which the connection is lost until
// everything has been read again on another one, and from an event until what it names has been read. Nodes that the client may not read
// do not count. Sync is the way to be certain. [Stats.Age] says for how long it may not have followed the ensemble.
func (c *Cache) Current() (ok bool, changed <-chan struct{}) {
	s, changed := c.now.Get()
	return s.current && s.up() && s.taken == s.loop.reported.Load() && c.ctx.Err() == nil, changed
}

// Sync waits until the copy is at least as new as the ensemble was when Sync was called. The first call waits for the load. It
// continues through outages until ctx is done; the error then also wraps the reason, such as zk.ErrNoServer. Other errors are
// [framework.ErrEnded], [framework.ErrClosed], and zk.ErrNoAuth if the client may not read the root. Nodes below the root that it may
// not read are left out without an error, and so are those whose path is a [framework.ErrBadPath], which old or other servers may have.
//
// It costs a write that changes nothing: see [framework.Client.Sync].
func (c *Cache) Sync(ctx context.Context) (err error) {
	defer func() { err = follow.OpError("sync cache", c.Path(), err) }()
	for {
		s, _ := c.now.Until(ctx, func(s status) bool { return s.up() || c.Err() != nil })
		switch {
		case c.Err() != nil:
			return c.Err()
		case ctx.Err() != nil:
			return c.client.GaveUp(ctx, cmp.Or(s.err, err))
		}
		done := make(chan error, 1)
		s.loop.link.CatchUp(func(err error) {
			if err == nil {
				s.loop.post(func() { s.loop.closeGroup(done) })
			} else {
				done <- err
			}
		})
		select {
		case err = <-done:
			if err == nil || errors.Is(err, zk.ErrNoAuth) {
				return err
			}
			_ = engine.Sleep(ctx, c.client, engine.RefusedPause) // the server has too much to do, or the connection has ended
		case <-s.loop.link.Down():
		case <-c.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// Stats are numbers of a cache, for metrics.
type Stats struct {
	Nodes           int           // in the copy
	Bytes           int64         // of data in the copy
	Reads           int64         // of nodes and lists, since the cache was made; a request may have several
	Resyncs         int64         // how often everything was read: once for the first load, and for each connection after it
	Age             time.Duration // how long the copy has not been known to follow the ensemble; 0 while it is
	StandardWatches bool          // whether the cache uses standard watches
}

// Stats returns the numbers of this moment.
func (c *Cache) Stats() Stats {
	now, _ := c.now.Get()
	s := Stats{Nodes: int(c.nodes.size.Load()), Bytes: c.counts.bytes.Load(), Reads: c.counts.reads.Load(), Resyncs: c.counts.resyncs.Load(),
		StandardWatches: now.loop != nil && now.loop.oneShot}
	if !now.loaded {
		s.Age = time.Since(now.since)
	}
	return s
}

// keeps reports whether a node below the root belongs into the copy, apart from the depth. Nobody can ask about a path that is refused.
func (c *Cache) keeps(path string) bool {
	defer c.client.Recover("filter", path) // and leave the node out
	return framework.ValidatePath(path) == nil && (c.cfg.filter == nil || c.cfg.filter(path))
}

// lists reports whether the children of path belong into the copy, as far as the depth says.
func (c *Cache) lists(path string) bool { return level(path)-level(c.Path()) < c.cfg.depth }

// level is the number of elements of a path.
func level(path string) int { return strings.Count(strings.TrimSuffix(path, "/"), "/") }
