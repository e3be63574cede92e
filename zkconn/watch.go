package zkconn

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/internal/wait"
)

// watchKind is the kind of changes that fire a watch.
type watchKind int

const (
	ofData     watchKind = iota // data of an existing node
	ofCreation                  // creation of a missing node
	ofChildren
)

// waiter is the channel of a watch. The channel receives one event.
type waiter struct {
	ch   chan Event
	seen Stat // stat of the node when the watch was set
}

// watchKey identifies the watches that one read sets again.
type watchKey struct {
	session *framework.Session
	path    string
	kind    watchKind
}

// setAgainAtOnce limits how many watches are set concurrently after a reconnect.
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

// wait fires w when set fires. It runs on the connection's goroutine, so the event is in the
// channel before a later reply is returned.
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

// setAgain restores watches that were lost with their connection.
func (c *Conn) setAgain() {
	for {
		select {
		case set := <-c.wake:
			// OnFire returns when all watches of the connection have ended, so the watches of one
			// node are compared together.
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

// renew reads a node with a watch. Waiters that have seen another state receive the event that they
// missed, as a server sends it after setWatches. The other waiters continue to wait.
func (c *Conn) renew(key watchKey, waiters []*waiter) {
	if !c.tryRenew(key, waiters, wait.Pauses{First: engine.RefusedPause, Last: engine.RefusedPause}, false) {
		// A server keeps a watch although the client is no longer permitted to read the node, and
		// so does the Conn.
		c.loop.Go(func() { // exits with Close
			c.tryRenew(key, waiters, wait.Pauses{First: engine.RefusedPause, Last: secretPause}, true)
		})
	}
}

// secretPause is the longest pause between attempts to read a node that the client is not permitted
// to read.
const secretPause = 10 * time.Second

// tryRenew reports whether the waiters are waiting again or were notified. It returns false only if
// the client is not permitted to read the node and patient is false.
func (c *Conn) tryRenew(key watchKey, waiters []*waiter, pauses wait.Pauses, patient bool) bool {
	for {
		stat, set, err := c.read(key)
		switch {
		case err == nil:
			c.compare(key, waiters, stat, set)
			return true
		case errors.Is(err, framework.ErrClosed) || c.open.Err() != nil:
			c.end(key, waiters, zk.ErrClosing)
			return true
		case errors.Is(err, framework.ErrSessionLost):
			if c.SessionID() != key.session.ID() { // otherwise StateExpired has not been sent yet
				c.end(key, waiters, zk.ErrSessionExpired)
				return true
			}
		case errors.Is(err, zk.ErrNoAuth) && !patient:
			return false
		case errors.Is(err, zk.ErrNoAuth):
		case !verdict.MayPass(err):
			c.end(key, waiters, unwrapped(err))
			return true
		}
		c.pause(key.session, pauses.Next())
	}
}

// pause waits for d, or for the end of a live session or of the Conn. If the session has ended
// already, StateExpired follows soon, and the pause is short.
func (c *Conn) pause(session *framework.Session, d time.Duration) {
	if session.Err() != nil {
		_ = wait.Sleep(c.open, engine.RefusedPause)
		return
	}
	within, cancel := context.WithTimeout(c.open, d)
	defer cancel()
	select {
	case <-within.Done():
	case <-session.Done():
	}
}

// read reads a node with a watch. The stat is nil if the node is missing.
func (c *Conn) read(key watchKey) (stat *Stat, set *framework.Watch, err error) {
	client := c.client.In(key.session)
	if key.kind == ofChildren {
		_, stat, set, err = client.ChildrenW(background, key.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil, nil
		}
		return stat, set, err
	}
	_, stat, set, err = client.ExistsW(background, key.path)
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

// missedBy returns the event between two states of a node, or 0 if nothing has changed.
func missedBy(kind watchKind, seen Stat, now *Stat) EventType {
	switch {
	case kind == ofCreation && now != nil:
		return EventNodeCreated
	case kind == ofCreation:
		return 0
	case now == nil:
		return EventNodeDeleted
	case kind == ofData && now.Mzxid != seen.Mzxid: // differs even if the node was recreated
		return EventNodeDataChanged
	case kind == ofChildren && now.Pzxid != seen.Pzxid: // differs even if the node was recreated
		return EventNodeChildrenChanged
	}
	return 0
}

// end fires watches that no event of the node can fire any more.
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

// endWatches fires all watches with [ErrClosing] after the client was closed.
func (c *Conn) endWatches() {
	for key, waiters := range c.takeLost(nil) {
		c.end(key, waiters, zk.ErrClosing)
	}
}
