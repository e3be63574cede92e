package tree

import (
	"slices"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// ReapDue returns the sorted paths of the empty containers and TTL nodes that are due for deletion.
func (t *Tree) ReapDue(now time.Time) []string {
	var due []string
	for path, n := range t.reapable {
		if len(n.children) > 0 {
			continue
		}
		// A container that never had a child is spared, at least for a while: its first child may
		// be about to be created.
		used, age := n.Container && n.Stat.Cversion > 0, now.Sub(time.UnixMilli(n.Stat.Mtime))
		unused := n.Container && t.Rules.NeverUsed > 0 && age > t.Rules.NeverUsed
		expired := n.TTL > 0 && age > n.TTL
		if used || unused || expired {
			due = append(due, path)
		}
	}
	slices.Sort(due)
	return due
}

// Reap deletes a container or TTL node. It fails if the node does not exist or has a child.
func (x *Txn) Reap(path string) proto.Code {
	n := x.Tree.reapable[path]
	switch {
	case n == nil:
		return proto.NoNode
	case len(n.children) > 0:
		return proto.NotEmpty
	}
	x.Remove(path)
	return proto.OK
}
