package cache

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// query is what a task asks the servers.
type query struct {
	ctx         context.Context
	client      requests
	reads       *atomic.Int64
	path        string
	ask         ask
	lists       bool // its children belong into the copy
	withoutData bool
	oneShot     bool // watches are wanted
	waits       bool // a node that is missing is to be waited for
	gone        bool // it may well be missing, and must not be waited for
}

// answer is what a query found. err is that of the first request that failed.
type answer struct {
	value   *value
	hasData bool // value is complete, and not only the stat that came with the list
	listed  bool
	names   []string
	watches watchPair
	err     error
}

func (l *loop) query(t *task) query {
	return query{
		ctx:         l.e.ctx,
		client:      l.c.client,
		reads:       &l.c.reads,
		path:        t.path,
		ask:         t.asked,
		lists:       l.c.lists(t.path),
		withoutData: l.c.cfg.withoutData,
		oneShot:     l.oneShot,
		waits:       l.oneShot && t.path == l.c.path,
		gone:        l.oneShot && l.c.cfg.withoutData && l.maybeGone(t),
	}
}

// maybeGone reports whether a node may well be missing: its watch has told of its deletion, or it was not found where it is looked for, in
// a list or below a node that is missing. So may one that was asked for before and is not in the tree, and after the load any that is new: nodes of
// locks do not live long.
func (l *loop) maybeGone(t *task) bool {
	n := l.c.tree.find(t.path)
	if n == nil {
		return l.loaded || t.reads > 1
	}
	return deleted(l.armed[n].data) || n.read != l.number && !t.asked.list
}

// send asks what a task is to ask. The read of a node, which is what nearly all tasks ask, takes no goroutine: what the
// connection's goroutine gets it hands to the cache's.
func (l *loop) send(t *task) {
	q := l.query(t)
	if !q.ask.node || q.oneShot || q.withoutData {
		l.c.wg.Go(func() { l.answered(t, q.run()) }) // ends with the request, which ends with the epoch
		return
	}
	q.reads.Add(1)
	q.client.Read(q.ctx, q.path, func(data []byte, stat *zk.Stat, err error) {
		r := answer{err: err}
		if err == nil {
			r.value, r.hasData = &value{data, *stat}, true
		}
		if !q.needsList(&r) {
			l.answered(t, r)
			return
		}
		l.tell(func(l *loop) {
			l.c.wg.Go(func() { // ends as above
				q.list(&r)
				l.answered(t, r)
			})
		})
	})
}

// answered has the loop take in an answer.
func (l *loop) answered(t *task, r answer) { l.tell(func(l *loop) { l.settle(t, r) }) }

// tell has the loop do what follows from an answer, unless that may have come on another connection.
func (l *loop) tell(do func(l *loop)) {
	if l.e.alive() {
		l.c.inbox.post(message{l.e, do})
	}
}

func (q query) run() (r answer) {
	for {
		r = answer{}
		if q.ask.node {
			q.node(&r)
		}
		if q.needsList(&r) {
			q.list(&r)
		}
		if !q.waits || !isMissing(r.err) {
			return r
		}
		// A read of a missing node sets no watch.
		q.reads.Add(1)
		there, _, w, err := q.client.ExistsW(q.ctx, q.path)
		if err != nil {
			return answer{err: err}
		}
		if !there {
			r.watches = watchPair{data: w}
			return r
		}
		q.ask = q.ask.and(ask{node: true, list: true})
	}
}

// node reads data and stat, where [loop.send] does not.
func (q query) node(r *answer) {
	q.reads.Add(1)
	var data []byte
	var stat *zk.Stat
	there := true
	switch {
	case q.withoutData && !q.oneShot:
		there, stat, r.err = q.client.Exists(q.ctx, q.path)
	case q.withoutData && !q.gone:
		there, stat, r.watches.data, r.err = q.client.ExistsW(q.ctx, q.path)
	case q.withoutData: // it costs the data, but an exists of a missing node leaves a watch until somebody makes the node again
		_, stat, r.watches.data, r.err = q.client.GetW(q.ctx, q.path)
		if isRefused(r.err) { // so it is there
			q.reads.Add(1)
			there, stat, r.watches.data, r.err = q.client.ExistsW(q.ctx, q.path)
		}
	default:
		data, stat, r.watches.data, r.err = q.client.GetW(q.ctx, q.path)
	}
	if r.err == nil && !there {
		r.err = zk.ErrNoNode
	}
	if r.err == nil {
		r.value, r.hasData = &value{data, *stat}, true
	}
}

