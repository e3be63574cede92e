package cache

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/internal/follow"
)

// Kind says what a [Change] reports.
type Kind int

// The kinds of changes.
const (
	Created Kind = iota + 1
	Changed
	Deleted
	Loaded // all that was there has been reported; about no node
)

// String is the kind in words, such as "created".
func (k Kind) String() string {
	words := map[Kind]string{Created: "created", Changed: "changed", Deleted: "deleted", Loaded: "loaded"}
	return cmp.Or(words[k], fmt.Sprintf("Kind(%d)", int(k)))
}

// Change is a change of the copy, or of Kind Loaded. Then Path is empty, and Old and New are zero.
type Change struct {
	Kind Kind
	Path string
	Old  Node // what was there; zero if Kind is Created
	New  Node // what is there now; zero if Kind is Deleted
}

// Changes iterates over what the copy holds, as Created, and then over its changes, until ctx is done or the cache has ended. The last
// pair has no change, and says why it ended: the error is that of ctx, or that of [Cache.Err].
//
// One Change of Kind Loaded comes in each iteration, when all that was there has been reported: after what the copy holds, or, if the
// tree is being loaded for the first time, after what that finds. It also comes if there is no node.
//
// Changes of one path come in order: Created, then Changed, then Deleted, then Created again. A node that was deleted and created again
// comes as both, so Old and New of a Changed have the same Czxid. Parents are created before and deleted after their children. Whoever
// applies all changes one after the other has the copy.
//
// A reader that is slower than the changes gets the newest state of each path instead of every one; a node that was created and deleted
// meanwhile is left out. So at most two changes of each path wait for a reader.
func (c *Cache) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return changes(ctx, c, &c.nodes, func(i *item[value]) Change { return change(i, (*value).node) })
}

// changes iterates over what there is in a store and over its changes, and then over why it has ended.
func changes[V, C any](ctx context.Context, c *Cache, s *store[V], change func(*item[V]) C) iter.Seq2[C, error] {
	return func(yield func(C, error) bool) {
		for i := range s.items(s.subscribe(), ctx, c.ctx) {
			if !yield(change(i), nil) {
				return
			}
		}
		yield(*new(C), follow.OpError("changes", c.Path(), c.ended(ctx)))
	}
}

// ended is why a wait for the cache has ended.
func (c *Cache) ended(ctx context.Context) error { return cmp.Or(c.Err(), wait.Err(ctx)) }

// The way of a change: an event marks a path (event, unknown); loop.go says when that is read (read, list); the answer goes into the copy
// (found, take, listed, failed, put) and to the readers (publish, push), each of which takes it from a queue of its own (pop, items).
//
// Events and answers come in one order: see package engine. So an event about what is just being read needs no second read. The load
// reads from the root down, and what an event says of a node that it has not reached is dropped.

// event takes in what a watch reports.
func (l *loop) event(e zk.Event) {
	l.taken++
	n := l.c.nodes.find(e.Path)
	switch {
	case e.Type == zk.EventNodeChildrenChanged && (n == nil || !l.c.lists(e.Path)): // it changes nothing in the copy
	case n == nil:
		l.unknown(e.Path)
	case !l.reached(n) && l.byPath[e.Path] == nil: // the load will come to it
	case e.Type == zk.EventNodeDeleted && !(l.oneShot && e.Path == l.c.Path()): // that one is asked for, for a watch
		l.removeAll(e.Path)
	default:
		l.mark(e.Path, l.open())
	}
}

// unknown takes in an event about a node that is not in the copy. If its parent is not there either, and is not to be read, the client
// was not allowed to read that when it was created: the topmost such node is read, and then what is below it.
func (l *loop) unknown(path string) {
	dir, _ := framework.Split(path)
	switch parent, m := l.c.nodes.find(dir), l.byPath[dir]; {
	case path == l.c.Path() || l.reached(parent) && l.c.lists(dir) && l.c.keeps(path):
		l.mark(path, l.open())
	case parent != nil: // it will be listed, or does not belong into the copy
	case m != nil && m.state != idle: // the parent is about to be read, and then listed
	case dir != path: // otherwise it is not below the root
		l.unknown(dir)
	}
}

