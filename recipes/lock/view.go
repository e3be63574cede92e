package lock

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
)

// view is what this client knows of the children of one path, from a persistent recursive watch. All goroutines
// and all Queues of the client share it. It ends with its connection. It is the state of the path at one
// instant that the client's server has reached. docs/PROTOCOL.md has the rule that uses it.
type view struct {
	path  string
	ready chan struct{} // closed when the first list is there, or the view has ended

	mu       sync.Mutex       // guards what follows; no function is called under it but SortKey of drivers
	remove   func()           // ends the watch; nil until it is set
	based    bool             // the first list is there
	listed   bool             // and the view can be asked
	exists   bool             // the path itself
	next     int64            // number that the server gives to the next child; -1: unknown
	children map[string]child // by name
	orders   map[orderKey]*order
	waiters  map[string][]*waiter // by the name of the child that they wait for
	entries  map[string]*entry    // ours
	load     load
	brief    bool        // for a waiter that is next, see next.go
	timer    *time.Timer // calls endIdle; nil before the first list
	over     bool
	ended    func(*view, ending) // called once, when the view is over
}

// child is one child in a view.
type child struct {
	// number is the one that the server gave, or would have given, to the child: it counts the
	// children created before. It is -1 if the child was in the first list.
	number int64
}

// waiter is told once, when a child was deleted or the view has ended.
type waiter struct {
	names []string
	c     chan struct{} // closed then
}

func newView(path string, now time.Time, ended func(*view, ending)) *view {
	return &view{
		path:     path,
		ready:    make(chan struct{}),
		next:     -1,
		children: make(map[string]child),
		orders:   make(map[orderKey]*order),
		waiters:  make(map[string][]*waiter),
		entries:  make(map[string]*entry),
		load:     load{used: now},
		ended:    ended,
	}
}

// functions are what the connection calls.
func (v *view) functions() clientapi.ChildrenWatch {
	return clientapi.ChildrenWatch{List: v.list, Event: v.event, End: func() { v.end(disconnected) }}
}

// list takes the first list. Events that came before are contained in it.
func (v *view) list(names []string, stat *zk.Stat, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.based = true
	if err != nil {
		return // a missing path has no children
	}
	v.exists = true
	// Cversion is twice the children created less the children there are, in 32 bits without a sign.
	v.next = int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2)
	for _, name := range names {
		v.children[name] = child{number: -1}
	}
}

// begin makes the view one that can be asked: after list, when the watch is known to be set. remove ends the watch.
func (v *view) begin(remove func()) {
	v.mu.Lock()
	v.remove = remove
	over := v.over
	if !over {
		v.listed = true
		close(v.ready)
		v.endIdleIn(idle)
	}
	v.mu.Unlock()
	if over {
		remove()
	}
}

// event takes what happened to the path or to a node below it.
func (v *view) event(e zk.Event) {
	v.mu.Lock()
	parent, name := framework.Split(e.Path)
	right := true
	var gone *entry
	switch {
	case v.over || !v.based:
	case e.Path == v.path:
		right = v.pathEvent(e.Type)
	case parent != v.path: // further below
	case e.Type == zk.EventNodeCreated:
		right = v.add(name)
	case e.Type == zk.EventNodeDeleted:
		gone = v.drop(name)
	}
	tooHeavy := v.load.heavy()
	v.mu.Unlock()
	if gone != nil {
		gone.deleted()
	}
	switch {
	case !right:
		v.end(wrong)
	case tooHeavy:
		v.end(heavy)
	}
}

// pathEvent reports whether the event is possible: a node with children cannot be deleted, and one that exists
// cannot be created. ClickHouse Keeper names the path of the watch in every event.
func (v *view) pathEvent(kind zk.EventType) bool {
	switch kind {
	case zk.EventNodeCreated:
		if v.exists {
			return false
		}
		v.exists, v.next = true, 0
	case zk.EventNodeDeleted:
		if len(v.children) > 0 {
			return false
		}
		v.exists, v.next = false, -1
	}
	return true
}

// add adds a child that was created. It reports whether that is possible.
func (v *view) add(name string) bool {
	if _, found := v.children[name]; found || v.next < 0 {
		return false
	}
	v.children[name] = child{number: v.next}
	v.next++
	v.load.events++
	for _, o := range v.orders {
		o.insert(name)
	}
	return true
}

// drop removes a child that was deleted, wakes its waiters, and returns its entry, if it is ours.
func (v *view) drop(name string) *entry {
	if _, found := v.children[name]; !found {
		return nil
	}
	delete(v.children, name)
	v.load.events++
	for _, o := range v.orders {
		o.remove(name)
	}
	for _, w := range slices.Clone(v.waiters[name]) {
		v.wake(w)
	}
	return v.entries[name]
}

// wake tells a waiter. v.mu is held.
func (v *view) wake(w *waiter) {
	close(w.c)
	v.forget(w)
}

