package lock

import (
	"iter"
	"slices"
	"sort"
)

// order is the children that belong to one kind of lock, sorted.
type order struct {
	driver    Driver
	name      string
	users     int // entries of ours
	keys      []string
	names     []string
	exhausted int // children whose number gives no order
}

func newOrder(q *Queue, children iter.Seq[string]) *order {
	o := &order{driver: q.driver, name: q.name}
	for name := range children {
		if key, ours := o.driver.SortKey(name, o.name); ours {
			o.keys = append(o.keys, key)
			o.names = append(o.names, name)
			if exhausted(name) {
				o.exhausted++
			}
		}
	}
	sort.Sort(o)
	return o
}

// Len, Less and Swap are for sort.Sort.
func (o *order) Len() int { return len(o.keys) }

func (o *order) Less(i, j int) bool {
	return o.keys[i] < o.keys[j] || o.keys[i] == o.keys[j] && o.names[i] < o.names[j]
}

func (o *order) Swap(i, j int) {
	o.keys[i], o.keys[j] = o.keys[j], o.keys[i]
	o.names[i], o.names[j] = o.names[j], o.names[i]
}

func (o *order) insert(name string) {
	key, ours := o.driver.SortKey(name, o.name)
	if !ours {
		return
	}
	if exhausted(name) {
		o.exhausted++
	}
	i, found := o.search(key, name)
	if found {
		return
	}
	o.keys = slices.Insert(o.keys, i, key)
	o.names = slices.Insert(o.names, i, name)
}

func (o *order) remove(name string) {
	key, ours := o.driver.SortKey(name, o.name)
	if !ours {
		return
	}
	if exhausted(name) {
		o.exhausted--
	}
	if i, found := o.search(key, name); found {
		o.keys = slices.Delete(o.keys, i, i+1)
		o.names = slices.Delete(o.names, i, i+1)
	}
}

// search finds the index of a child: by key, and by name if keys are equal.
func (o *order) search(key, name string) (int, bool) {
	i, _ := slices.BinarySearch(o.keys, key)
	for i < len(o.keys) && o.keys[i] == key && o.names[i] < name {
		i++
	}
	return i, i < len(o.keys) && o.keys[i] == key && o.names[i] == name
}
