package discovery

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// offer has the instances that a Watch offers to callers. Curator's Java library deletes and
// creates its nodes at every reconnect, although the service never stopped. For a moment the
// service has no instance then, and an empty list helps no caller. So an instance whose node was
// deleted stays in reserve for a grace. It is offered only if no other instance can be.
//
// A disabled instance is not kept in reserve, nor one whose [Registration.Drain] was called.
type offer[T any] struct {
	live []*Instance[T] // all instances
	gone []departed[T]  // in the order of their deletions; earlier elements are never changed
	left goodbye        // the last one
}

// departed is an instance that is kept in reserve.
type departed[T any] struct {
	*Instance[T]
	until time.Time
}

// replace sets the live instances. deleted is the instance whose node was deleted, or nil.
func (o *offer[T]) replace(live []*Instance[T], deleted *Instance[T], now time.Time, grace time.Duration) {
	o.live = live
	if deleted == nil || deleted.Disabled || grace == 0 || o.left.of(deleted.znode()) {
		return
	}
	for len(o.gone) > 0 && !now.Before(o.gone[0].until) {
		o.gone = o.gone[1:]
	}
	o.gone = append(o.gone, departed[T]{deleted, now.Add(grace)})
}

// take notes a goodbye.
func (o *offer[T]) take(left goodbye) {
	o.left = left
	// Other goroutines read the old slice.
	o.gone = slices.DeleteFunc(slices.Clone(o.gone), func(d departed[T]) bool { return left.of(d.znode()) })
}

// reserve returns the instances that were deleted within the grace, and how long the first of them
// stays.
func (o *offer[T]) reserve(now time.Time) (list []*Instance[T], left time.Duration) {
	for _, d := range o.gone {
		if _, back := slices.BinarySearchFunc(o.live, d.path, comparePath[T]); back || !now.Before(d.until) {
			continue
		}
		if len(list) == 0 {
			left = d.until.Sub(now)
		}
		list = append(list, d.Instance)
	}
	return list, left
}

// goodbye is the notice of a Drain in the data of the service's node: an instance is about to be
// deleted, and will not be created again soon. Java's readers ignore these data.
type goodbye struct {
	name  string // of the instance's node
	mzxid int64  // of the service's node: a node that was created later has not said goodbye
}

// of reports whether it is the goodbye of the instance with that node.
func (g goodbye) of(n znode) bool {
	_, name := framework.Split(n.path)
	return g.name == name && g.mzxid > n.czxid
}

type goodbyeJSON struct {
	Leaving string `json:"leaving"`
}

func decodeGoodbye(data []byte, mzxid int64) goodbye {
	var g goodbyeJSON
	_ = json.Unmarshal(data, &g) // other data are none
	return goodbye{g.Leaving, mzxid}
}

func encodeGoodbye(path string) []byte {
	_, name := framework.Split(path)
	data, _ := marshal(goodbyeJSON{name})
	return data
}
