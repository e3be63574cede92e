package discovery

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// offer holds the instances that a Watch offers to callers. Curator's Java library deletes and
// creates its nodes at every reconnect, although the service never stopped. For a moment the
// service has no instance then, and an empty list helps no caller. So an instance whose node was
// deleted stays in reserve for a grace. It is offered only if no other instance can be.
//
// A disabled instance is not kept in reserve, nor one whose [Registration.Drain] was called.
type offer[T any] struct {
	live []*Instance[T] // all instances
	gone []departed[T]  // in the order of their deletions; earlier elements are never changed
	left goodbyes       // instances that were drained
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

// take notes goodbyes.
func (o *offer[T]) take(left goodbyes) {
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

// goodbyes are the notices of [Registration.Drain] in the data of the service's node: instances
// that are about to be deleted, and will not be created again soon. Java's readers ignore these
// data.
//
// They map the name of an instance's node to a zxid at which the node existed. A node of that name
// that was created later has not said goodbye.
type goodbyes map[string]int64

// keptGoodbyes limits the number of goodbyes in a service's node. A Watch needs the goodbyes of its
// grace.
const keptGoodbyes = 100

// of reports whether the instance with that node has said goodbye.
func (g goodbyes) of(n znode) bool {
	_, name := framework.Split(n.path)
	return g[name] >= n.czxid
}

// add adds a goodbye, and drops the oldest ones above keptGoodbyes.
func (g goodbyes) add(name string, zxid int64) {
	g[name] = zxid
	for _, oldest := range slices.SortedFunc(maps.Keys(g), func(a, b string) int { return cmp.Compare(g[a], g[b]) }) {
		if len(g) <= keptGoodbyes {
			break
		}
		delete(g, oldest)
	}
}

type goodbyesJSON struct {
	Leaving goodbyes `json:"leaving"`
}

func decodeGoodbyes(data []byte) goodbyes {
	var g goodbyesJSON
	if json.Unmarshal(data, &g) != nil || g.Leaving == nil { // other data are none
		return goodbyes{}
	}
	return g.Leaving
}

func (g goodbyes) encode() []byte {
	data, _ := marshal(goodbyesJSON{g}) // names and numbers can be written
	return data
}
