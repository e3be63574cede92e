package lock

import (
	"slices"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/lock/internal/view"
)

// kinds are the names of the nodes of Curator's and kazoo's locks, before their numbers. Locks of
// different kinds at one path do not exclude each other. A LeaderSelector is a mutex.
var kinds = []struct{ name, kind string }{
	{"__READ__", "read/write lock"},
	{"__WRIT__", "read/write lock"},
	{"__lock__", "kazoo lock"},
	{"__rlock__", "kazoo lock"},
	{"latch-", "leader latch"},
	{"lock-", "mutex"},
}

// kindOf returns the kind of lock that nodes with this name belong to, or "".
func kindOf(name string) string {
	for _, k := range kinds {
		if k.name == name {
			return k.kind
		}
	}
	return ""
}

// otherKind returns the kind of lock, other than the Queue's, that children of its path belong to,
// or "". The two directories are a semaphore's.
func (q *Queue) otherKind(children []string) string {
	own := kindOf(q.name)
	for _, child := range children {
		if _, ours := q.order.SortKey(child); ours {
			continue
		}
		for _, k := range kinds {
			if _, _, found := view.Sequence(child, k.name); found && k.kind != own {
				return k.kind
			}
		}
	}
	if slices.Contains(children, "locks") && slices.Contains(children, "leases") {
		return "semaphore"
	}
	return ""
}

// warned is the key of a client's value for a path at which another kind of lock was found.
type warned struct{ path string }

// sort returns the children that belong to this lock, in the driver's order. It warns, once for
// each path and client, if all contains nodes of another kind of lock.
func (q *Queue) sort(all []string) ([]string, error) {
	children, err := view.Sort(q.order, all)
	if err == nil && len(children) < len(all) {
		q.warnOfOthers(all)
	}
	return children, err
}

func (q *Queue) warnOfOthers(all []string) {
	other := q.otherKind(all)
	if other == "" {
		return
	}
	c := engine.Of(q.client)
	if _, before := c.Values().LoadOrStore(warned{c.Real(q.path)}, true); !before {
		c.Logger().Warn("another kind of lock is in use at this path: they do not exclude each other",
			"path", q.path, "name", q.name, "other", other)
	}
}

// everything is the order of all children of a path, of whatever kind.
type everything struct{}

func (everything) SortKey(child string) (key string, ours bool) { return child, true }

// lookAtView warns of another kind of lock if a view shows one: a Queue that begins with a view does
// not list. It does nothing after the first call.
func (q *Queue) lookAtView(v *view.View) {
	q.first.Do(func() {
		if all, ok, err := v.Names(everything{}); ok && err == nil {
			q.warnOfOthers(all)
		}
	})
}
