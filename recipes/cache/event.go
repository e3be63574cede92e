package cache

import (
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// event takes in what a persistent watch tells.
func (l *loop) event(e zk.Event) {
	if !l.c.covers(e.Path) {
		return
	}
	if e.Path == l.c.path {
		l.rootEvent(e)
		return
	}
	l.pathsAreRight = true
	n, t := l.c.tree.find(e.Path), l.tasks[e.Path]
	known := n != nil && !t.busy()
	switch e.Type {
	case zk.EventNodeCreated:
		l.created(e.Path)
	case zk.EventNodeDataChanged:
		if n == nil {
			l.created(e.Path)
		} else {
			l.want(e.Path, ask{node: true}, nil)
		}
	case zk.EventNodeDeleted:
		if t != nil && t.state == reading {
			t.useless = true
			t.wanted.node = true
		}
		if n != nil && n.children.len() > 0 {
			// Its children went first, and are being checked, or it is there again. Whatever is found below it is new, and not
			// the child of the node that the tree has.
			l.doubt(n, l.want(e.Path, ask{node: true}, nil))
			break
		}
		waits := t.waits()
		if n != nil {
			l.remove(n, waits)
		} else if dir, _ := framework.Split(e.Path); l.c.tree.find(dir) == nil {
			l.created(e.Path) // its parent may be there by now
		}
		// That it is gone is as new as what they wait for. A node that comes and goes faster than it can be read would keep them for ever.
		if t != nil {
			t.now, t.early, t.next = nil, 0, nil
		}
		for _, w := range waits {
			w.release()
		}
	}
	// As with the root. The path may be that of another watch of the client, of a cache further down.
	if t := l.tasks[e.Path]; known && t.busy() {
		t.expects = n.value
	}
}

// doubt notes that a node of the tree was deleted, so that nothing is added below it until a read that begins from now on has found
// the next one.
func (l *loop) doubt(n *node, t *task) { n.read, t.doubted = 0, t.reads }

// created is the creation of a node below the root, or a change or the end of one that is not known: servers do not tell of a creation
// those who may not read the node then. If its parent is in the tree the node is read. If the parent is being read, or is the
// root, that is read and listed again. If the parent must not be read it is tried again later, with its list. Otherwise the
// parent is not known either.
func (l *loop) created(path string) {
	dir, _ := framework.Split(path)
	t := l.tasks[dir]
	switch {
	case l.c.tree.find(dir) != nil:
		l.want(path, ask{node: true, list: true}, nil)
	case t != nil && t.state == refused:
	case t.busy(), dir == l.c.path:
		l.want(dir, ask{node: true, list: true}, nil)
	default:
		l.created(dir)
	}
}

// rootEvent is event for the root. What it says is not believed but looked up: there are servers whose events
// carry the path of the watch instead of that of the node. An event that was sent after the last read of the root
// must find the root changed, so one that does not gives such a server away. If the root is being read there is no
// telling; then everything is read again, unless the server has reported another path before.
func (l *loop) rootEvent(e zk.Event) {
	if e.Type == zk.EventNodeChildrenChanged {
		return
	}
	root, reading := l.c.tree.root, l.tasks[l.c.path].busy()
	a := ask{node: true, list: e.Type != zk.EventNodeDataChanged}
	recursive := l.c.cfg.depth != 0
	a.deep = recursive && reading && !l.pathsAreRight
	t := l.want(l.c.path, a, nil)
	if root != nil && e.Type == zk.EventNodeDeleted {
		l.doubt(root, t)
	}
	if recursive && !reading && root != nil {
		t.expects = root.value
	}
}