// needsList reports whether the list of children has to be asked for. With a persistent watch it need not be if there are
// none: a child that is created after the node was read has an event of its own.
func (q query) needsList(r *answer) bool {
	if r.err != nil || !q.ask.list && !q.ask.deep || !q.lists {
		return false
	}
	r.listed = r.hasData && r.value.stat.NumChildren == 0 && !q.oneShot
	return !r.listed
}

// list reads the names of the children.
func (q query) list(r *answer) {
	q.reads.Add(1)
	var stat *zk.Stat
	if q.oneShot {
		r.names, stat, r.watches.children, r.err = q.client.ChildrenW(q.ctx, q.path)
	} else {
		r.names, stat, r.err = q.client.Children(q.ctx, q.path)
	}
	if r.err != nil {
		return
	}
	r.listed = true
	if !r.hasData {
		r.value = &value{stat: *stat}
	}
}

func isMissing(err error) bool { return errors.Is(err, zk.ErrNoNode) }
func isRefused(err error) bool { return errors.Is(err, zk.ErrNoAuth) }

// found takes in a node that is there.
func (l *loop) found(t *task, a ask, r answer) {
	if t.expects != nil && t.expects.compare(&r.value.stat) == 0 && !l.oneShot {
		l.err = errWrongPaths
		return
	}
	t.expects = nil
	if t.path == l.c.path {
		l.setRootErr(nil)
	}
	n := l.c.tree.find(t.path)
	if n == nil && !r.hasData {
		return // a list alone does not make a node
	}
	if n == nil {
		if n = l.add(t.path, r.value); n == nil {
			return // its parent is not there; it will be read when that is
		}
		if !r.listed && l.c.lists(t.path) && (l.oneShot || r.value.stat.NumChildren > 0) {
			t.more(ask{list: true})
		}
	} else {
		l.replace(t, n, r)
	}
	if r.hasData && t.reads > t.doubted {
		n.gone, n.read = false, l.number
	}
	if p := n.parent; p != nil && p.gone {
		l.want(p.path(), ask{node: true}, t.now)
	}
	if l.oneShot {
		l.armed[n] = l.armed[n].and(r.watches)
	}
	if r.listed {
		l.children(t, a, n, r.names)
	}
}

