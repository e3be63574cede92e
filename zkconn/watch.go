package zkconn

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/retry"
)

// watchKind says which changes a watch is for.
type watchKind int

const (
	ofData     watchKind = iota // of a node that was there
	ofCreation                  // of a node that was not there
	ofChildren
)

// waiter is a channel that will get one event.
type waiter struct {
	ch   chan Event
	seen Stat // of the node when it was read
}

// watchKey are the watches that one read sets again.
type watchKey struct {
	session *framework.Session
	path    string
	kind    watchKind
}

// setAgainAtOnce is how many watches are set again at a time after a reconnect.
const setAgainAtOnce = 16

// watch returns the channel of a watch that a read has set.
func (c *Conn) watch(path string, kind watchKind, stat *Stat, set *framework.Watch) <-chan Event {
	w := &waiter{ch: make(chan Event, 1)}
	if stat != nil {
		w.seen = *stat
	}
	c.wait(path, kind, w, set)
	return w.ch
}

// wait fires w with set. On the connection's goroutine, so that the event is in the channel before a
// later answer is returned.
func (c *Conn) wait(path string, kind watchKind, w *waiter, set *framework.Watch) {
	(*engine.Watch)(set).OnFire(func(e zk.Event, session *engine.Session) {
		if e.Type != EventNotWatching {
			w.fire(e)
			return
		}
		key := watchKey{(*framework.Session)(session), path, kind}
		c.mu.Lock()
		closed := c.lost == nil
		if !closed {
			c.lost[key] = append(c.lost[key], w)
		}
		c.mu.Unlock()
		if closed {
			w.fire(notWatching(path, zk.ErrClosing))
			return
		}
		select {
		case c.wake <- (*engine.Watch)(set):
		default:
		}
	})
}

func (w *waiter) fire(e Event) {
	w.ch <- e
	close(w.ch)
}

// setAgain sets watches again that have ended with their connection.
func (c *Conn) setAgain() {
	for {
		select {
		case set := <-c.wake:
			// It returns when all watches that end with the connection have ended: those of one node are compared together.
			set.OnFire(func(zk.Event, *engine.Session) {})
		case <-c.open.Done():
			return
		}
		var group sync.WaitGroup
		limit := make(chan struct{}, setAgainAtOnce)
		for key, waiters := range c.takeLost(make(map[watchKey][]*waiter)) {
			limit <- struct{}{}
			group.Go(func() {
				c.renew(key, waiters)
				<-limit
			})
		}
		group.Wait()
	}
}

func (c *Conn) takeLost(next map[watchKey][]*waiter) map[watchKey][]*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := c.lost
	c.lost = next
	return lost
}

// renew reads a node with a watch. Those who have seen something else are given the event that they have missed, as a server
// does in answer to setWatches, and the others wait on.
func (c *Conn) renew(key watchKey, waiters []*waiter) {
	ctx := framework.InSession(repeated, key.session)
	for {
		stat, set, err := c.read(ctx, key)
		switch {
		case err == nil:
			c.compare(key, waiters, stat, set)
			return
		case errors.Is(err, framework.ErrClosed) || c.open.Err() != nil:
			c.end(key, waiters, zk.ErrClosing)
			return
		case errors.Is(err, framework.ErrSessionLost):
			if c.SessionID() != key.session.ID() { // otherwise StateExpired is still to come
				c.end(key, waiters, zk.ErrSessionExpired)
				return
			}
		case !retry.MayPass(err):
			c.end(key, waiters, unwrapped(err))
			return
		}
		_ = wait.Sleep(c.open, engine.RefusedPause)
	}
}

// read returns no stat if there is no such node.
func (c *Conn) read(ctx context.Context, key watchKey) (stat *Stat, set *framework.Watch, err error) {
	if key.kind == ofChildren {
		_, stat, set, err = c.client.ChildrenW(ctx, key.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil, nil
		}
		return stat, set, err
	}
	_, stat, set, err = c.client.ExistsW(ctx, key.path)
	return stat, set, err
}

func (c *Conn) compare(key watchKey, waiters []*waiter, stat *Stat, set *framework.Watch) {
	e := Event{State: StateSyncConnected, Path: key.path}
	missed := false
	for _, w := range waiters {
		if e.Type = missedBy(key.kind, w.seen, stat); e.Type == 0 {
			c.wait(key.path, key.kind, w, set)
			continue
		}
		if !missed {
			c.send(e)
			missed = true
		}
		w.fire(e)
	}
}

// missedBy is the event that somebody has missed who has seen a node with one stat, and none if the stat is zero.
func missedBy(kind watchKind, seen Stat, now *Stat) EventType {
	switch {
	case kind == ofCreation && now != nil:
		return EventNodeCreated
	case kind == ofCreation:
		return 0
	case now == nil:
		return EventNodeDeleted
	case kind == ofData && now.Mzxid != seen.Mzxid: // also if the node is another: its first mzxid is its czxid
		return EventNodeDataChanged
	case kind == ofChildren && now.Pzxid != seen.Pzxid: // likewise
		return EventNodeChildrenChanged
	}
	return 0
}

// end ends watches for which there will be no event.
func (c *Conn) end(key watchKey, waiters []*waiter, why error) {
	e := notWatching(key.path, why)
	c.send(e)
	for _, w := range waiters {
		w.fire(e)
	}
}

func notWatching(path string, why error) Event {
	return Event{Type: EventNotWatching, State: StateDisconnected, Path: path, Err: why}
}

// endWatches ends all watches. The client is closed.
func (c *Conn) endWatches() {
	for key, waiters := range c.takeLost(nil) {
		c.end(key, waiters, zk.ErrClosing)
	}
}