// read asks for the stat of nodes, and for their data if somebody wants them.
func (l *loop) read(marks ...*mark) {
	paths := make([]string, len(marks))
	for i, m := range marks {
		l.asks(m, reading)
		paths[i] = m.path
	}
	found := func(i int, data []byte, stat *zk.Stat, err error) {
		l.answered(marks[i], err, func() { l.found(marks[i], &value{data, *stat}) })
	}
	if l.oneShot || !l.c.cfg.withoutData || l.c.cfg.onChange != nil { // the standard watch of an exists would stay for a node that is gone
		l.link.GetAll(paths, found)
		return
	}
	for i, path := range paths {
		l.link.Exists(path, func(stat *zk.Stat, err error) { found(i, nil, stat, err) })
	}
}

// list asks for the names of a node's children.
func (l *loop) list(m *mark) {
	l.asks(m, listing)
	l.link.Children(m.path, func(names []string, stat *zk.Stat, err error) {
		l.answered(m, err, func() { l.listed(m, names, stat) })
	})
}

// failed takes in that a request has failed.
func (l *loop) failed(m *mark, err error) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		l.removeAll(m.path)
		if l.oneShot && m.state == reading && m.path == l.c.Path() { // only an exists sets a standard watch for a missing node
			l.asks(m, listing)
			l.link.Exists(m.path, func(_ *zk.Stat, err error) { l.answered(m, err, func() { l.queue(m) }) })
			return
		}
		l.done(m, nil)
	case errors.Is(err, zk.ErrNoAuth): // neither the node nor what is below it is shown
		l.removeAll(m.path)
		l.done(m, zk.ErrNoAuth)
	default:
		l.rest(m, paused, minFailed, maxFailed)
	}
}

// found takes in the stat, and the data, of a node that is there, unless it is to be read again.
func (l *loop) found(m *mark, v *value) {
	dir, _ := framework.Split(m.path)
	n, root := l.c.nodes.find(m.path), m.path == l.c.Path()
	older := n != nil && cmp.Or(cmp.Compare(n.value.stat.Czxid, v.stat.Czxid), cmp.Compare(n.value.stat.Mzxid, v.stat.Mzxid)) > 0
	another := n == nil || n.value.stat.Czxid != v.stat.Czxid
	switch parent := l.byPath[dir]; {
	case !root && !l.reached(l.c.nodes.find(dir)): // it will be read when its parent is
		l.done(m, nil)
	case older && l.newSession: // the ensemble was restored from a backup: the copy is dropped and loaded again
		l.removeAll(l.c.Path())
		l.done(m, nil)
		l.mark(l.c.Path(), l.groups[0])
	case older: // the server is behind, although it has caught up
		l.rest(m, paused, minFailed, maxFailed)
	case another && !root && l.oneShot && parent.unread(): // the parent, whose watches were used up, may have been made again
		if parent.state == paused {
			l.queue(parent)
		}
		l.queue(m)
	default:
		l.take(m, v, another)
	}
}

// take puts what was found into the copy, and has its children listed if they are not known. It may be another node than before.
func (l *loop) take(m *mark, v *value, another bool) {
	switch {
	case another:
		l.removeAll(m.path)
	case v.stat.NumChildren == 0:
		l.removeBelow(m.path, l.c.nodes.find(m.path), nil)
	}
	n := l.put(m.path, v)
	if l.c.lists(m.path) && (l.oneShot || v.stat.NumChildren > 0 && !l.reached(n)) {
		l.list(m)
		return
	}
	n.loop = l.number
	l.done(m, nil)
}

// listed takes in the names of a node's children, and its stat. A node that is listed first and has changed is read after that.
func (l *loop) listed(m *mark, names []string, stat *zk.Stat) {
	n := l.c.nodes.find(m.path)
	switch {
	case n == nil: // it was deleted before, and made again: there was an event
		l.done(m, nil)
		return
	case n.value.stat.Czxid != stat.Czxid || n.value.stat.Mzxid > stat.Mzxid: // found says what to do
		l.read(m)
		return
	case n.value.stat.Mzxid == stat.Mzxid:
		l.put(m.path, &value{stat: *stat})
	case !l.reached(n):
		join(&m.later, m.group)
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
		if path := framework.Join(m.path, name); !l.reached(n.children[name]) && l.c.keeps(path) {
			l.mark(path, m.group)
		}
	}
	l.removeBelow(m.path, n, there)
	n.loop = l.number
	l.done(m, nil)
}

// reached reports whether a node was read on this connection, and its children were listed.
func (l *loop) reached(n *node[value]) bool { return n != nil && n.loop == l.number }

// removeAll takes out the node at path, if there is one, and all below it before it.
func (l *loop) removeAll(path string) {
	if n := l.c.nodes.find(path); n != nil {
		l.removeBelow(path, n, nil)
		l.put(path, nil)
	}
}

