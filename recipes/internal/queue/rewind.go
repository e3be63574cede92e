package queue

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/recipes/internal/queue/view"
)

// rewind makes the numbers begin again long before they overflow, by deleting a lock's path, if it is as this
// package creates it: without data, and with the client's ACL. ZooKeeper refuses that while anybody is in the
// queue. Those who come after it create the path again.
func (q *Queue) rewind(ctx context.Context, path string) {
	if !nearEnd(path) {
		return
	}
	acl, stat, err := q.client.GetACL(ctx, q.base)
	if err != nil || stat.DataLength > 0 || !sameACL(acl, engine.Of(q.client).ACL(q.base)) {
		return
	}
	// It may fail: the next one to leave tries again.
	_ = q.client.Delete(ctx, q.base, stat.Version)
}

// nearEnd reports whether the number of our node is so high that the path's numbers should begin again.
func nearEnd(path string) bool {
	n := view.Number(path)
	return n >= rewindAt || n < 0
}

// sameACL reports whether a node has the ACL that it was to be created with. A server replaces the scheme "auth" by
// what the client has presented.
func sameACL(has, given []zk.ACL) bool {
	if slices.ContainsFunc(given, func(a zk.ACL) bool { return a.Scheme == "auth" }) {
		return true
	}
	return slices.Equal(has, given)
}

// rewindAt is where numbers are high enough to start again when the queue is empty.
const rewindAt = 1 << 30
