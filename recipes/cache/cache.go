package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/ctxerr"
)

// ErrClosed means that the cache was closed.
var ErrClosed = errors.New("cache is closed")

// Node is a node as the cache has it. Data must not be changed: all readers share it.
type Node struct {
	Path string
	Data []byte  // nil with WithoutData
	Stat zk.Stat // see the package's comment on Aversion, Cversion, Pzxid and NumChildren
}

// Cache is a copy of a tree. All methods are safe for concurrent use.
type Cache struct {
	client requests
	path   string
	cfg    config

	ctx   context.Context // ends with Close or with the client
	stop  context.CancelCauseFunc
	wg    sync.WaitGroup // every goroutine of the cache
	inbox inbox
	reads atomic.Int64
	loops uint32 // that there have been; for run only

	mu      sync.RWMutex // guards what follows; only run changes it, except for fresh and since
	tree    tree
	epoch   *epoch        // the connection that the cache follows, or the last one
	changed chan struct{} // closed and replaced when epoch is replaced
	lastErr error         // why there is no epoch, if that is known
	rootErr error         // why the root cannot be read
	fresh   bool
	since   time.Time // when fresh became what it is
	resyncs int64
	oneShot bool
	closing bool

	readersMu sync.Mutex // guards readers; taken after mu
	readers   map[*reader]struct{}
}

// New makes a cache of the tree at path and begins to load it. It does not wait: see [Cache.Sync]. The
// path need not exist. Errors are [framework.ErrBadArgument] and [framework.ErrBadPath]; nothing was sent then.
//
// Whoever makes a cache must [Cache.Close] it. It also ends with its client.
func New(client *framework.Client, path string, opts ...Option) (*Cache, error) {
	if client == nil {
		return nil, fmt.Errorf("cache: %w: nil client", framework.ErrBadArgument)
	}
	return newCache(live{client}, path, opts)
}

func newCache(client requests, path string, opts []Option) (*Cache, error) {
	if err := framework.ValidatePath(path); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	cfg := defaults()
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("cache: %w: nil option", framework.ErrBadArgument)
		}
		if err := opt(&cfg); err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	c := &Cache{
		client:  client,
		path:    path,
		cfg:     cfg,
		inbox:   inbox{wake: make(chan struct{}, 1)},
		tree:    tree{path: path},
		changed: make(chan struct{}),
		since:   time.Now(),
		oneShot: cfg.oneShot,
		readers: make(map[*reader]struct{}),
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	c.wg.Go(c.run) // ends with c.ctx
	return c, nil
}

// Close ends the cache, and with it all Changes and Sync calls, and waits for its goroutines. The copy stays as
// it was and can still be read. It may be called any number of times, but not from a Filter or a decoder. It always
// returns nil.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.stop(ErrClosed)
	c.wg.Wait()
	return nil
}

// background runs f, which must end with c.ctx, on a goroutine that Close waits for. It reports whether it could.
func (c *Cache) background(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.ctx.Err() != nil {
		return false
	}
	c.wg.Go(f)
	return true
}

// Err is nil until the cache has ended, and then [ErrClosed], or [framework.ErrClosed] if its client was closed.
func (c *Cache) Err() error { return context.Cause(c.ctx) }

// Path is the path of the cache's root.
func (c *Cache) Path() string { return c.path }

// Get returns the node at path, as far as it is known. It never waits and never asks a server. A path outside
// the cache is not found.
func (c *Cache) Get(path string) (Node, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.tree.find(path)
	if n == nil {
		return Node{}, false
	}
	return n.value.node(path), true
}

// nodes is how many nodes there are in the copy.
func (c *Cache) nodes() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.nodes
}

