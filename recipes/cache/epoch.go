package cache

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/ctxerr"
	"github.com/gocurator/curator/retry"
)

// epoch is the time during which the cache follows one connection. What a request returns while its epoch is
// alive was answered on that connection, since the client ends all watches of one before it uses the next.
type epoch struct {
	ctx    context.Context // ends with the epoch
	cancel context.CancelFunc
	down   <-chan struct{}            // closed when the connection has ended
	watch  *framework.PersistentWatch // nil with standard watches
}

func (e *epoch) alive() bool {
	select {
	case <-e.down:
		return false
	default:
		return true
	}
}

func (e *epoch) end() {
	e.cancel()
	if e.watch != nil {
		e.watch.Remove()
	}
}

// message is something for the loop of an epoch to do.
type message struct {
	epoch *epoch
	do    func(l *loop)
}

// inbox is a queue without a limit, so that a connection's goroutine never waits for the cache.
type inbox struct {
	wake chan struct{} // capacity 1

	mu       sync.Mutex // guards what follows
	messages []message
	spare    []message
}

func (b *inbox) post(m message) {
	b.mu.Lock()
	b.messages = append(b.messages, m)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns all messages in order. They may be used until the next call.
func (b *inbox) take() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.messages
	clear(b.spare)
	b.messages, b.spare = b.spare[:0], taken
	if cap(b.messages) > maxSpare {
		b.messages = nil
	}
	return taken
}

// maxSpare is how many messages an inbox keeps room for.
const maxSpare = 256

// Pauses between two attempts to follow a connection, and between two attempts to read a node that a
// server refuses.
const (
	minPause   = 50 * time.Millisecond
	maxPause   = 5 * time.Second
	minRefused = time.Second
	maxRefused = time.Minute
)

var (
	errDown       = errors.New("connection lost")
	errWrongPaths = errors.New("the server reports events with the path of the watch")
)

// run follows one connection after the other until the cache or its client is closed.
func (c *Cache) run() {
	defer c.endFresh()
	pause := minPause
	for {
		began := time.Now()
		loaded, err := c.follow()
		c.endFresh()
		switch {
		case c.ctx.Err() != nil:
			return
		case errors.Is(err, framework.ErrClosed):
			c.stop(framework.ErrClosed)
			return
		case errors.Is(err, framework.ErrWatchUnsupported), errors.Is(err, errWrongPaths):
			c.mu.Lock()
			c.oneShot = true
			c.mu.Unlock()
			continue
		}
		if loaded {
			pause = minPause
		}
		if loaded && time.Since(began) > maxPause {
			continue
		}
		if ctxerr.Sleep(c.ctx, pause) != nil {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// endFresh notes that the copy does not follow a connection any more.
func (c *Cache) endFresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setFresh(false)
}

// follow follows one connection until it ends. It reports whether everything was loaded.
func (c *Cache) follow() (loaded bool, err error) {
	e, err := c.begin()
	if err != nil {
		c.mu.Lock()
		c.lastErr = err
		c.mu.Unlock()
		return false, err
	}
	defer e.end()
	l := newLoop(c, e)
	defer l.stopTimers()
	c.mu.Lock()
	c.epoch, c.lastErr = e, nil
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	err = l.run()
	return l.loaded, err
}

// begin waits for a connection, sets the watch that tells of changes and of the connection's end, and has the
// server catch up. All that is read after that is at least as new as anything that was read before it, by
// anybody. So events that came before the answer of CatchUp need not be looked at, and what comes after it can be
// trusted: a deletion, too.
func (c *Cache) begin() (*epoch, error) {
	if err := c.client.WaitConnected(c.ctx); err != nil {
		return nil, err
	}
	e := &epoch{}
	e.ctx, e.cancel = context.WithCancel(c.ctx)
	err := c.arm(e)
	if err == nil {
		err = c.client.CatchUp(e.ctx)
	}
	if err == nil && !e.alive() {
		err = errDown
	}
	if err != nil {
		e.end()
		return nil, err
	}
	c.inbox.take()
	return e, nil
}

// arm sets the watch that an epoch begins with.
func (c *Cache) arm(e *epoch) error {
	c.mu.RLock()
	oneShot := c.oneShot
	c.mu.RUnlock()
	if oneShot {
		_, _, w, err := c.client.ExistsW(e.ctx, sentinel)
		if err == nil {
			e.down = w.Done()
		}
		return err
	}
	mode := framework.WatchRecursive
	if c.cfg.depth == 0 {
		mode = framework.WatchPersistent
	}
	w, err := c.client.AddWatch(e.ctx, c.path, mode, func(event zk.Event) {
		c.inbox.post(message{e, func(l *loop) { l.event(event) }})
	})
	if err == nil {
		e.watch, e.down = w, w.Done()
	}
	return err
}

// sentinel is a node that does not exist. A watch for it fires when the connection ends. Nobody needs to read
// it, and all caches of a client share the watch.
const sentinel = "/curator-cache-connection"

// temporary reports whether a request may succeed later.
func temporary(err error) bool {
	return clientapi.MayPass(err) || errors.Is(err, retry.ErrExhausted)
}
