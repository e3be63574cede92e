package cache

import (
	"hash/maphash"
	"iter"
)

// children are the children of a node, a hash table with linear probing. A map would take 20 to 40 bytes more for each
// child: it keeps the name a second time, and does not become smaller. The methods that change nothing may be
// called with nil.
type children struct {
	slots []*node // their number is a power of two, and a quarter of them at least is nil
	count int
}

// seed keeps those who choose names from choosing ones that share a slot.
var seed = maphash.MakeSeed()

func (c *children) len() int {
	if c == nil {
		return 0
	}
	return c.count
}

// get returns the child of that name, or nil.
func (c *children) get(name string) *node {
	if c.len() == 0 {
		return nil
	}
	return c.slots[c.slot(name)]
}

// slot returns where the child of that name is, or where it belongs.
func (c *children) slot(name string) int {
	last := len(c.slots) - 1
	i := int(maphash.String(seed, name)) & last
	for c.slots[i] != nil && c.slots[i].name != name {
		i = (i + 1) & last
	}
	return i
}

// all iterates in no order. Nothing must be added or removed meanwhile.
func (c *children) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if c == nil {
			return
		}
		for _, n := range c.slots {
			if n != nil && !yield(n) {
				return
			}
		}
	}
}

// add takes in a child of a new name.
func (c *children) add(n *node) {
	if 4*(c.count+1) > 3*len(c.slots) {
		c.resize(max(4, 2*len(c.slots)))
	}
	c.slots[c.slot(n.name)] = n
	c.count++
}

// remove takes out the child of that name, which must be there.
func (c *children) remove(name string) {
	i, last := c.slot(name), len(c.slots)-1
	c.slots[i] = nil
	c.count--
	// Those behind it may have passed its slot on the way to theirs.
	for i = (i + 1) & last; c.slots[i] != nil; i = (i + 1) & last {
		n := c.slots[i]
		c.slots[i] = nil
		c.slots[c.slot(n.name)] = n
	}
	if len(c.slots) > 4 && 8*c.count < len(c.slots) {
		c.resize(len(c.slots) / 2)
	}
}

func (c *children) resize(slots int) {
	old := c.slots
	c.slots = make([]*node, slots)
	for _, n := range old {
		if n != nil {
			c.slots[c.slot(n.name)] = n
		}
	}
}
