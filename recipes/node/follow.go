package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// group is a view of the children of a path and their data. One goroutine follows the list, and one
// each child.
type group struct {
	client *framework.Client
	path   string
	ctx    context.Context // ends with close, or with the client
	stop   context.CancelFunc
	wg     sync.WaitGroup // the goroutines of children
	done   chan struct{}  // closed when all goroutines have ended
	reads  chan struct{}  // capacity: how many children are read at a time

	mu      sync.Mutex // guards what follows
	entries map[string]*entry
	listed  bool          // the list is up to date
	reason  error         // why it is not, if it could not be read
	pzxid   int64         // of the list; it rises, also when the parent is made again
	gone    bool          // there was no parent after the list of that pzxid
	changed chan struct{} // closed when any of this changes, and replaced
	asked   chan struct{} // closed when the list was read or could not be, and replaced
}

// entry is a child.
type entry struct {
	stop    context.CancelFunc
	loaded  bool // it has been read once
	current bool // nothing has happened since
	data    []byte
	owner   int64
	mzxid   int64 // it rises, also when the node is made again
}

// maxReads bounds the requests that are under way when a group is read.
const maxReads = 16

// follow begins to follow the children of path.
func follow(client *framework.Client, path string) *group {
	g := &group{
		client: client, path: path, done: make(chan struct{}), reads: make(chan struct{}, maxReads),
		entries: make(map[string]*entry), changed: make(chan struct{}), asked: make(chan struct{}),
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	go func() { // ends with g.ctx or the client
		defer close(g.done)
		g.followList()
		g.stop()
		g.wg.Wait()
	}()
	return g
}

// close ends all goroutines.
func (g *group) close() {
	g.stop()
	<-g.done
}

// fresh reports whether all is as the server knows it.
func (g *group) fresh() (bool, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh := g.listed
	for _, e := range g.entries {
		fresh = fresh && e.current
	}
	return fresh, g.changed
}

// why is why the list could not be read, or nil.
func (g *group) why() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listed {
		return nil
	}
	return g.reason
}

// set changes the view, and tells those who look at it.
func (g *group) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	close(g.changed)
	g.changed = make(chan struct{})
}

// followList keeps the list of children up to date.
func (g *group) followList() {
	pause, logged := newPause(), false
	for g.ctx.Err() == nil {
		watch, err := g.list()
		switch {
		case errors.Is(err, framework.ErrClosed):
			return
		case err != nil:
			g.set(func() {
				g.listed, g.reason = false, err
				g.answered()
			})
			if refusal(err) && g.ctx.Err() == nil && !logged {
				logged = true
				g.client.Logger().Warn("group cannot be read", "path", g.path, "reason", err)
			}
			g.sleep(g.ctx, pause)
			continue
		}
		pause.Reset()
		logged = false
		g.await(g.ctx, watch)
		g.set(func() { g.listed = false }) // also while the next list is under way: the connection may end meanwhile
	}
}

// list reads the list of children, and returns a watch for its next change.
func (g *group) list() (*framework.Watch, error) {
	children, stat, watch, err := g.client.ChildrenW(g.ctx, g.path)
	if !errors.Is(err, zk.ErrNoNode) {
		if err == nil {
			g.adopt(children, stat)
		}
		return watch, err
	}
	// Perhaps it is our server that is behind. In another session it could be again after the write.
	session, err := g.client.Session(g.ctx)
	if err != nil {
		return nil, err
	}
	ctx := framework.InSession(g.ctx, session)
	if err := g.client.CatchUp(ctx); err != nil {
		return nil, err
	}
	found, _, watch, err := g.client.ExistsW(ctx, g.path)
	switch {
	case err != nil:
		return nil, err
	case found:
		return g.list() // it has come meanwhile
	}
	g.adopt(nil, nil)
	return watch, nil
}

// adopt takes a list over, unless it is older than the one that is known. stat is nil if there is no
// parent.
func (g *group) adopt(children []string, stat *zk.Stat) {
	g.set(func() {
		defer g.answered()
		before := g.pzxid
		if stat != nil {
			if stat.Pzxid < g.pzxid || g.gone && stat.Pzxid == g.pzxid {
				g.listed = false // the watch tells when our server has caught up
				return
			}
			g.pzxid, before = stat.Pzxid, max(before, stat.Czxid)
		}
		g.gone = stat == nil
		g.listed = true
		listed := make(map[string]bool, len(children))
		for _, id := range children {
			listed[id] = true
			if g.entries[id] == nil {
				g.entries[id] = g.start(id, before)
			}
		}
		for id, e := range g.entries {
			if !listed[id] {
				e.stop()
				delete(g.entries, id)
			}
		}
	})
}

// answered tells those who wait for the next list. mu is held.
func (g *group) answered() {
	close(g.asked)
	g.asked = make(chan struct{})
}

// nextList is closed when the list was read or could not be.
func (g *group) nextList() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// start begins to follow a child that was not there at the time of this zxid: of the list before, or of the parent's creation. What is
// older is about another node.
func (g *group) start(id string, before int64) *entry {
	ctx, stop := context.WithCancel(g.ctx)
	e := &entry{stop: stop, mzxid: before}
	g.wg.Go(func() { g.followChild(ctx, id, e) }) // ends with ctx or the client
	return e
}

// followChild keeps a child's data up to date.
func (g *group) followChild(ctx context.Context, id string, e *entry) {
	pause, logged := newPause(), false
	path := framework.Join(g.path, id)
	for ctx.Err() == nil {
		next := g.nextList()
		watch, err := g.read(ctx, path, e)
		switch {
		case errors.Is(err, framework.ErrClosed):
			return
		case errors.Is(err, zk.ErrNoNode):
			// The next list says that it is gone, or that it was made again. A watch for that would stay on the server, one for each
			// child that has ever been there.
			g.set(func() { e.current = false })
			select {
			case <-next:
			case <-ctx.Done():
			}
			continue
		case err == nil:
			pause.Reset()
			g.await(ctx, watch)
			g.set(func() { e.current = false })
			continue
		case refusal(err) && !errors.Is(err, zk.ErrAuthFailed) && ctx.Err() == nil: // a server that takes no credentials knows nothing of it
			g.set(func() { e.loaded, e.current, e.data = true, true, nil })
			if !logged {
				logged = true
				g.client.Logger().Warn("member cannot be read", "path", path, "reason", err)
			}
		default:
			g.set(func() { e.current = false })
		}
		g.sleep(ctx, pause)
	}
}

// read reads a child's data, and returns a watch for their next change.
func (g *group) read(ctx context.Context, path string, e *entry) (*framework.Watch, error) {
	select {
	case g.reads <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-g.reads }()
	data, stat, watch, err := g.client.GetW(ctx, path)
	if err == nil {
		g.take(e, data, stat)
	}
	return watch, err
}

// take takes a child's data over, unless they are older than those that are known.
func (g *group) take(e *entry, data []byte, stat *zk.Stat) {
	g.set(func() {
		e.current = stat.Mzxid >= e.mzxid // else the watch tells when our server has caught up
		if e.current {
			e.loaded, e.data, e.owner, e.mzxid = true, data, stat.EphemeralOwner, stat.Mzxid
		}
	})
}

// await waits until watch fires, or ctx is done.
func (g *group) await(ctx context.Context, watch *framework.Watch) {
	select {
	case <-watch.Done():
	case <-ctx.Done():
	}
}

// sleep pauses between tries.
func (g *group) sleep(ctx context.Context, pause backoff.BackOff) {
	select {
	case <-time.After(pause.NextBackOff()):
	case <-ctx.Done():
	}
}
