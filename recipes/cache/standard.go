package cache

import (
	"reflect"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// watchPair is the standard watches of a node, where there are no persistent ones.
type watchPair struct {
	data     *framework.Watch // its data and its deletion
	children *framework.Watch // its list of children; nil if that is not wanted
}

// and returns the newer of each.
func (p watchPair) and(newer watchPair) watchPair {
	if newer.data != nil {
		p.data = newer.data
	}
	if newer.children != nil {
		p.children = newer.children
	}
	return p
}

// fired says what to read again.
func (p watchPair) fired() ask { return ask{node: fired(p.data), list: fired(p.children)} }

func fired(w *framework.Watch) bool {
	if w == nil {
		return false
	}
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// done is a channel that is never closed if there is no watch.
func done(w *framework.Watch) <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.Done()
}

// watchedNode is a node whose watches are waited for.
type watchedNode struct {
	path string
	pair watchPair
}

// watch has a node that was read, read again when one of its standard watches fires.
func (l *loop) watch(path string) {
	if !l.oneShot {
		return
	}
	if pair, found := l.watchesOf(path); found {
		l.unwatched = append(l.unwatched, watchedNode{path, pair})
	}
}

// watchGroup is how many nodes one goroutine waits for: a goroutine costs more than all the rest of a node.
const watchGroup = 16

// awaitWatches starts goroutines for what watch has collected. During a load it waits until there is enough for a group.
func (l *loop) awaitWatches() {
	for len(l.unwatched) >= watchGroup || len(l.unwatched) > 0 && len(l.ready) == 0 {
		group := slices.Clone(l.unwatched[:min(watchGroup, len(l.unwatched))])
		l.unwatched = l.unwatched[len(group):]
		l.c.wg.Go(func() { l.await(group) }) // ends with the epoch, or when all have fired
	}
	if len(l.unwatched) == 0 {
		l.unwatched = nil
	}
}

// await has each node of a group read again when one of its watches has fired.
func (l *loop) await(group []watchedNode) {
	receive := func(c <-chan struct{}) reflect.SelectCase {
		return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
	}
	cases := []reflect.SelectCase{receive(l.e.ctx.Done())}
	for _, h := range group {
		cases = append(cases, receive(done(h.pair.data)), receive(done(h.pair.children)))
	}
	for range group {
		fired, _, _ := reflect.Select(cases)
		if fired == 0 || !l.e.alive() {
			return
		}
		n := (fired - 1) / 2
		h := group[n]
		l.c.inbox.post(message{l.e, func(l *loop) { l.reread(h.path, h.pair) }})
		cases[1+2*n].Chan, cases[2+2*n].Chan = reflect.Value{}, reflect.Value{}
	}
}

// watchesOf returns the watches that are set for path.
func (l *loop) watchesOf(path string) (watchPair, bool) {
	n := l.c.tree.find(path)
	if n == nil {
		return watchPair{data: l.rootWatch}, path == l.c.path && l.rootWatch != nil
	}
	pair, found := l.armed[n]
	return pair, found
}

// reread reads again what the watches of path tell of, if they are those that are set now.
func (l *loop) reread(path string, pair watchPair) {
	if now, found := l.watchesOf(path); found && now == pair && !l.tasks[path].busy() {
		l.want(path, l.toRead(path, pair), nil)
	}
}

// fired says what the standard watches of a node that was just read tell of already.
func (l *loop) fired(path string) ask {
	if !l.oneShot {
		return ask{}
	}
	pair, _ := l.watchesOf(path)
	return l.toRead(path, pair)
}

// toRead says what to read when watches of path have fired, if they have.
func (l *loop) toRead(path string, pair watchPair) ask {
	a := pair.fired()
	if deleted(pair.children) {
		a.node = true
	}
	if l.c.tree.find(path) == nil && a.node {
		a.list = true
	}
	return a
}

// deleted reports whether a watch has told of the deletion of the node.
func deleted(w *framework.Watch) bool { return w != nil && w.Event().Type == zk.EventNodeDeleted }

// collect has everything read whose watch has fired, for a Sync that cannot wait until the goroutines have told. Of
// what is being read it is not known whether its new watch has fired, so that is read once more.
func (l *loop) collect() {
	for _, t := range l.tasks {
		if t.state == reading {
			t.wanted = t.wanted.and(ask{node: t.asked.node, list: t.asked.list})
		}
	}
	if l.c.tree.root == nil && fired(l.rootWatch) {
		l.want(l.c.path, ask{node: true, list: true}, nil)
	}
	for n, pair := range l.armed {
		if pair.fired() != (ask{}) {
			path := n.path()
			l.want(path, l.toRead(path, pair), nil)
		}
	}
}
