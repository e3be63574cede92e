package lock

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
)

// rewind makes the numbers begin again long before they overflow, by deleting a lock's path, if it is as this
// package creates it: without data, and with the client's ACL. ZooKeeper refuses that while anybody is in the
// queue. Those who come after it create the path again.
func (q *Queue) rewind(ctx context.Context, path string) {
	if !nearEnd(path) {
		return
	}
	acl, stat, err := q.client.GetACL(ctx, q.base)
	if err != nil || stat.DataLength > 0 || !sameACL(acl, clientapi.DefaultACL(q.client, q.base)) {
		return
	}
	// It may fail: the next one to leave tries again.
	_ = q.client.Delete(ctx, q.base, stat.Version)
}

// nearEnd reports whether the number of our node is so high that the path's numbers should begin again.
func nearEnd(path string) bool {
	_, own := framework.Split(path)
	return number(own) >= rewindAt || exhausted(own)
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

// exhausted reports whether a node's number gives no order any more. The server's counter becomes negative
// after the largest number, which it uses more than once.
func exhausted(child string) bool {
	// Nearly all are far from it, and need not be parsed.
	if digits := child[max(0, len(child)-10):]; digits != "" && digits[0] != '-' && digits < "2147483647" {
		return false
	}
	n := number(child)
	return n < 0 || n >= math.MaxInt32
}

// number returns the number at the end of a name: the last ten characters, with their sign. In the most
// negative numbers the sign is one character further ahead, and the rest is larger than any number of a server.
// A name without a number has 0.
func number(child string) int64 {
	n, err := strconv.ParseInt(child[max(0, len(child)-10):], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// list returns the names of the children that belong to this lock, in the driver's
// order.
func (q *Queue) list(ctx context.Context) ([]string, error) {
	all, _, err := q.client.Children(ctx, q.base)
	if err != nil {
		return nil, err
	}
	return q.sorted(all)
}

// sorted returns those of all children that belong to this lock, in the driver's order.
func (q *Queue) sorted(all []string) ([]string, error) {
	type entry struct{ key, name string }
	entries := make([]entry, 0, len(all))
	for _, name := range all {
		key, ours := q.driver.SortKey(name, q.name)
		if !ours {
			continue
		}
		if exhausted(name) {
			return nil, ErrSequenceExhausted
		}
		entries = append(entries, entry{key, name})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names, nil
}