// Children iterates over the children of path, in order of their names, as they are when the iteration begins. It
// never asks a server.
func (c *Cache) Children(path string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		var list []held
		c.mu.RLock()
		if n := c.tree.find(path); n != nil {
			list = make([]held, 0, n.children.len())
			for child := range n.children.all() {
				list = append(list, held{child, child.value})
			}
		}
		c.mu.RUnlock()
		slices.SortFunc(list, func(a, b held) int { return cmp.Compare(a.node.name, b.node.name) })
		for _, h := range list {
			if !yield(h.value.node(framework.Join(path, h.node.name))) {
				return
			}
		}
	}
}

// All iterates over all nodes as they are when the iteration begins: each before its children, siblings in order of
// their names. It never asks a server.
func (c *Cache) All() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		c.mu.RLock()
		list := c.tree.all()
		c.mu.RUnlock()
		for _, n := range inOrder(list, c.path) {
			if !yield(n.value.node(n.path)) {
				return
			}
		}
	}
}

// Fresh reports whether the copy follows the ensemble, and since when that is so or not. It is true from the end
// of a load until the connection is lost: then every change that the server has told of is in the copy, or is
// about to be read. It is false from the moment at which the client finds its connection in doubt, until everything has
// been read again on another connection. Sync is the way to be certain.
func (c *Cache) Fresh() (fresh bool, since time.Time) {
	c.mu.RLock()
	fresh, since = c.fresh, c.since
	lost := fresh && !c.following()
	c.mu.RUnlock()
	if !lost {
		return fresh, since
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fresh && !c.following() {
		c.setFresh(false)
	}
	return c.fresh, c.since
}

// following reports whether the connection of the epoch is still good. c.mu is held.
func (c *Cache) following() bool {
	return c.epoch != nil && c.epoch.alive() && c.client.State().IsConnected()
}

// setFresh sets what Fresh says. c.mu is held.
func (c *Cache) setFresh(fresh bool) {
	if c.fresh != fresh {
		c.fresh, c.since = fresh, time.Now()
	}
}

// Sync waits until the copy is at least as new as the ensemble was when Sync was called. The first call waits for
// the load. It continues through outages until ctx is done; the error then also wraps the reason, such as
// zk.ErrNoServer. Other errors are [ErrClosed], [framework.ErrClosed], and zk.ErrNoAuth if the client may not read
// the root. Nodes below the root that it may not read are left out without an error, and so are those whose path is
// a [framework.ErrBadPath], which old or other servers may have.
//
// It costs a write that changes nothing, since that is the only request that certainly makes a server
// catch up: see [framework.Client.CatchUp].
func (c *Cache) Sync(ctx context.Context) error {
	if err := c.sync(ctx); err != nil {
		if op, ok := err.(*framework.OpError); ok { // not one that is wrapped: what wraps it says that ctx is done
			err = op.Err
		}
		return &framework.OpError{Op: "sync cache", Path: c.path, Err: err}
	}
	return nil
}

func (c *Cache) sync(ctx context.Context) error {
	asking, cancel := context.WithCancel(ctx) // ends with the cache, too
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	for {
		e, err := c.awaitEpoch(ctx)
		if err != nil {
			return err
		}
		if err := c.client.CatchUp(asking); err != nil {
			if ctx.Err() != nil || c.ctx.Err() != nil || !temporary(err) {
				return c.ended(ctx, err)
			}
			if err := ctxerr.Sleep(ctx, syncPause); err != nil {
				return err
			}
			continue
		}
		// Every event from before the answer of CatchUp is in the inbox by now, if both came on one connection.
		done := make(chan struct{})
		c.inbox.post(message{e, func(l *loop) { l.sync(func() { close(done) }) }})
		if !e.alive() {
			continue
		}
		select {
		case <-done:
			c.mu.RLock()
			defer c.mu.RUnlock()
			return c.rootErr
		case <-e.down:
		case <-ctx.Done():
			return c.ended(ctx, nil)
		case <-c.ctx.Done():
			return c.ended(ctx, nil)
		}
	}
}

// syncPause is between two attempts of a Sync that a server refused for now.
const syncPause = 50 * time.Millisecond

// ended says why a Sync ends in vain.
func (c *Cache) ended(ctx context.Context, err error) error {
	switch {
	case c.ctx.Err() != nil:
		return c.Err()
	case ctx.Err() != nil:
		return withReason(ctxerr.Of(ctx), c.reason())
	}
	return err
}

// reason is what keeps the copy from being fresh, or nil.
func (c *Cache) reason() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.lastErr != nil:
		return c.lastErr
	case !c.client.State().IsConnected():
		return zk.ErrNoServer
	}
	return nil
}

