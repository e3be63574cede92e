package view

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrSequenceExhausted is lock.ErrSequenceExhausted.
var ErrSequenceExhausted = errors.New("sequence numbers exhausted")

// Order selects the children that belong to one kind of lock, and sorts them by their keys. It must
// be comparable: a view sorts once for all equal Orders.
type Order interface {
	SortKey(child string) (key string, ours bool)
}

// Sort returns the children that belong to a lock, sorted. It returns ErrSequenceExhausted if one
// of them has a number that overflowed.
func Sort(o Order, children []string) ([]string, error) {
	// Indices are sorted, since that moves no strings: twice as fast.
	keys, places := make([]string, len(children)), make([]int32, 0, len(children))
	for i, name := range children {
		key, ours := o.SortKey(name)
		switch {
		case !ours:
			continue
		case exhausted(name):
			return nil, ErrSequenceExhausted
		}
		keys[i], places = key, append(places, int32(i))
	}
	slices.SortFunc(places, func(i, j int32) int {
		if c := strings.Compare(keys[i], keys[j]); c != 0 {
			return c
		}
		return strings.Compare(children[i], children[j])
	})
	names := keys[:len(places)] // the keys are not needed any more
	for to, from := range places {
		names[to] = children[from]
	}
	return names, nil
}

// Member is a node of this client that the view has admitted. Its methods must not block.
type Member interface {
	Name() string
	Order() Order // by which the queue of the node is sorted

	// Joined is called when another node of the same Order has been created, and the node was the
	// only one before.
	Joined()

	// Deleted is called when the node has been deleted.
	Deleted()

	// ViewEnded is called when the view has ended: list from now on.
	ViewEnded()
}

// ranking is the children that belong to one kind of lock, sorted.
type ranking struct {
	order   Order
	ranks   []rank
	members map[string]Member // by the name of their node
}

type rank struct {
	key, name string
	exhausted bool
}

func (r rank) compare(other rank) int {
	if c := strings.Compare(r.key, other.key); c != 0 {
		return c
	}
	return strings.Compare(r.name, other.name)
}

// newRanking sorts children, of which there are at most so many.
func newRanking(o Order, children iter.Seq[string], most int) *ranking {
	r := &ranking{order: o, ranks: make([]rank, 0, most), members: make(map[string]Member)}
	for name := range children {
		if one, ours := r.rank(name); ours {
			r.ranks = append(r.ranks, one)
		}
	}
	slices.SortFunc(r.ranks, rank.compare)
	return r
}

// rank returns where a child belongs, if it does.
func (r *ranking) rank(name string) (one rank, ours bool) {
	key, ours := r.order.SortKey(name)
	return rank{key, name, ours && exhausted(name)}, ours
}

// names returns the names in order, or ErrSequenceExhausted.
func (r *ranking) names() ([]string, error) {
	names := make([]string, len(r.ranks))
	for i, r := range r.ranks {
		if r.exhausted {
			return nil, ErrSequenceExhausted
		}
		names[i] = r.name
	}
	return names, nil
}

// insert adds a name. It returns the name that was the only one until then, or "".
func (r *ranking) insert(name string) (only string) {
	one, ours := r.rank(name)
	if !ours {
		return ""
	}
	if len(r.ranks) == 1 {
		only = r.ranks[0].name
	}
	i, _ := slices.BinarySearchFunc(r.ranks, one, rank.compare)
	r.ranks = slices.Insert(r.ranks, i, one)
	return only
}

// remove removes a name.
func (r *ranking) remove(name string) {
	r.ranks = slices.DeleteFunc(r.ranks, func(one rank) bool { return one.name == name })
}

// exhausted reports whether a node's number gives no order any more. The server's counter becomes
// negative after the largest number, which it uses more than once.
func exhausted(child string) bool {
	n := Number(child)
	return n < 0 || n >= math.MaxInt32
}

// Number returns the sequence number of a child, or 0 if its name has none.
func Number(child string) int64 {
	_, n, _ := Sequence(child, "")
	return int64(n)
}

// Sequence returns the number that the server gave to a child whose name ends with name and that
// number, and its digits. It searches at the end of the child's name, since name may contain digits
// as well. New ClickHouse Keepers continue to count after the largest number: then n
// is the largest.
func Sequence(child, name string) (digits string, n int32, ok bool) {
	// The server prints %010d: ten characters, or eleven for a minus and ten digits.
	for _, length := range []int{10, 11} {
		at := len(child) - length
		if at < len(name) || !strings.HasSuffix(child[:at], name) {
			continue
		}
		digits = child[at:]
		if digits[0] == '+' || length == 11 && digits[0] != '-' {
			continue
		}
		if v, err := strconv.ParseInt(digits, 10, 64); err == nil && v >= math.MinInt32 {
			return digits, int32(min(v, math.MaxInt32)), true
		}
	}
	return "", 0, false
}