// forget removes a waiter. v.mu is held.
func (v *view) forget(w *waiter) {
	for _, name := range w.names {
		rest := slices.DeleteFunc(v.waiters[name], func(other *waiter) bool { return other == w })
		if len(rest) == 0 {
			delete(v.waiters, name)
		} else {
			v.waiters[name] = rest
		}
	}
	w.names = nil
}

// end ends the view: the connection has ended, the view is wrong, or it costs more than lists. All that use it
// are told, and list from then on.
func (v *view) end(why ending) {
	v.mu.Lock()
	if v.over {
		v.mu.Unlock()
		return
	}
	v.over = true
	if !v.listed {
		close(v.ready)
	}
	for _, waiting := range v.waiters {
		for _, w := range slices.Clone(waiting) {
			v.wake(w)
		}
	}
	left := v.entries
	v.entries = nil
	remove := v.remove
	if v.timer != nil {
		v.timer.Stop()
	}
	v.mu.Unlock()
	v.ended(v, why)
	if remove != nil {
		remove()
	}
	for _, e := range left {
		e.leftView()
	}
}

// admit adds an entry of ours whose create has been answered. It reports whether the view has every node that
// was created before: only then it can say who is ahead. See docs/PROTOCOL.md.
func (v *view) admit(e *entry) bool {
	v.mu.Lock()
	c, found := v.children[e.name]
	number := e.number()
	gap := found && c.number >= 0 && c.number < number // children were created of which we were not told
	ok := found && !v.over && v.listed && (c.number < 0 || c.number == number)
	if ok {
		v.entries[e.name] = e
		v.join(e.queue)
	}
	v.mu.Unlock()
	if gap {
		v.end(missed)
	}
	return ok
}

// dismiss removes an entry that admit added.
func (v *view) dismiss(e *entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.entries[e.name] == e {
		delete(v.entries, e.name)
		v.part(e.queue)
		if v.brief && len(v.entries) == 0 {
			v.endIdleIn(briefly)
		}
	}
}

// look returns the children that belong to a Queue's lock, in the driver's order, for an entry that was admitted. It
// is false if the view cannot say.
func (v *view) look(e *entry) (children []string, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over || v.entries[e.name] != e {
		return nil, false, nil
	}
	if _, found := v.children[e.name]; !found {
		return nil, false, nil
	}
	o := v.orders[e.queue.order]
	if o.exhausted > 0 {
		return nil, true, ErrSequenceExhausted
	}
	return slices.Clone(o.names), true, nil
}

// names returns the children that belong to a Queue's lock, in the driver's order, for somebody who has no entry.
func (v *view) names(q *Queue) (children []string, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over || !v.listed {
		return nil, false, nil
	}
	v.join(q)
	defer v.part(q)
	o := v.orders[q.order]
	if o.exhausted > 0 {
		return nil, true, ErrSequenceExhausted
	}
	return slices.Clone(o.names), true, nil
}

// alone reports whether e is there and nobody else belongs to its lock.
func (v *view) alone(e *entry) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over || v.entries[e.name] != e {
		return false
	}
	_, found := v.children[e.name]
	return found && len(v.orders[e.queue.order].names) == 1
}

// wait returns a waiter that is told when one of names is deleted; it is nil if one is deleted already. known
// is false if the view cannot tell: servers report the deletion of a node only to clients that may read it, and
// we know that only of nodes whose creation was reported.
func (v *view) wait(names []string) (w *waiter, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return nil, false
	}
	for _, name := range names {
		c, found := v.children[name]
		if !found {
			return nil, true
		}
		if c.number < 0 {
			return nil, false
		}
	}
	w = &waiter{names: slices.Clone(names), c: make(chan struct{})}
	for _, name := range names {
		v.waiters[name] = append(v.waiters[name], w)
	}
	return w, true
}

// deny is called when a server has said that one of names does not exist. If the view still has all of them, it
// was not told of that, because the client may not read the node: the view ends.
func (v *view) deny(names []string) {
	v.mu.Lock()
	all := !slices.ContainsFunc(names, func(name string) bool { _, found := v.children[name]; return !found })
	v.mu.Unlock()
	if all {
		v.end(missed)
	}
}

// cancel ends a wait.
func (v *view) cancel(w *waiter) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(w)
}

// orderKey tells orders apart: Queues with the same driver and name share one.
type orderKey struct {
	queue  *Queue // nil if the driver can be compared
	driver Driver
	name   string
}

// join begins to keep the order of a Queue. v.mu is held.
func (v *view) join(q *Queue) {
	key := q.order
	o := v.orders[key]
	if o == nil {
		o = newOrder(q, maps.Keys(v.children))
		v.orders[key] = o
	}
	o.users++
}

// part ends what join began. A few orders that nobody uses are kept for the next acquire. v.mu is held.
func (v *view) part(q *Queue) {
	key := q.order
	o := v.orders[key]
	if o.users--; o.users == 0 && len(v.orders) > keptOrders {
		delete(v.orders, key)
	}
}

// keptOrders is how many orders of a view are kept while nobody uses them. Most paths have one or two drivers.
const keptOrders = 4