// add puts a node into the tree and returns it, or nil if it has no parent there.
func (l *loop) add(path string, v *value) *node {
	c := l.c
	if path != c.path {
		if dir, _ := framework.Split(path); c.tree.find(dir) == nil {
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.tree.add(path, v)
	c.publish(path, nil, v)
	return n
}

// tooEarly reports whether a node was found that is new to the tree although its parent in the tree may have been
// deleted and made again since that was last read. Then the parent must be read first, or the new node would
// come before the new parent. If the same node is found again after that, it is the parent's.
func (l *loop) tooEarly(t *task, r answer) bool {
	if t.path == l.c.path {
		return false
	}
	dir, _ := framework.Split(t.path)
	n, p := l.c.tree.find(t.path), l.c.tree.find(dir)
	czxid := r.value.stat.Czxid
	if p == nil || n != nil && n.value.stat.Czxid == czxid || t.czxid == czxid {
		return false
	}
	if p.read == l.number && !fired(l.armed[p].data) {
		return false
	}
	t.czxid = czxid
	return true
}

// outdated reports whether the tree has a newer state than that which was read: the server is behind, although it has
// caught up.
func (l *loop) outdated(t *task, r answer) bool {
	n := l.c.tree.find(t.path)
	return n != nil && n.value.compare(&r.value.stat) > 0
}

// replace gives a node what was read, which is at least as new as what it has.
func (l *loop) replace(t *task, n *node, r answer) {
	c, old, v := l.c, n.value, r.value
	newer := old.compare(&v.stat) < 0
	another := old.stat.Czxid != v.stat.Czxid
	switch {
	case newer && !r.hasData:
		t.more(ask{node: true, list: another})
		return
	case !newer && (old.stat == v.stat || v.stat.Pzxid < old.stat.Pzxid):
		return
	case !newer:
		v = &value{old.data, v.stat} // only what is said of children and ACL is new
	}
	if another { // what was below the old one went before it
		l.removeBelow(n)
		if !r.listed && c.lists(t.path) {
			t.more(ask{list: true})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.set(n, v)
	if newer {
		c.publish(t.path, old, v)
	}
}

// children has those children read of which the list says something new. It neither makes nor removes a node: that
// takes an answer about the node itself.
func (l *loop) children(t *task, a ask, n *node, names []string) {
	listed := make(map[string]struct{}, min(len(names), n.children.len()))
	for _, name := range names {
		child := n.children.get(name)
		if child != nil {
			listed[name] = struct{}{}
		}
		path := framework.Join(t.path, name)
		// Without an event for a node that is made again, only this list tells that an answer which is under way, that
		// there is none, is out of date.
		again := l.oneShot && l.tasks[path] != nil && l.tasks[path].state == reading
		if (child == nil || a.deep || again) && l.c.keeps(path) {
			l.want(path, ask{node: true, list: true, deep: a.deep}, t.now)
		}
	}
	for child := range n.children.all() {
		if _, found := listed[child.name]; !found {
			l.want(framework.Join(t.path, child.name), ask{node: true}, t.now)
		}
	}
}

// missing takes in that there is no such node. If the tree has children of it, they are checked first.
func (l *loop) missing(t *task, r answer) {
	t.expects = nil
	if t.path == l.c.path {
		l.setRootErr(nil)
		l.rootWatch = r.watches.data
	}
	n := l.c.tree.find(t.path)
	if n == nil {
		return
	}
	if n.children.len() == 0 {
		l.remove(n, t.now)
		return
	}
	n.gone, n.read = true, 0
	for child := range n.children.all() {
		l.want(framework.Join(t.path, child.name), ask{node: true}, t.now)
	}
}

// remove takes a node without children out of the tree. If its parent waits for that, the parent is checked again.
func (l *loop) remove(n *node, waits []*wait) {
	c := l.c
	path := n.path()
	c.mu.Lock()
	c.tree.remove(n)
	c.publish(path, n.value, nil)
	c.mu.Unlock()
	delete(l.armed, n)
	if t := l.tasks[path]; t != nil && t.state == reading {
		t.useless = true // the answer may be older than what says that the node is gone
	}
	if p := n.parent; p != nil && p.gone && p.children.len() == 0 {
		p.gone = false
		l.want(p.path(), ask{node: true}, waits)
	}
}

// refuse takes in that a node must not be read: neither it nor what is below it is shown, and it is tried again
// later, or at once if that is wanted.
func (l *loop) refuse(t *task) {
	t.expects = nil
	if t.path == l.c.path {
		l.setRootErr(zk.ErrNoAuth)
	}
	if n := l.c.tree.find(t.path); n != nil {
		l.removeAll(n, t.now)
	}
	t.failed++
	// For a Sync that began after the request was sent this will not do: the node may be read by now, and nobody tells of that.
	t.now, t.next = t.now[:t.early:t.early], slices.Concat(t.now[t.early:], t.next)
	again := t.wanted != (ask{}) || len(t.next) > 0
	t.wanted = ask{node: true, list: true, deep: true}
	if !again {
		l.pause(t, refused, backedOff(minRefused, maxRefused, t.failed))
	}
}

// removeAll takes out a node and all below it. If its parent waits for that, the parent is checked again.
func (l *loop) removeAll(n *node, waits []*wait) {
	l.removeBelow(n)
	l.remove(n, waits)
}

func (l *loop) removeBelow(n *node) {
	for _, child := range slices.Collect(n.children.all()) {
		l.removeAll(child, nil)
	}
}

func (l *loop) setRootErr(err error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.rootErr = err
}
