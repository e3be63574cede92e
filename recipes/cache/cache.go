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
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/wait"
)

// Node is a node of the copy. Its data are shared and must not be modified.
type Node struct {
	Path string
	Data []byte  // data of the node; nil with WithoutData
	Stat zk.Stat // see the package comment about Aversion, Cversion, Pzxid and NumChildren
}

// value is the content of a node. It never changes once it is in the copy.
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
	follower *follower // nil while there is no connection
	err      error     // why there is no follower, if that is known
	loaded   bool      // all was read on this connection
	since    time.Time // when loaded last changed
	current  bool
	taken    int64 // events that the follower had processed by then
}

// up reports whether there is a follower with a connection.
func (s status) up() bool { return s.follower != nil && !wait.Closed(s.follower.link.Down()) }

// New returns a cache of the tree at path and starts to load it, without waiting: see [Cache.Sync].
// The caller must call [Cache.Close]. The cache also stops when its client is closed.
//
// Errors are
//   - [framework.ErrBadArgument] if the client is nil or an option is invalid;
//   - [framework.ErrBadPath] if path is invalid.
func New(client *framework.Client, path string, opts ...Option) (*Cache, error) {
	c := &Cache{cfg: config{depth: anyLevel}, nodes: store[value]{path: path}}
	err := cmp.Or(framework.ValidatePath(path), opt.Apply(&c.cfg, opts))
	if client == nil {
		err = fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	if err != nil {
		return nil, operr.New("cache", path, err)
	}
	c.client = engine.Of(client)
	c.now.Set(func(s *status) { s.since = time.Now() })
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	c.wg.Go(c.run) // ends with c.ctx
	return c, nil
}

// run follows one connection after the other until the cache or its client is closed, or the only
// session of its client is over.
func (c *Cache) run() {
	defer c.end() // if a function that it calls has ended the goroutine
	pauses := wait.Pauses{First: minFailed, Last: maxFailed}
	var session any // the session of the last follower that has loaded all
	for number := uint32(1); c.ctx.Err() == nil; number++ {
		link, err := c.client.Link(c.ctx)
		if err == nil {
			f := &follower{c: c, link: link, number: number, newSession: link.Session() != session}
			err = f.run()
			if f.loaded {
				session = link.Session()
				pauses.Reset()
			}
		}
		if over := c.client.Over(); over != nil {
			c.stop(over)
		}
		c.show(status{err: err})
		_ = engine.Sleep(c.ctx, c.client, pauses.Next())
	}
}

// show sets the status if it has changed. The cache's goroutine calls it.
func (c *Cache) show(now status) {
	was, _ := c.now.Get()
	if now.since = was.since; now.loaded != was.loaded {
		now.since = time.Now()
	}
	if now.follower == nil || now != was {
		c.now.Set(func(s *status) { *s = now })
	}
}

// Close stops the cache and its iterations, and waits for its goroutines. The copy stays readable.
// The error is always nil.
//
// Close must not be called by the function set by [WithFilter] or [WithOnChange], or by a decoder.
func (c *Cache) Close() error {
	c.end()
	c.wg.Wait()
	return nil
}

// errClosed says which object was closed.
var errClosed = fmt.Errorf("cache is %w", framework.ErrEnded)

// end ends the cache, unless it has ended, and wakes the waiters of Current's channel.
func (c *Cache) end() { c.now.Set(func(*status) { c.stop(errClosed) }) }

// Err returns nil until the cache has stopped. Then it returns the reason.
//
// Errors are
//   - [framework.ErrEnded] if the cache was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In].
func (c *Cache) Err() error { return context.Cause(c.ctx) }

// Path returns the path of the cache's root.
func (c *Cache) Path() string { return c.nodes.path }

// Get returns the node at path from the copy, without a request.
func (c *Cache) Get(path string) (Node, bool) {
	if v := c.nodes.get(path); v != nil {
		return v.node(path), true
	}
	return Node{}, false
}

// Children iterates over the children that path has when the iteration starts, sorted by name. It
// sends no request.
func (c *Cache) Children(path string) iter.Seq[Node] { return c.list(path, 1, 1) }

// All iterates over the nodes of the copy when the iteration starts, parents before children and
// siblings sorted by name.
func (c *Cache) All() iter.Seq[Node] { return c.list(c.Path(), 0, anyLevel) }

// list iterates over the nodes between from and to levels below path.
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

// Current reports whether the copy shows everything that this client's server has reported. It is
// false during a load, without a connection, and between an event and the read of its node. The
// channel is closed when the result may have changed, and when the cache has stopped.
//
// To compare the copy with the ensemble, call Sync.
func (c *Cache) Current() (ok bool, changed <-chan struct{}) {
	s, changed := c.now.Get()
	return s.current && s.up() && s.taken == s.follower.reported.Load() && c.ctx.Err() == nil, changed
}

// Sync waits until the copy is at least as new as the ensemble was at the call, through outages. It
// costs one write. The first call also waits for the load.
//
// Errors are
//   - the error of ctx if ctx is done, wrapped with the reason of the wait, such as
//     zk.ErrNoServer;
//   - [framework.ErrEnded] if the cache was closed;
//   - [framework.ErrClosed] if the client is closed;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrNoAuth if the client is not permitted to read the root;
//   - [framework.ErrNotCompressed] if a client [framework.WithCompression] cannot decompress the
//     root's data.
func (c *Cache) Sync(ctx context.Context) (err error) {
	defer func() { err = operr.New("sync cache", c.Path(), err) }()
	for {
		s, _ := c.now.Until(ctx, func(s status) bool { return s.up() || c.Err() != nil })
		switch {
		case c.Err() != nil:
			return c.Err()
		case ctx.Err() != nil:
			return c.client.GaveUp(ctx, cmp.Or(s.err, err))
		}
		done := make(chan error, 1)
		s.follower.link.CatchUp(func(err error) {
			if err == nil {
				s.follower.post(func() { s.follower.closeRound(done) })
			} else {
				done <- err
			}
		})
		select {
		case err = <-done:
			if err == nil || errors.Is(err, zk.ErrNoAuth) || errors.Is(err, framework.ErrNotCompressed) {
				return err
			}
			// The server has too much to do, or the connection has ended.
			if closed := engine.Sleep(ctx, c.client, engine.RefusedPause); errors.Is(closed, framework.ErrClosed) {
				return closed
			}
		case <-s.follower.link.Down():
		case <-c.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// Stats are figures of a cache, for metrics.
type Stats struct {
	Nodes int   // nodes in the copy
	Bytes int64 // bytes of data in the copy
	Reads int64 // reads of nodes and lists since New; a request may have several
	// Resyncs counts reads of the whole tree: the first load, and one for each later connection.
	Resyncs int64

	// Age is the time since the copy last followed the ensemble; 0 while it does.
	Age             time.Duration
	StandardWatches bool // whether the cache uses standard watches
}

// Stats returns the current figures.
func (c *Cache) Stats() Stats {
	now, _ := c.now.Get()
	s := Stats{Nodes: int(c.nodes.size.Load()), Bytes: c.counts.bytes.Load(), Reads: c.counts.reads.Load(), Resyncs: c.counts.resyncs.Load(),
		StandardWatches: now.follower != nil && now.follower.standard}
	if !now.loaded {
		s.Age = time.Since(now.since)
	}
	return s
}

// keeps reports whether a node below the root belongs to the copy, apart from the depth. A node
// with an invalid path cannot be asked for.
func (c *Cache) keeps(path string) bool {
	defer c.client.Recover("filter", path) // and leave the node out
	return framework.ValidatePath(path) == nil && (c.cfg.filter == nil || c.cfg.filter(path))
}

// lists reports whether the children of path belong to the copy, according to the depth.
func (c *Cache) lists(path string) bool { return level(path)-level(c.Path()) < c.cfg.depth }

// level returns the number of elements of a path.
func level(path string) int { return strings.Count(strings.TrimSuffix(path, "/"), "/") }