func withReason(err, reason error) error {
	if reason == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, reason)
}

// awaitEpoch waits until the cache follows a connection.
func (c *Cache) awaitEpoch(ctx context.Context) (*epoch, error) {
	for {
		c.mu.RLock()
		e, changed := c.epoch, c.changed
		c.mu.RUnlock()
		if c.ctx.Err() != nil || ctx.Err() != nil {
			return nil, c.ended(ctx, nil)
		}
		if e != nil && e.alive() {
			return e, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
}

// Stats are numbers of a cache, for metrics.
type Stats struct {
	Nodes           int           // in the copy
	Bytes           int64         // of data in the copy
	Reads           int64         // requests sent to read nodes and lists, since the cache was made
	Resyncs         int64         // how often everything was read: once for the first load, and for each connection after it
	Age             time.Duration // how long the copy has not been known to follow the ensemble; 0 while it is fresh
	StandardWatches bool          // whether the cache uses standard watches
}

// Stats returns the numbers of this moment.
func (c *Cache) Stats() Stats {
	fresh, since := c.Fresh()
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := Stats{Nodes: c.tree.nodes, Bytes: c.tree.bytes, Reads: c.reads.Load(), Resyncs: c.resyncs, StandardWatches: c.oneShot}
	if !fresh {
		s.Age = time.Since(since)
	}
	return s
}

// covers reports whether path belongs into the copy, by its place, the depth limit and the filter.
func (c *Cache) covers(path string) bool {
	rel, ok := relative(c.path, path)
	if !ok {
		return false
	}
	if rel == "" {
		return true
	}
	if c.cfg.depth >= 0 && strings.Count(rel, "/")+1 > c.cfg.depth {
		return false
	}
	for i := range rel {
		if c.cfg.filter != nil && rel[i] == '/' && !c.cfg.filter(path[:len(path)-len(rel)+i]) {
			return false
		}
	}
	return c.keeps(path)
}

// keeps reports whether a node below the root belongs into the copy if its parent does and the depth allows it. One whose
// path the client refuses does not, since it cannot be asked about.
func (c *Cache) keeps(path string) bool {
	return framework.ValidatePath(path) == nil && (c.cfg.filter == nil || c.cfg.filter(path))
}

// lists reports whether the children of path belong into the copy, as far as the depth says.
func (c *Cache) lists(path string) bool {
	if c.cfg.depth < 0 {
		return true
	}
	rel, _ := relative(c.path, path)
	depth := 0
	if rel != "" {
		depth = strings.Count(rel, "/") + 1
	}
	return depth < c.cfg.depth
}

// requests is what the cache needs of a client.
type requests interface {
	WaitConnected(ctx context.Context) error
	State() connstate.State
	AddWatch(ctx context.Context, path string, mode framework.WatchMode, f func(zk.Event)) (*framework.PersistentWatch, error)
	CatchUp(ctx context.Context) error
	Read(ctx context.Context, path string, f func(data []byte, stat *zk.Stat, err error)) // see clientapi.Read
	GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *framework.Watch, error)
	Exists(ctx context.Context, path string) (bool, *zk.Stat, error)
	ExistsW(ctx context.Context, path string) (bool, *zk.Stat, *framework.Watch, error)
	Children(ctx context.Context, path string) ([]string, *zk.Stat, error)
	ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *framework.Watch, error)
}

// live is a real client.
type live struct{ *framework.Client }

func (l live) Read(ctx context.Context, path string, f func(data []byte, stat *zk.Stat, err error)) {
	clientapi.Read(ctx, l.Client, path, f)
}