// removeBelow takes out the children of n but those to keep, and all below them.
func (l *loop) removeBelow(path string, n *node[value], keep map[string]bool) {
	for name := range n.children {
		if !keep[name] {
			l.removeAll(framework.Join(path, name))
		}
	}
}

// put is store.put, for a node of which something is known now.
func (l *loop) put(path string, v *value) *node[value] {
	old := l.c.nodes.get(path)
	changed := old == nil || v == nil || old.stat.Mzxid != v.stat.Mzxid
	if !changed {
		v.data = old.data // only what is said of children and ACL is new
	}
	if changed && l.c.cfg.onChange != nil {
		now := change(&item[value]{path: path, old: old, new: v}, (*value).node)
		defer l.c.client.Guard("function of OnChange", path, func() { l.c.cfg.onChange(now) }) // when the copy has it
	}
	if v != nil && l.c.cfg.withoutData {
		v.data = nil // they were read for OnChange
	}
	l.c.counts.bytes.Add(int64(len(orZero(v).data) - len(orZero(old).data)))
	return l.c.nodes.put(path, v, changed)
}

// reader is what waits for one iteration over changes: a queue with at most two items for each path, a deletion and what came after it.
type reader[V any] struct {
	first []item[V] // what comes before the queue; for the goroutine that iterates
	wake  wait.Signal

	mu    sync.Mutex               // guards what follows
	queue list.List                // of *item[V]
	open  map[string]*list.Element // by path, what a later change is merged with
}

// item is that there is new at path now instead of old; nil stands for nothing. One without a path is about no node.
type item[V any] struct {
	path     string
	old, new *V
	taken    chan struct{} // nil, or closed by the reader
}

// change is what an item says to users.
func change[V any](i *item[V], node func(v *V, path string) Node) Change {
	switch {
	case i.path == "":
		return Change{Kind: Loaded}
	case i.old == nil:
		return Change{Kind: Created, Path: i.path, New: node(i.new, i.path)}
	case i.new == nil:
		return Change{Kind: Deleted, Path: i.path, Old: node(i.old, i.path)}
	default:
		return Change{Kind: Changed, Path: i.path, Old: node(i.old, i.path), New: node(i.new, i.path)}
	}
}

// subscribe makes a reader of what there is and of all changes from now on.
func (s *store[V]) subscribe() *reader[V] {
	r := &reader[V]{open: make(map[string]*list.Element)}
	s.mu.RLock() // nothing is published meanwhile
	defer s.mu.RUnlock()
	s.readers.Store(r, nil)
	r.first = s.root.list(s.path, anyLevel, nil)
	if s.loaded {
		r.first = append(r.first, item[V]{})
	}
	return r
}

// publish adds an item to what all readers get. s.mu is held.
func (s *store[V]) publish(path string, old, v *V) {
	for r := range s.readers.Range {
		r.(*reader[V]).push(&item[V]{path: path, old: old, new: v})
	}
}

// push adds a change, or merges it with what waits. Nothing is merged with a deletion: what follows it is a creation.
func (r *reader[V]) push(i *item[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.wake.Raise()
	if e := r.open[i.path]; e != nil {
		waits := e.Value.(*item[V])
		if i.new != nil {
			waits.new = i.new
			return
		}
		r.remove(e)
		if waits.old == nil {
			return // it was created and deleted before the reader saw it
		}
	}
	e := r.queue.PushBack(i) // a deletion comes behind those of its children
	if i.new != nil {
		r.open[i.path] = e
	}
}

// remove takes an item out of the queue.
func (r *reader[V]) remove(e *list.Element) *item[V] {
	i := r.queue.Remove(e).(*item[V])
	if r.open[i.path] == e {
		delete(r.open, i.path)
	}
	return i
}

// pop takes the first item, or returns nil.
func (r *reader[V]) pop() *item[V] {
	if len(r.first) > 0 {
		i := &r.first[0]
		r.first = r.first[1:]
		return i
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.queue.Front(); e != nil {
		return r.remove(e)
	}
	return nil
}

// items iterates over what waits for a reader and what comes, until one of the contexts is done. After that nothing comes any more.
func (s *store[V]) items(r *reader[V], ctx, ended context.Context) iter.Seq[*item[V]] {
	return func(yield func(*item[V]) bool) {
		defer s.readers.Delete(r)
		for ctx.Err() == nil && ended.Err() == nil {
			if i := r.pop(); i == nil {
				select {
				case <-r.wake.C():
				case <-ctx.Done():
				case <-ended.Done():
				}
			} else if !yield(i) {
				return
			}
		}
	}
}
